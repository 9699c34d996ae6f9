"""The fetcher of a crawl whose config can be reloaded while requests are in progress."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self

from crawler.clock import Clock, ContactDeadline
from crawler.config import Config
from crawler.fetching.cookies import Cookies
from crawler.fetching.fetcher import AiohttpFetcher
from crawler.fetching.request import Answer, Failure, Request


class ReloadableFetcher:
    """A `Fetcher` over an AiohttpFetcher that can be replaced; an async context manager.

    A request ends under the config it began under; later ones use the newest. A replaced fetcher is
    closed once nothing is in progress on it, which is checked at the next replacement and at the
    end. Raises ConfigError if a secret or certificate named in the config cannot be read.
    """

    def __init__(
        self, config: Config, clock: Clock, *, deadline: ContactDeadline | None = None
    ) -> None:
        self._config = config
        self._clock = clock
        self._deadline = deadline
        self._current = self.create(config, None)
        self._replaced: list[AiohttpFetcher] = []

    def create(self, config: Config, cookies: Cookies | None) -> AiohttpFetcher:
        return AiohttpFetcher(config, self._clock, cookies=cookies, deadline=self._deadline)

    async def __aenter__(self) -> Self:
        await self._current.__aenter__()
        return self

    async def __aexit__(self, *args: object) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for fetcher in (self._current, *self._replaced):
                stack.push_async_exit(fetcher)

    def fetch(self, request: Request) -> Coroutine[Any, Any, Answer | Failure]:
        return self._current.fetch(request)

    def address_of(self, host: str) -> Coroutine[Any, Any, str | Failure]:
        return self._current.address_of(host)

    def prepare(self, config: Config) -> AiohttpFetcher | None:
        """Create the fetcher for a new config, reading secrets and certificates again.

        Returns None where the one in use serves. Raises ConfigError, and changes nothing.
        """
        if _inputs(config) == _inputs(self._config) and not _has_secrets(config):
            return None
        return self.create(config, self._current.cookies)

    @contextlib.asynccontextmanager
    async def replacing(
        self, config: Config, fetcher: AiohttpFetcher | None
    ) -> AsyncIterator[None]:
        """Switch to what `prepare` returned for a config.

        Whatever else depends on the config is to be switched in the body of the `async with`, which
        must not await: then no request is made under a name that robots.txt was not read for.
        """
        if fetcher is not None:
            await fetcher.__aenter__()
        yield
        self._config = config
        if fetcher is None:
            return
        fetcher.take_over(self._current)
        self._replaced.append(self._current)
        self._current = fetcher
        idle = [one for one in self._replaced if not one.busy]
        self._replaced = [one for one in self._replaced if one.busy]
        for one in idle:
            await one.__aexit__(None, None, None)


def _inputs(config: Config) -> tuple[object, ...]:
    """The parts of a config that a fetcher depends on."""
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
    """Whether files or variables are read, whose contents may have changed."""
    keys = ("credentials", "ca_file")
    return any(value for key in keys for _, value in config.given.all_of("fetch", key))
