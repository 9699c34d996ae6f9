"""What those that steer a run share: whether it goes on, and what it waits for."""

from __future__ import annotations

import asyncio

from msgspec import Struct, field


class Course(Struct, eq=False):
    """`stir` is set when something happened that may move hosts or end the run."""

    moved_s: float  # when something was last committed; monotonic
    stir: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: bool = False
    idle: bool = False  # nothing can move soon: where it lives on, it waits
    may_claim: bool = True  # there may be hosts in the store to be claimed now
    asked: set[str] = field(default_factory=set)  # origins whose robots.txt is asked for as due
    # At the end: host -> until (Unix seconds; None: until somebody acts), and why.
    waiting: dict[str, tuple[float | None, str]] = field(default_factory=dict)
