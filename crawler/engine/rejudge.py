"""A late or changed robots.txt is obeyed at once (law 4): what was fetched or blocked before is
judged again, in chunks, off the hot path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from crawler.clock import Clock
from crawler.politeness.gate import Gate
from crawler.politeness.origin import Origin
from crawler.visiting.ledger import Ledger
from crawler.visiting.outcomes import blocked_by
from policies.access import Rules
from policies.robots import Verdict
from policies.url import path_of
from storage.base import Blocked, Completed, Store

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks

CHUNK = 500  # URLs judged between two looks at the rest of the program


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
        ledger: Ledger,
        gate: Gate,
        added: Callable[[Completed], None],
        sinks: Sinks | None = None,
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
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
                await self._pages(name)
                await self._blocked(name)
                if not self._running[name]:
                    await self._store.rejudge_done(self._session, name)
        finally:
            del self._running[name]
            if (origin := self._gate.origin(name)) is not None:
                origin.pinned = False

    async def _pages(self, name: str) -> None:
        """What the file disallows of the pages fetched while the origin counted as open for lack
        of an answer is withdrawn."""
        while (origin := self._gate.origin(name)) and _can_judge(origin):
            chunk = await self._store.ungoverned(name, limit=CHUNK)
            if not chunk:
                return
            kept: list[int] = []
            withdrawn: list[Blocked] = []
            urls: list[str] = []  # of those
            now_s = self._clock.wall()
            for page in chunk:
                verdict = _verdict(origin, page.url)
                if verdict is None:
                    kept.append(page.id)
                else:
                    slot = origin.host.slot
                    withdrawn.append(blocked_by(verdict, page.id, slot, page.url, now_s=now_s))
                    urls.append(page.url)
            await self._announce(urls, withdrawn)
            self._added(
                await self._store.rejudge(self._session, kept=kept, withdrawn=withdrawn, freed=())
            )

    async def _announce(self, urls: Sequence[str], blocks: Sequence[Blocked]) -> None:
        """Sinks are told before it is committed: after a crash twice, but never not at all."""
        if self._sinks is None or not urls:
            return
        for url, block in zip(urls, blocks, strict=True):
            self._sinks.forbidden(url, block)
        await self._sinks.flush()

    async def _blocked(self, name: str) -> None:
        """What the file now allows of the URLs it had blocked is queued again."""
        after = 0
        while (origin := self._gate.origin(name)) and _can_judge(origin):
            chunk = await self._store.blocked_by_robots(name, after=after, limit=CHUNK)
            if not chunk:
                return
            after = chunk[-1].id
            freed = [one.id for one in chunk if _verdict(origin, one.url) is None]
            if freed:
                self._added(
                    await self._store.rejudge(self._session, kept=(), withdrawn=(), freed=freed)
                )


def _can_judge(origin: Origin) -> bool:
    """Is there an answer to judge by, or need there be none?"""
    return origin.answered or not origin.rules.obey


def _verdict(origin: Origin, url: str) -> Verdict | None:
    """Why the origin's robots.txt forbids the URL; None if it does not."""
    if not origin.rules.obey or not isinstance(origin.standing, Rules) or origin.policy is None:
        return None
    path = path_of(url)
    return None if origin.policy.allowed(path) else origin.policy.verdict(path)
