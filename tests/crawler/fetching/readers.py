"""Readers of bodies for tests: made of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crawler.fetching.request import BodySink, Head


@dataclass
class Reads:
    """A `BodyReader`. wants: is the body read? into: where to."""

    wants: Callable[[Head], bool] = lambda _: True
    into: Callable[[Head], BodySink | None] = lambda _: None

    def wants_body(self, head: Head) -> bool:
        return self.wants(head)

    def sink(self, head: Head) -> BodySink | None:
        return self.into(head)
