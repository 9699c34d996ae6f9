"""The origins that are in memory: some of each held host; the store knows them all."""

from __future__ import annotations

from collections.abc import Callable

from crawler.clock import Clock
from crawler.politeness.flights import Flights
from crawler.politeness.host import Host
from crawler.politeness.origin import READ_APART_BYTES, Origin
from crawler.politeness.retries import Retries
from policies import robots_state
from policies.pacing import NO_ROBOTS_PACING
from policies.quarantine import is_quarantined, released
from policies.robots_state import RobotsRules, RobotsState
from policies.url import host_of, origin_of
from storage.store import Store

ORIGINS_PER_HOST_MAX = 64  # in memory, with `per = "domain"`; more are asked of the store again


class Origins:
    """Brings origins into memory and lets go of them. `rules_of(host)` gives the robots rules and
    product tokens that count there. `by_name` is for looking only."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        flights: Flights,
        retries: Retries,
        rules_of: Callable[[str], tuple[RobotsRules, tuple[str, ...]]],
    ) -> None:
        self._clock = clock
        self._store = store
        self._flights = flights
        self._retries = retries
        self._rules_of = rules_of
        self.by_name: dict[str, Origin] = {}
        # Bytes of their robots.txt, once for each dialect it is read in; the oldest first.
        self._large: dict[str, int] = {}
        self.large_bytes = 0  # of all of them

    def weigh(self, origin: Origin) -> None:
        """Its robots.txt may be another one now."""
        body_bytes = len(origin.stands_on.body or b"")
        if self.by_name.get(origin.name) is not origin or body_bytes <= READ_APART_BYTES:
            body_bytes = 0
        read_bytes = body_bytes * len(origin.rules.dialect)
        self.large_bytes += read_bytes - self._large.pop(origin.name, 0)
        if read_bytes:
            self._large[origin.name] = read_bytes

    def with_large(self) -> list[Host]:
        """The hosts whose robots.txt are large, those read longest ago first."""
        return list(dict.fromkeys(self.by_name[name].host for name in self._large))

    def of(self, host: Host) -> list[Origin]:
        return [o for name in host.pace.asks if (o := self.by_name.get(name)) and o.host is host]

    def adopt(self, host: Host, copies: dict[str, RobotsState]) -> None:
        """Take over what the store knows of a host's origins. Large files are read before the
        first contact with it."""
        for name, known in copies.items():
            origin = self.add(name, host, known)
            origin.stand(known, now_s=self._clock.wall())
            self.weigh(origin)
            self._retries.schedule(origin)

    def add(self, name: str, host: Host, known: RobotsState = robots_state.UNKNOWN) -> Origin:
        rules, tokens = self._rules_of(host_of(name + "/"))
        if len(host.pace.asks) > ORIGINS_PER_HOST_MAX:
            self._make_room(host)
        origin = self.by_name[name] = Origin(name, host, known, rules, tokens, self._flights)
        origin.loaded = known is not robots_state.UNKNOWN or host.all_known
        host.pace.asks.setdefault(name, NO_ROBOTS_PACING)
        return origin

    async def read(self, host: Host) -> None:
        """Read what has not been read of its robots.txt: each may ask something of its pace."""
        while host.pace.unread and not host.gone:
            name = next(iter(host.pace.unread))
            origin = self.by_name.get(name)
            if origin is not None and origin.host is host:
                await origin.read()
            host.pace.unread.discard(name)

    async def load(self, name: str, host: Host) -> Origin:
        """Have an origin in memory, as the store knows it."""
        origin = self.by_name.get(name)
        if origin is None or origin.host is not host:
            origin = self.add(name, host)
        if not origin.loaded:
            known = await self._store.robots_get(name)
            if not origin.loaded:
                origin.loaded = True
                if known is not None:
                    origin.access = known
                    origin.stand(known, now_s=self._clock.wall())
                    await origin.read()
                    self.weigh(origin)
        return origin

    def release(self, host: str | None, now_s: float) -> list[Origin]:
        """Give those released from quarantine, of one host or of all. Unix seconds."""
        found = [
            origin
            for origin in self.by_name.values()
            if is_quarantined(origin.access) and host in (None, origin.host.slot)
        ]
        for origin in found:
            origin.access = released(origin.access, now_s=now_s)
        return found

    def reread(self) -> list[Origin]:
        """The config may read robots.txt in another way now: give the origins where it does, their
        files to be read anew. What they say counts at once."""
        changed: list[Origin] = []
        for origin in self.by_name.values():
            rules, tokens = self._rules_of(host_of(origin.name + "/"))
            if (rules, tokens) != (origin.rules, origin.tokens):
                origin.rules, origin.tokens = rules, tokens
                origin.stand(origin.stands_on, now_s=self._clock.wall())
                self.weigh(origin)
                changed.append(origin)
        for origin in changed:
            if origin.task is None:
                self._retries.schedule(origin)
        return changed

    def forget(self, host: Host) -> None:
        """The host is no longer held."""
        for name in host.pace.asks:
            origin = self.by_name.get(name)
            if origin and origin.host is host:
                self._let_go(origin)

    def _make_room(self, host: Host) -> None:
        """Forget some of its origins, those met longest ago first, that nothing counts on; the
        store knows them, and gives them back when one of their URLs comes up."""
        needed = {origin_of(queued.url) for queued in host.hand} | host.closed | {*host.parked}
        gone: list[str] = []
        for origin in self.of(host)[: ORIGINS_PER_HOST_MAX // 2]:
            if not (
                origin.task
                or origin.pinned
                or origin.unread
                or origin.name in needed
                or origin.name in host.out_of_reach
                or origin.access.retry_at is not None
            ):
                gone.append(origin.name)
                self._let_go(origin)
        host.pace.forget_asks(gone)
        host.all_known = False

    def _let_go(self, origin: Origin) -> None:
        self._retries.remove(origin)
        del self.by_name[origin.name]
        self.weigh(origin)
