"""A late or changed robots.txt is obeyed immediately: what was fetched or blocked before is judged
again, in chunks."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final

from crawler.downloading.robots_parser import RobotsParser
from crawler.faults import contained
from crawler.frontier.origin import Origin
from crawler.frontier.tickets import FrontierClosedError
from crawler.processing.attempts import blocked_by
from crawler.processing.committer import Committer
from crawler.processing.context import CrawlContext
from crawler.processing.page_queue import WithdrawnPage
from crawler.scheduling.host_leases import HostLeases
from policies.robots import Verdict
from policies.robots_policy import Governed
from policies.url import path_of
from storage.store import Blocked, Judged

JUDGED_AT_ONCE: Final = 256  # origins, looked up together


class Unjudged(enum.Enum):
    """The reason of a URL that an internal error left without a verdict: the URL stays what it
    is."""

    UNJUDGED = enum.auto()


UNJUDGED: Final = Unjudged.UNJUDGED
CHUNK: Final = 500  # URLs judged before the rest of the program runs,
JUDGING_MAX_S: Final = 0.01  # or as many as this allows


class Rejudging:
    """Judges the URLs of one origin again and clears its mark in the store at the end, so that the
    next run completes an interrupted one."""

    def __init__(self, crawl: CrawlContext, committer: Committer, parser: RobotsParser) -> None:
        self._frontier = crawl.frontier
        self._store = crawl.store
        self._session = crawl.session
        self._clock = crawl.clock
        self._sinks = crawl.sinks
        self._page_queue = crawl.page_queue
        self._committer = committer
        self._parser = parser
        self._running: dict[str, bool] = {}  # origin -> it is to be done once more

    def repeat(self, name: str) -> None:
        """Restart the judging of this origin if it is under way: its rules have changed."""
        if name in self._running:
            self._running[name] = True

    async def all(self, name: str) -> None:
        """Judge again what was fetched without an answer of robots.txt, and what was blocked.
        Called while it runs for the same origin, it runs once more."""
        if name in self._running:
            self._running[name] = True
            return
        try:
            self._running[name] = True
            if (origin := self._frontier.robots.get(name)) is None:
                return  # the mark stays
            origin.pinned = True
            await self._parser.prepare(origin)
            while self._running[name]:
                self._running[name] = False
                await self._committer.flush()  # what is not committed yet counts too
                if not (await self._pages(name) and await self._blocked(name)):
                    return  # the mark stays
                if not self._running[name]:
                    await self._store.rejudge_done(self._session, name)
        except FrontierClosedError:
            return  # the mark stays
        finally:
            del self._running[name]
            if (origin := self._frontier.robots.get(name)) is not None:
                origin.pinned = False
                self._frontier.budget.settled(origin)

    async def _pages(self, name: str) -> bool:
        """Withdraw pages that the file disallows and that were fetched while the origin counted
        as open for lack of an answer. False: a stop left some to the next run."""
        begun = False
        while (origin := self._frontier.robots.get(name)) and _can_judge(origin):
            chunk = await self._store.ungoverned(name, limit=CHUNK)
            await self._parser.prepare(origin)
            if not chunk or not _can_judge(origin):
                return True
            if begun and self._frontier.stopping:
                return False
            begun = True
            kept: list[int] = []
            withdrawn: list[Blocked] = []
            urls: list[str] = []  # of those
            verdicts: list[Verdict] = []
            now_s = self._clock.wall()
            for one in self._in_time(chunk):
                verdict = _verdict(origin, one.url)
                if not isinstance(verdict, Verdict):
                    kept.append(one.id)
                else:
                    slot = origin.host.slot
                    withdrawn.append(blocked_by(verdict, one.id, slot, one.url, now_s=now_s))
                    urls.append(one.url)
                    verdicts.append(verdict)
            await self._announce(urls, withdrawn)
            self._frontier.links_added(
                await self._store.rejudge(self._session, kept=kept, withdrawn=withdrawn, freed=())
            )
            if self._page_queue is not None:
                for url, verdict in zip(urls, verdicts, strict=True):
                    page = WithdrawnPage(url=url, verdict=verdict, blocked_at=now_s)
                    self._page_queue.put_unvisited(page)
        return True

    def _in_time(self, chunk: Sequence[Judged]) -> Iterator[Judged]:
        """Return as many of `chunk` as may be judged in one go, at least one. The rest is looked up
        again: the origin may have another file by then."""
        until_s = self._clock.monotonic() + JUDGING_MAX_S
        for one in chunk:
            yield one
            if self._clock.monotonic() >= until_s:
                return

    async def _announce(self, urls: Sequence[str], blocks: Sequence[Blocked]) -> None:
        """Notify sinks before the commit: after a crash they may be notified twice, but never not
        at all."""
        if self._sinks is None or not urls:
            return
        for url, block in zip(urls, blocks, strict=True):
            self._sinks.withdraw_blocked(url, block)
        await self._sinks.flush()

    async def _blocked(self, name: str) -> bool:
        """Queue blocked URLs again that the file now allows. False: a stop left some to the next
        run."""
        after = 0
        while (origin := self._frontier.robots.get(name)) and _can_judge(origin):
            chunk = await self._store.blocked_by_robots(name, after=after, limit=CHUNK)
            await self._parser.prepare(origin)
            if not chunk or not _can_judge(origin):
                return True
            if after and self._frontier.stopping:
                return False
            freed: list[int] = []
            for one in self._in_time(chunk):
                after = one.id
                if _verdict(origin, one.url) is None:
                    freed.append(one.id)
            if freed:
                self._frontier.links_added(
                    await self._store.rejudge(self._session, kept=(), withdrawn=(), freed=freed)
                )
        return True


def _can_judge(origin: Origin) -> bool:
    """Whether there is an answer to judge by, or none is needed."""
    return origin.answered or not origin.rules.obey


def _verdict(origin: Origin, url: str) -> Verdict | Unjudged | None:
    """Why the origin's robots.txt forbids the URL; None if it does not."""
    if not origin.rules.obey or not isinstance(origin.standing, Governed) or origin.policy is None:
        return None
    try:
        path = path_of(url)
        return None if origin.policy.allowed(path) else origin.policy.verdict(path)
    except Exception as error:  # noqa: BLE001 - the others are judged all the same
        contained(f"judging {url} again", error)
        return UNJUDGED


