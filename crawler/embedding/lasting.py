"""A resource of an object that is open during its `async with` block."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, TypeVar

from crawler.errors import SessionClosed

_T = TypeVar("_T")


class Lasting(Generic[_T]):
    """Holds the resource while open, else nothing. closed: the message of SessionClosed."""

    def __init__(self, closed: str) -> None:
        self._closed = closed
        self._context: AbstractAsyncContextManager[_T] | None = None
        self._thing: _T | None = None

    async def open(self, context: AbstractAsyncContextManager[_T]) -> None:
        self._thing = await context.__aenter__()
        self._context = context

    async def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; takes the arguments of `__aexit__`. Closing twice is not an error."""
        context, self._context, self._thing = self._context, None, None
        if context is not None:
            await context.__aexit__(kind, error, trace)

    @property
    def now(self) -> _T | None:
        return self._thing

    def get(self) -> _T:
        """Raises SessionClosed."""
        if self._thing is None:
            raise SessionClosed(self._closed)
        return self._thing
