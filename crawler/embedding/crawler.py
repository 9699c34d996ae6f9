"""Crawler: a complete crawl as an asynchronous iterator of its pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from yarl import URL

from crawler.clock import Clock
from crawler.config import Config, check_identity, seeds_of
from crawler.documents.crawled_page import BlockedPage, CrawledPage, FailedPage
from crawler.embedding.link_choice import (
    Links,
    checked_code,
    checked_depth,
    checked_priority,
    encoded,
    link_filter,
)
from crawler.embedding.owned_resource import OwnedResource
from crawler.embedding.settings import (
    CrawlOptions,
    Given,
    Setup,
    check_storage,
    in_database,
    seed_texts,
    setup_of,
)
from crawler.fetching.fetcher import Fetcher
from crawler.observer import Observer
from crawler.scheduling.seeding import check_roots, seed_link

if TYPE_CHECKING:
    from crawler.embedding.crawl_session import CrawlSession
    from crawler.embedding.running import Running
    from crawler.events import Summary
    from crawler.processing.link_filter import LinkFilter
    from crawler.sinks.dispatch import PageFunction, WithdrawnFunction


class Crawler:
    """Crawls from seeds and yields every page it visits.

    ```python
    async with Crawler(
        ["https://example.com/"], user_agent="examplebot/1.0 (+https://example.com/bot)"
    ) as crawl:
        async for page in crawl:
            print(page.status, page.url, page.title)
    ```

    seeds: URLs, and files of URLs as "@seeds.txt", in addition to those of the config. follow,
    max_pages, max_depth, max_time_s, max_bytes, max_errors: as in `[scope]` and `[crawl]`. db: a
    database for the crawl, which later runs resume, also after a crash. Without one, the state of
    the crawl is lost when this object is closed. The other arguments are those of `PoliteSession`.

    Asking for the next page commits the one before: a crash may repeat a page, never miss one.
    sinks: functions that also receive every page, in addition to the sinks of the config; see
    `add_sink`. links: chooses among the links of pages before the page is committed: a function
    `(page, link)`, async or not, that returns a FollowLink, False to leave the link out, or True or
    None to follow it; or patterns, {"include": […], "exclude": […]}, as those of a sink. It is
    asked about links that robots directives allow and that it has not chosen in this run; then
    scope applies. If it raises an exception, the page fails with the code `internal`.

    While you process a page, others are fetched, at most `crawl.concurrency` at a time. The
    iteration ends when no URL can make progress within `crawl.patience`. Leaving the block early,
    by `break` or an exception, ends the crawl cleanly: requests in flight are completed, and unread
    pages stay queued.

    Iterate in one task only: a second one gets SecondReader. Raises ConfigError (no seed; no
    contact in the user agent), StoreRefused (the database is in use by another process) and
    StoreError.
    """

    def __init__(
        self,
        seeds: str | URL | Iterable[str | URL] = (),
        *,
        config: Given = None,
        db: str | Path | None = None,
        sinks: Iterable[PageFunction] = (),
        links: Links | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
        fetcher: Fetcher | None = None,
        **options: Unpack[CrawlOptions],
    ) -> None:
        self._setup = setup_of(
            config=config, db=db, observer=observer, clock=clock, fetcher=fetcher, **options
        )
        self._config = self._setup.config
        check_storage(in_database(self._config, db))
        self._seedless = self._config.override({"crawl": {"seeds": []}})
        self._seeds = seed_texts(seeds)
        self._called: list[tuple[PageFunction, Mapping[str, Any]]] = [(call, {}) for call in sinks]
        self._links = links
        if links is not None:
            link_filter(links)  # checks it
        self._ended: Running | None = None  # the latest, whose summary is still available
        self._running: OwnedResource[Running] = OwnedResource("crawl")

    @property
    def config(self) -> Config:
        return self._config

    # ------------------------------------------------------------ opening and closing

    async def __aenter__(self) -> Self:
        seeds = seeds_of(self._config, self._seeds)
        await self._running.open(
            _begun(
                self._setup,
                self._seedless,
                seeds,
                called=self._called,
                filter_=None if self._links is None else link_filter(self._links),
            )
        )
        self._ended = None
        return self

    async def open(self) -> Self:
        """Open it without a block, as in a notebook, and return it; `aclose` closes it. Raises as
        entering the block does."""
        return await self.__aenter__()

    async def aclose(self) -> None:
        """Close it. Does nothing if it is closed. Raises WrongEventLoop, and what broke the
        crawl."""
        await self.__aexit__(None, None, None)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = self._running.now or self._ended
        await self._running.close(kind, error, trace)

    # ------------------------------------------------------------ pages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> CrawledPage:
        page = await self._running.get().next_page()
        if page is None:
            raise StopAsyncIteration
        return page

    async def outcomes(self) -> AsyncIterator[CrawledPage | FailedPage | BlockedPage]:
        """Iterate over what becomes of every URL: its page, why it failed, or why it is blocked.

        Asking for the next outcome commits the page before, as the iteration over pages does. A
        FailedPage or BlockedPage is committed before you get it: after a crash it is not given
        again, and those you did not get are in the views `failed` and `blocked` of the database.

        A page that a sink could not take is given as a CrawledPage, and then as a FailedPage. A
        page that was fetched before its robots.txt was known, which forbids it, is given as a
        CrawledPage, and then as a BlockedPage. Raises SecondReader."""
        while (outcome := await self._running.get().next_outcome()) is not None:
            yield outcome

    async def add(
        self,
        urls: str | URL | Iterable[str | URL],
        priority: float = 0.0,
        depth: int | None = None,
        data: Any = None,
    ) -> int:
        """Add one or more seeds, also during the iteration; return how many were new. Scope is
        relative to all seeds.

        priority: URLs of a larger one are requested first, within their host; 0 for links. depth:
        number of links from a seed; None: 0. data: a JSON value of at most DATA_BYTES_MAX bytes,
        which is stored with the URL: `page.data`. If the URL is known, its data is replaced, unless
        `data` is None, and its priority stays. The target of a redirect gets the data of the URL
        that redirects, unless it is known.

        Raises ConfigError, and InvalidRequest for the other arguments."""
        running = self._running.get()
        return await _add(
            self._config,
            running,
            seeds_of(self._seedless, seed_texts(urls)),
            priority=checked_priority(priority),
            depth=checked_depth(depth),
            data=encoded(data),
        )

    async def retry_failed(self, code: str | None = None) -> int:
        """Queue failed URLs again, as if never tried, also during the iteration; return how many.
        They keep their data.

        code: only URLs that failed with this code (`FailedPage.code`, a FailureCode or its value).
        `quarantined` and None also release quarantined robots.txt files, and count them.

        Raises InvalidRequest if there is no such code, SessionClosed outside the block, and
        StoreError."""
        running = self._running.get()
        return await running.retry_failed(None if code is None else checked_code(code))

    def add_sink(
        self,
        call: PageFunction,
        *,
        include: str | Iterable[str] = (),
        exclude: str | Iterable[str] = (),
        status: Iterable[int | str] = (),
        content_types: str | Iterable[str] = (),
        noindex: bool = False,
        session_headers: bool = False,
        withdrawn: WithdrawnFunction | None = None,
    ) -> None:
        """Register `call(page)` for every page that matches, before the page is committed. Calls
        are made one after another; an `async` function is awaited, any other runs in a thread.

        The options select pages like those of a `[[sink]]` in the config: pages with a noindex
        directive are passed only with `noindex`, headers such as Set-Cookie only with
        `session_headers`. If `call` raises an exception, the page fails with the code `internal`
        and the crawl continues.

        `withdrawn(page)` is called with a Withdrawn for every page that the function may have and
        should no longer keep, for the reason in `page.reason`: "robots", "noindex", "noarchive", or
        "changed" if it is no longer of a status or type that you want.
        Raises ConfigError."""
        from crawler.sinks.build import page_callback

        wants: dict[str, Any] = {
            "include": [include] if isinstance(include, str) else list(include),
            "exclude": [exclude] if isinstance(exclude, str) else list(exclude),
            "status": list(status),
            "content_types": (
                [content_types] if isinstance(content_types, str) else list(content_types)
            ),
            "noindex": noindex,
            "session_headers": session_headers,
            "withdrawn": withdrawn,
        }
        one = page_callback(call, **wants)
        running = self._running.now
        if running is None:
            self._called.append((call, wants))
        else:
            running.sinks.add(one)

    def session(self) -> CrawlSession:
        """Return a session that fetches through this crawl: on its clocks and robots.txt copies, by
        its config, for example in a page function.

        ```python
        async for page in crawl:
            response = await crawl.session().get(f"{page.url}?format=json")
        ```

        robots.txt and politeness apply, scope and `max_pages` do not, and its responses are not
        pages of the crawl. At a host with queued URLs, the session and the crawl take turns. Its
        first request starts the crawl, which does not end while the session has requests under
        way. Its methods raise SessionClosed outside the crawl's block.
        """
        from crawler.embedding.crawl_session import CrawlSession

        return CrawlSession(self._config, self._setup.clock, self._running)

    async def summary(self) -> Summary:
        """Summarise the crawl so far: counts, limits that excluded URLs, waiting hosts.

        After the block, it summarises the crawl at its end; with `db`, from the database as it is
        now. Raises SessionClosed before the block, and StoreError."""
        running = self._running.now or self._ended
        if running is None:
            running = self._running.get()
        return await running.summary()


@contextlib.asynccontextmanager
async def _begun(
    setup: Setup,
    seedless: Config,
    seeds: Sequence[str],
    *,
    called: Sequence[tuple[PageFunction, Mapping[str, Any]]],
    filter_: LinkFilter | None,
) -> AsyncIterator[Running]:
    """Open a crawl with its seeds. It does not refer to the Crawler, whose end it would prevent."""
    from crawler.embedding.running import running  # loads what the database needs
    from crawler.sinks.build import page_callback

    callbacks = [page_callback(call, **wants) for call, wants in called]
    async with running(setup, called=callbacks, link_filter=filter_) as opened:
        await _add(setup.config, opened, seeds_of(seedless, seeds))
        yield opened


async def _add(
    config: Config,
    running: Running,
    seeds: Sequence[str],
    *,
    priority: float = 0.0,
    depth: int = 0,
    data: str | None = None,
) -> int:
    check_identity(config, seeds)
    await check_roots(config, running.store)
    return await running.add(
        [seed_link(config, url, priority=priority, depth=depth, data=data) for url in seeds]
    )
