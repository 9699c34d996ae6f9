"""A late or changed robots.txt is obeyed at once (law 4): what was fetched or blocked before is
judged again, in chunks, off the hot path."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from crawler.clock import Clock
from crawler.engine.course import Course
from crawler.faults import contained
from crawler.politeness.gate import Gate
from crawler.politeness.origin import Origin
from crawler.visiting.ledger import Ledger
from crawler.visiting.outcomes import blocked_by
from policies.robots import Verdict
from policies.robots_policy import Governed
from policies.url import path_of
from storage.store import Blocked, Completed, Judged, Store

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks


class Unjudged(enum.Enum):
    """A fault of our own left no verdict: the URL stays what it is."""

    UNJUDGED = enum.auto()


UNJUDGED = Unjudged.UNJUDGED
CHUNK = 500  # URLs judged between two looks at the rest of the program,
JUDGING_MAX_S = 0.01  # or as many as this allows


class Rejudge:
    """Judges again, for one origin at a time, and says so to the store when it is through: a run
    that ends in between is finished by the next. `added(completed)` is told of what came back to
    the queue."""

    def __init__(
        self,
        *,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        ledger: Ledger,
        gate: Gate,
        added: Callable[[Completed], None],
        sinks: Sinks | None = None,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._ledger = ledger
        self._gate = gate
        self._added = added
        self._sinks = sinks
        self._running: dict[str, bool] = {}  # origin -> it is to be done once more

    def runs(self, name: str) -> bool:
        """Is this origin being judged again?"""
        return name in self._running

    async def all(self, name: str) -> None:
        """Judge again what was fetched for lack of an answer, and what was blocked. Called while it
        runs for the same origin, it runs once more: what was asked for meanwhile counts too."""
        if name in self._running:
            self._running[name] = True
            return
        try:
            self._running[name] = True
            if (origin := self._gate.origin(name)) is None:
                return  # the mark stays
            origin.pinned = True
            while self._running[name]:
                self._running[name] = False
                await self._ledger.flush()  # what was fetched but is not committed yet counts too
                if not (await self._pages(name) and await self._blocked(name)):
                    return  # the mark stays
                if not self._running[name]:
                    await self._store.rejudge_done(self._session, name)
        finally:
            del self._running[name]
            if (origin := self._gate.origin(name)) is not None:
                origin.pinned = False

    async def _pages(self, name: str) -> bool:
        """What the file disallows of the pages fetched while the origin counted as open for lack
        of an answer is withdrawn. False: a stop left some to the next run."""
        begun = False
        while (origin := self._gate.origin(name)) and _can_judge(origin):
            chunk = await self._store.ungoverned(name, limit=CHUNK)
            await origin.read()
            if not chunk or not _can_judge(origin):
                return True
            if begun and self._course.stopping:
                return False
            begun = True
            kept: list[int] = []
            withdrawn: list[Blocked] = []
            urls: list[str] = []  # of those
            now_s = self._clock.wall()
            for page in self._in_time(chunk):
                verdict = _verdict(origin, page.url)
                if not isinstance(verdict, Verdict):
                    kept.append(page.id)
                else:
                    slot = origin.host.slot
                    withdrawn.append(blocked_by(verdict, page.id, slot, page.url, now_s=now_s))
                    urls.append(page.url)
            await self._announce(urls, withdrawn)
            self._added(
                await self._store.rejudge(self._session, kept=kept, withdrawn=withdrawn, freed=())
            )
        return True

    def _in_time(self, chunk: Sequence[Judged]) -> Iterator[Judged]:
        """As many of `chunk` as may be judged in one go, at least one. The rest is looked up anew:
        the origin may have another file by then."""
        until_s = self._clock.monotonic() + JUDGING_MAX_S
        for one in chunk:
            yield one
            if self._clock.monotonic() >= until_s:
                return

    async def _announce(self, urls: Sequence[str], blocks: Sequence[Blocked]) -> None:
        """Sinks are told before it is committed: after a crash twice, but never not at all."""
        if self._sinks is None or not urls:
            return
        for url, block in zip(urls, blocks, strict=True):
            self._sinks.withdraw_blocked(url, block)
        await self._sinks.flush()

    async def _blocked(self, name: str) -> bool:
        """What the file now allows of the URLs it had blocked is queued again. False: a stop left
        some to the next run."""
        after = 0
        while (origin := self._gate.origin(name)) and _can_judge(origin):
            chunk = await self._store.blocked_by_robots(name, after=after, limit=CHUNK)
            await origin.read()
            if not chunk or not _can_judge(origin):
                return True
            if after and self._course.stopping:
                return False
            freed: list[int] = []
            for one in self._in_time(chunk):
                after = one.id
                if _verdict(origin, one.url) is None:
                    freed.append(one.id)
            if freed:
                self._added(
                    await self._store.rejudge(self._session, kept=(), withdrawn=(), freed=freed)
                )
        return True


def _can_judge(origin: Origin) -> bool:
    """Is there an answer to judge by, or need there be none?"""
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
