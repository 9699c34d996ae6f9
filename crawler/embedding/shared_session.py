"""A session on the clocks, robots.txt copies and connections of another open session."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

from crawler.config import ConfigError
from crawler.embedding.lasting import Lasting
from crawler.errors import SessionClosed

_T = TypeVar("_T")


class Borrowed(Lasting[_T]):
    """What another session holds, while both are open. Closing it changes nothing for the other."""

    def __init__(self, lender: Lasting[_T]) -> None:
        super().__init__("session")
        self._lender = lender

    def get(self) -> _T:
        super().get()
        return self._lent()

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[_T]:
        """The context to open it with. Raises SessionClosed and WrongEventLoop."""
        yield self._lent()

    def _lent(self) -> _T:
        try:
            return self._lender.get()
        except SessionClosed as error:
            raise SessionClosed(
                "the session given as `share` is not open: keep it open as long as this one is used"
            ) from error


def check_alone(beside: Mapping[str, object]) -> None:
    """Check the arguments of a session with `share`. beside: those that must not be given with it,
    by name. Raises ConfigError."""
    given = [name for name, value in beside.items() if value is not None and value != ()]
    if given:
        raise ConfigError(f"{given[0]}: cannot be given with share: the other session decides it")
