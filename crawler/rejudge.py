"""A late or changed robots.txt is obeyed at once (law 4): what was fetched or blocked before is
judged again, in chunks, off the hot path."""

from __future__ import annotations

from collections.abc import Callable

from crawler.clock import Clock
from crawler.gate import Gate, Origin
from crawler.ledger import Ledger
from crawler.visit import blocked_by
from policies.access import Rules
from policies.robots import Verdict
from policies.url import path_of
from storage.base import Blocked, Completed, Store

CHUNK = 500  # URLs judged between two looks at the rest of the program


class Rejudge:
    """`added(completed)` is told of what came back to the queue, `withdrawn(n)` of what went."""

    def __init__(
        self,
        *,
        store: Store,
        session: int,
        clock: Clock,
        ledger: Ledger,
        gate: Gate,
        added: Callable[[Completed], None],
    ) -> None:
        self._store = store
        self._session = session
        self._clock = clock
        self._ledger = ledger
        self._gate = gate
        self._added = added
        self._running: set[tuple[str, str]] = set()
        self.withdrawn = 0

    async def pages(self, name: str) -> None:
        """Judge the pages of an origin that were fetched while it counted as open for lack of an
        answer: what the file disallows is withdrawn."""
        if ("pages", name) in self._running:
            return
        self._running.add(("pages", name))
        try:
            await self._ledger.flush()  # what was fetched but is not committed yet counts too
            while (origin := self._gate.origin(name)) and origin.answered:
                chunk = await self._store.ungoverned(name, limit=CHUNK)
                if not chunk:
                    return
                kept: list[int] = []
                withdrawn: list[Blocked] = []
                now_s = self._clock.wall()
                for page in chunk:
                    verdict = _verdict(origin, page.url)
                    if verdict is None:
                        kept.append(page.id)
                    else:
                        slot = origin.host.slot
                        withdrawn.append(blocked_by(verdict, page.id, slot, page.url, now_s=now_s))
                self._added(
                    await self._store.rejudge(
                        self._session, kept=kept, withdrawn=withdrawn, freed=()
                    )
                )
                self.withdrawn += len(withdrawn)
        finally:
            self._running.discard(("pages", name))

    async def blocked(self, name: str) -> None:
        """Judge the blocked URLs of an origin whose robots.txt changed: what it now allows is
        queued again."""
        if ("blocked", name) in self._running:
            return
        self._running.add(("blocked", name))
        try:
            await self._ledger.flush()
            after = 0
            while (origin := self._gate.origin(name)) and origin.answered:
                chunk = await self._store.blocked_by_robots(name, after=after, limit=CHUNK)
                if not chunk:
                    return
                after = chunk[-1].id
                freed = [one.id for one in chunk if _verdict(origin, one.url) is None]
                if freed:
                    self._added(
                        await self._store.rejudge(self._session, kept=(), withdrawn=(), freed=freed)
                    )
        finally:
            self._running.discard(("blocked", name))


def _verdict(origin: Origin, url: str) -> Verdict | None:
    """Why the origin's robots.txt forbids the URL; None if it does not."""
    if not isinstance(origin.standing, Rules) or origin.policy is None:
        return None
    path = path_of(url)
    return None if origin.policy.allowed(path) else origin.policy.verdict(path)