class MarkedOrigins:
    """Leases the hosts of marked origins, a bounded number at a time, and judges their pages. The
    first claim of hosts does not wait for it."""

    def __init__(
        self,
        crawl: CrawlContext,
        committer: Committer,
        leases: HostLeases,
        rejudging: Rejudging,
        parser: RobotsParser,
    ) -> None:
        self._crawl = crawl
        self._committer = committer
        self._leases = leases
        self._rejudging = rejudging
        self._parser = parser
        self._requests = 0  # how often `judge` was called
        self._running = False

    async def judge(self) -> None:
        """Judge all that are marked. Called while it runs, what is marked since counts too."""
        self._requests += 1
        if self._running:
            return
        self._running = True
        try:
            await self._judge()
        finally:
            self._running = False

    async def _judge(self) -> None:
        frontier = self._crawl.frontier
        judged: set[str] = set()  # of the last ones looked up: those whose mark cannot be cleared
        request = 0
        while True:
            if request != self._requests:
                request = self._requests
                judged.clear()
            due = await self._crawl.store.rejudge_due(self._crawl.session, limit=JUDGED_AT_ONCE)
            if request == self._requests and all(one.origin in judged for one in due):
                return
            for one in due:
                if frontier.stopping:
                    return
                if self._leases.room <= 0 and self._leases.make_room():
                    await self._committer.flush()
                if (host := await self._leases.lease(one.slot)) is not None:
                    try:
                        await self._parser.load(one.origin, host)
                    except FrontierClosedError:
                        return
                    await self._rejudging.all(one.origin)
            judged = {one.origin for one in due}
