"""Distribution of pages to sinks and callbacks, before their outcomes are committed."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.clock import Clock
from crawler.documents.charset import media_type
from crawler.documents.crawled_page import CrawledPage
from crawler.faults import contained
from crawler.fetching.request import Headers
from crawler.sinks.sink import Sink, Withdrawn
from crawler.sinks.sink_writer import SinkBatch, SinkWriter
from crawler.threads import in_thread, result_or_error
from policies.globs import Globs, globs
from storage.store import Blocked

if TYPE_CHECKING:
    from crawler.sinks.requisites import Requisites

# Pages put but not written. Beyond these limits, the crawl waits for the disk.
BYTES_MAX: Final = 64_000_000
PAGES_MAX: Final = 1_000
# Bytes after which a commit is due: a fraction, so that writing overlaps with fetching.
BYTES_PER_FLUSH: Final = 8_000_000
# Memory of a page in addition to its body.
_PAGE_BYTES: Final = 2_000

# Response headers that establish or prove a session (RFC 6265, 2965 and 7615).
SESSION_HEADERS: Final = (
    "Set-Cookie", "Set-Cookie2", "Authentication-Info", "Proxy-Authentication-Info",
)  # fmt: skip

_NO_TYPE: Final = "application/octet-stream"  # RFC 9110, section 8.3

PageFunction = Callable[[CrawledPage], Awaitable[None] | None]
WithdrawnFunction = Callable[[Withdrawn], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFilter:
    """The pages that a sink accepts.

    include, exclude: globs matched against whole URLs, as in `[scope]`.
    statuses: such as 200, and classes such as 2 for 2xx. Empty for all.
    content_types: as `scope.content_types`.
    noindex: include pages that ask not to be indexed.
    body, links: whether the sink uses them.
    requisites: include the files that pages need, regardless of `include`.
    scripts: whether these files include scripts.
    session_headers: keep response headers that may contain secrets of a session.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    statuses: frozenset[int] = frozenset()
    content_types: tuple[str, ...] = ()
    noindex: bool = False
    body: bool = True
    links: bool = True
    requisites: bool = False
    scripts: bool = False
    session_headers: bool = False

    def accepts_url(self, url: str, *, requisite: bool = False) -> bool:
        include, exclude = globs(self.include), globs(self.exclude)
        if exclude is not None and exclude.match(url):
            return False
        return include is None or (requisite and self.requisites) or include.match(url)

    def accepts(
        self, url: str, status: int, content_type: str | None, *, requisite: bool = False
    ) -> bool:
        """Return whether a response is accepted, given its header."""
        if self.statuses and status not in self.statuses and status // 100 not in self.statuses:
            return False
        types: Globs | None = globs(self.content_types)
        if types is not None:
            declared = media_type(content_type)
            if not types.match(declared or _NO_TYPE):
                return False
        return self.accepts_url(url, requisite=requisite)

    def accepts_page(self, page: CrawledPage) -> bool:
        """Return whether a page is accepted that may be indexed."""
        return self.accepts(page.url, page.status, page.content_type, requisite=page.requisite)

    def may_have(self, page: CrawledPage) -> bool:
        """Return whether an earlier answer of a page may have been accepted."""
        before = page.earlier
        if before is None:
            return False
        if before.status is None:
            return self.accepts_url(page.url, requisite=page.requisite)
        return self.accepts(page.url, before.status, before.content_type, requisite=page.requisite)

    def withdrawal(self, page: CrawledPage) -> Withdrawn | None:
        """Return what to tell a sink that does not get this page; None: it never had it."""
        if not self.may_have(page):
            return None
        reason = "changed" if page.directives.index else "noindex"
        return Withdrawn(url=page.url, withdrawn_at=page.fetched_at, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRoute:
    """A sink with the pages that it accepts."""

    sink: Sink
    filter: SinkFilter


@dataclass(slots=True, kw_only=True, eq=False)
class PageCallback:
    """A user's function that is called with one page at a time, in a thread if it is not async.

    Pages stay queued until it returns. An exception is a fault of its page only.

    withdrawn: called with pages that the function had and should no longer keep.
    """

    call: PageFunction
    filter: SinkFilter
    withdrawn: WithdrawnFunction | None = None
    # With the ids of URLs.
    queue: deque[tuple[CrawledPage | Withdrawn, int]] = field(default_factory=deque)

    async def run(self) -> dict[int, str]:
        """Call the function with all pages queued now. Return faults by the ids of URLs."""
        token = _calling.set(True)
        try:
            return await self._run()
        finally:
            _calling.reset(token)

    async def _run(self) -> dict[int, str]:
        faults: dict[int, str] = {}
        for _ in range(len(self.queue)):
            page, id_ = self.queue[0]
            try:
                if not isinstance(page, Withdrawn):
                    await _called(self.call, page)
                elif self.withdrawn is not None:
                    await _called(self.withdrawn, page)
            except Exception as error:  # noqa: BLE001
                faults[id_] = contained(f"a function called with {page.url}", error)
            self.queue.popleft()
        return faults


async def _called(call: Callable[[Any], Awaitable[None] | None], value: object) -> None:
    """Call a user's function, in a thread if it is not async. Raises what it raises."""
    if inspect.iscoroutinefunction(call):
        await call(value)
        return
    answer = await in_thread(result_or_error, call, value)
    if isinstance(answer, Exception):
        raise answer
    if answer is not None:
        await answer


_calling: ContextVar[bool] = ContextVar("_calling", default=False)


class Sinks(SinkWriter):
    """All sinks and callbacks of a crawl. Pages are queued, and written by `flush`."""

    def __init__(
        self,
        routes: Sequence[SinkRoute] = (),
        callbacks: Sequence[PageCallback] = (),
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__([route.sink for route in routes], clock)
        self._routes = tuple(routes)
        self._callbacks = list(callbacks)
        self._queue: list[tuple[Sink, CrawledPage | Withdrawn, int]] = []  # with the ids of URLs
        self._queued_bytes = 0
        self._faults: dict[int, str] = {}
        self._lock = asyncio.Lock()

    @property
    def any(self) -> bool:
        return bool(self._routes or self._callbacks)

    @property
    def in_page_function(self) -> bool:
        """Whether this is called by a user's function that was called with a page: a commit waits
        for it."""
        return _calling.get()

    @property
    def wants_links(self) -> bool:
        """Whether any sink or callback uses links, whose texts take time to read."""
        return bool(self._callbacks) or any(route.filter.links for route in self._routes)

    @property
    def due(self) -> bool:
        """Whether enough is queued for a flush."""
        return self._queued_bytes >= BYTES_PER_FLUSH

    @property
    def full(self) -> bool:
        return self._queued_bytes >= BYTES_MAX or len(self._queue) >= PAGES_MAX

    def add(self, callback: PageCallback) -> None:
        self._callbacks.append(callback)

    def wants_body(
        self, url: str, status: int, content_type: str | None, *, requisite: bool = False
    ) -> bool:
        """Return whether any sink or callback uses the body of this response."""
        filters = [one.filter for one in self._routes] + [one.filter for one in self._callbacks]
        return any(
            one.body and one.accepts(url, status, content_type, requisite=requisite)
            for one in filters
        )

    def requisites(
        self,
        url: str,
        status: int,
        content_type: str | None,
        body: bytes,
        *,
        requisite: bool = False,
    ) -> Requisites | None:
        """Return the files that sinks need to show a page, or None if no sink needs any."""
        filters = [
            route.filter
            for route in self._routes
            if route.filter.requisites
            and route.filter.accepts(url, status, content_type, requisite=requisite)
        ]
        if not filters:
            return None
        from crawler.sinks.requisites import requisites  # only mirrors need it

        found = requisites(url, content_type, body, scripts=any(one.scripts for one in filters))
        return found._replace(
            roles={
                to: role
                for to, role in found.roles.items()
                if any(one.accepts_url(to, requisite=True) for one in filters)
            }
        )

    def put(self, page: CrawledPage, id_: int = 0) -> None:
        """Queue a page. `id_`: of its URL, for `take_faults`."""
        if not self.any:
            return
        public = _without_session(page)
        index = page.directives.index
        for route in self._routes:
            accepted = route.filter
            if (index or accepted.noindex) and accepted.accepts_page(page):
                given = page if accepted.session_headers else public
                self._queue.append((route.sink, given, id_))
                self._queued_bytes += len(page.body) + _PAGE_BYTES
            elif page.earlier is not None and (gone := accepted.withdrawal(page)) is not None:
                self._queue.append((route.sink, gone, id_))
        for one in self._callbacks:
            if (index or one.filter.noindex) and one.filter.accepts_page(page):
                one.queue.append((page if one.filter.session_headers else public, id_))
                self._queued_bytes += len(page.body) + _PAGE_BYTES
            elif page.earlier is not None and (gone := one.filter.withdrawal(page)) is not None:
                one.queue.append((gone, id_))

    def withdraw_blocked(self, url: str, block: Blocked) -> None:
        """Withdraw a page from the sinks that may have it, because its URL is now blocked."""
        page = Withdrawn(
            url=url,
            withdrawn_at=block.blocked_at,
            robots_url=block.robots_url,
            rule=block.rule,
        )
        self._withdraw(page, block.id)

    def withdraw(self, url: str, reason: str, *, at: float, id_: int) -> None:
        """Withdraw a page from the sinks that may have it, because of a directive. at: Unix
        seconds."""
        self._withdraw(Withdrawn(url=url, withdrawn_at=at, reason=reason), id_)

    def _withdraw(self, page: Withdrawn, id_: int) -> None:
        def concerns(one: SinkFilter) -> bool:
            kept = page.reason == "noindex" and one.noindex
            return not kept and one.accepts_url(page.url, requisite=True)

        self._queue += [(route.sink, page, id_) for route in self._routes if concerns(route.filter)]
        for one in self._callbacks:
            if concerns(one.filter):
                one.queue.append((page, id_))

    async def flush(self) -> None:
        """Return when everything queued is on disk and every callback has run. Raises SinkError.

        transient faults, such as a full disk, are retried and shown in `troubles`. Cancelling
        loses nothing: a write in progress continues, and the rest stays queued.
        """
        if not (self._queue or self._batches or any(one.queue for one in self._callbacks)):
            return
        async with self._lock:
            self._faults |= await self.write()  # begun by a cancelled call
            queue, self._queue, self._queued_bytes = self._queue, [], 0
            batches: dict[int, SinkBatch] = {}
            for sink, page, id_ in queue:
                batches.setdefault(id(sink), SinkBatch(sink)).pages.append((page, id_))
            self._faults |= await self.write(list(batches.values()))
            for one in self._callbacks:
                self._faults |= await one.run()

    def take_faults(self) -> dict[int, str]:
        """Return and forget the faults that kept pages from a sink, by the ids of their URLs."""
        faults, self._faults = self._faults, {}
        return faults


def _without_session(page: CrawledPage) -> CrawledPage:
    """Return the page without response headers that may contain secrets of a session."""
    if not any(name in page.headers for name in SESSION_HEADERS):
        return page
    raw = page.raw_headers
    return replace(
        page,
        headers=_public(page.headers),
        raw_headers=None if raw is None else _public(raw),
    )


def _public(headers: Headers) -> Headers:
    kept = CIMultiDict(headers)
    for name in SESSION_HEADERS:
        kept.popall(name, None)
    return CIMultiDictProxy(kept)
