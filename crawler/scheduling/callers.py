"""Callers that fetch on the clocks of a contact loop, as the loop knows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from crawler.frontier.origin import Origin


class Callers(Protocol):
    """The callers of a loop, who wait for what only the loop and its owner learn."""

    def settled(self, origins: Iterable[Origin]) -> None:
        """These origins' robots.txt were fetched or parsed."""
        ...

    def gave_up(self, slot: str) -> None:
        """An origin of this host was given up."""
        ...

    def contact_ended(self, slot: str) -> None:
        """The crawl has contacted this host: its pace may have changed."""
        ...

    def close(self) -> None:
        """The loop ends: no more permits are granted."""
        ...
