"""Who sends a request through a gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crawler.frontier.large_bodies import LargeBodies, LargeBodyPlace


class HeldBodies:
    """The bodies that a call holds in memory, those of its redirects among them.

    client: whose they are; clients take turns at the memory.
    """

    def __init__(self, bodies: LargeBodies, client: str) -> None:
        self._bodies = bodies
        self._client = client
        self._places: list[LargeBodyPlace] = []

    def place(self) -> LargeBodyPlace:
        """Return the place of one more body."""
        self._places.append(LargeBodyPlace(self._bodies, self._client))
        return self._places[-1]

    def leave(self) -> None:
        """None of them is in memory any longer."""
        for place in self._places:
            place.leave()


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of requests.

    name: callers of different names take turns at a host. own: whether it is the program that the
    config belongs to, and whose URLs the configured headers are for. Another program uses none of
    the configured credentials unless `fetch.lend_credentials` allows it. wait_s: how long its
    requests wait if they set no limit; None: as long as politeness requires. held: what its bodies
    may take of the memory; None: as much as they are.
    """

    name: str = ""
    own: bool = True
    wait_s: float | None = None
    held: HeldBodies | None = None


OWN: Final = Caller()
