"""The network of a crawl that may read its config again: a fetcher that is exchanged while it
works."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self

from crawler.config import Config
from crawler.fetching.cookies import Cookies
from crawler.fetching.request import Answer, Failure, Fetcher, Request


class Closable(Fetcher, Protocol):
    """A fetcher that is opened and closed."""

    cookies: Cookies

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    @property
    def busy(self) -> bool:
        """Is a request, or the lookup of a name, under way?"""
        ...

    def take_over(self, before: object) -> None:
        """It takes the place of `before`."""
        ...


class Network:
    """A `Fetcher`. `make(config, cookies)` makes the one that a config describes, with the cookies
    of the one before it, and raises ConfigError where that cannot be.

    A request ends under the config it was begun under; those begun later go by the newest. One that
    was exchanged is closed when nothing is under way on it any more: looked for at the next
    exchange, and at the end.
    """

    def __init__(self, config: Config, make: Callable[[Config, Cookies | None], Closable]) -> None:
        self._config = config
        self._make = make
        self._now = make(config, None)
        self._before: list[Closable] = []

    async def __aenter__(self) -> Self:
        await self._now.__aenter__()
        return self

    async def __aexit__(self, *args: object) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for one in (self._now, *self._before):
                stack.push_async_exit(one)

    def fetch(self, request: Request) -> Coroutine[Any, Any, Answer | Failure]:
        return self._now.fetch(request)

    def address_of(self, host: str) -> Coroutine[Any, Any, str | Failure]:
        return self._now.address_of(host)

    def prepare(self, config: Config) -> Callable[[Callable[[], None]], Coroutine[Any, Any, None]]:
        """Make what the config asks for, secrets and certificates read again; give what puts it in
        the place of the one before, and calls what it is given in the same moment: no request is
        made as somebody whom it was not judged for. Raises ConfigError, and then nothing is
        changed."""
        unchanged = _asks(config) == _asks(self._config) and not _has_secrets(config)
        fetcher = None if unchanged else self._make(config, self._now.cookies)

        async def exchange(then: Callable[[], None]) -> None:
            self._config = config
            if fetcher is None:
                then()
                return
            await fetcher.__aenter__()
            then()
            fetcher.take_over(self._now)
            before, self._now = self._now, fetcher
            self._before.append(before)
            idle = [one for one in self._before if not one.busy]
            self._before = [one for one in self._before if one.busy]
            for one in idle:
                await one.__aexit__(None, None, None)

        return exchange


def _asks(config: Config) -> tuple[object, ...]:
    """What a fetcher is made by."""
    sites = {name: tables.get("fetch") for name, tables in config.given.sites.items()}
    return (
        config.user_agent_sent,
        config.crawl.from_,
        config.crawl.concurrency,
        config.network,
        config.fetch,
        sites,
    )


def _has_secrets(config: Config) -> bool:
    """Files may hold something else now under the same name."""
    tables = [config.given.values, *config.given.sites.values()]
    return any(
        table.get("fetch", {}).get("credentials") or table.get("fetch", {}).get("ca_file")
        for table in tables
    )
