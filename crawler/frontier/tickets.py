"""A place in a queue for a permit: the frontier serves it, one task waits for it."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class FrontierClosedError(Exception):
    """Raised when no permit will be granted: the crawl is ending, or the host is no longer
    leased."""


class Ticket(Generic[T]):
    """A wait for a permit, which the frontier grants or refuses once. `wait` is for the task that
    asked.

    The frontier never waits for a ticket, so it works without an event loop (in tests, for one).
    """

    __slots__ = ("_future", "_permit", "_refusal", "done")

    def __init__(self) -> None:
        self.done = False
        self._permit: T | None = None
        self._refusal: str | None = None
        self._future: asyncio.Future[None] | None = None

    def serve(self, permit: T | None) -> None:
        self._permit = permit
        self.done = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def refuse(self, reason: str) -> None:
        self._refusal = reason
        self.serve(None)

    def withdraw(self) -> T | None:
        """Give up waiting; return the permit that was served meanwhile, if any."""
        self.done = True
        permit, self._permit = self._permit, None
        return permit

    async def wait(self) -> T:
        """Return the permit. Raises FrontierClosedError when turned away; after a cancellation call
        `withdraw` and give back what it returns."""
        if not self.done:
            self._future = asyncio.get_running_loop().create_future()
            await self._future
        if self._permit is None:
            raise FrontierClosedError(self._refusal or "the crawl is ending")
        return self._permit
