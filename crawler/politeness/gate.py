"""The gate: what each origin's robots.txt says, kept fresh through the host's own turns.

`policies.robots_state` decides what a file, its absence or its silence means and when to fetch it;
this drives it: one robots fetch per origin, each hop a turn of its host, the copy committed
before the first page it governs is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence

from msgspec import Struct
from msgspec.structs import replace

from crawler.clock import Clock
from crawler.faults import contained
from crawler.fetching.request import Answer, Failure
from crawler.politeness.contact import Contacts
from crawler.politeness.flights import Flights
from crawler.politeness.hops import Hops, RequestFaultError
from crawler.politeness.host import Host
from crawler.politeness.news import failure, news_of
from crawler.politeness.origin import Origin, changes
from crawler.politeness.origins import Origins
from crawler.politeness.retries import Retries
from crawler.politeness.turns import Turns, TurnsClosedError
from policies import robots_policy, robots_state
from policies.robots import Verdict
from policies.robots_state import RobotsFetch, RobotsRules, RobotsState
from policies.url import origin_of, path_of, robots_url
from storage.store import Completed, Link, Store


class Asking(Struct, frozen=True):
    """robots.txt must be asked first; it is being asked. The URL waits with its host."""


class Shut(Struct, frozen=True):
    """The origin is closed: no page of it may be asked for now."""

    reason: str


class Pass(Struct, frozen=True):
    """The URL may be asked for. `ungoverned`: only for lack of an answer (law 4)."""

    ungoverned: bool


ASKING = Asking()
GOVERNED = Pass(ungoverned=False)
UNGOVERNED = Pass(ungoverned=True)


class Gate:
    """Judges URLs and drives the fetching of robots.txt.

    `hold(slot)` gives the held host of a slot, leasing it if need be (None: held elsewhere);
    `rules_of(host)` the robots rules and product tokens that count there; `lost(host, origin,
    failure, failures)` is told when an origin's robots.txt leads to where no connection can be
    made, so many times in a row;
    `changed(origin, previous)` when an origin's standing is new, `settled(origin)` when its URLs
    may move again. `sitemaps(origin)` gives links to the sitemaps of an origin, which are committed
    with its robots.txt; `added` is told of what that queued. Without `keep_trying` a file that
    could not be had is asked for again only when somebody wants in.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        turns: Turns,
        contacts: Contacts,
        store: Store,
        session: int,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
        hold: Callable[[str], Awaitable[Host | None]],
        rules_of: Callable[[str], tuple[RobotsRules, tuple[str, ...]]],
        slot_of: Callable[[str], str],
        lost: Callable[[Host, str, Failure, int], None],
        changed: Callable[[Origin, RobotsState], None],
        settled: Callable[[Origin], None],
        keep_trying: bool = True,
        sitemaps: Callable[[Origin], Awaitable[Sequence[Link]]] | None = None,
        added: Callable[[Completed], None] | None = None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._session = session
        self._spawn = spawn
        self._changed = changed
        self._settled = settled
        self._sitemaps = sitemaps
        self._added = added
        self.flights = Flights(store)
        self._hops = Hops(
            clock=clock,
            turns=turns,
            contacts=contacts,
            flights=self.flights,
            hold=hold,
            slot_of=slot_of,
            lost=lost,
            learn=self._learn,
            known=self._known,
            fill=self._fill,
            read=self._read_of,
        )
        self._retries = Retries(clock, ask=self.ask, keep_trying=keep_trying)
        self._origins = Origins(
            clock=clock,
            store=store,
            flights=self.flights,
            retries=self._retries,
            rules_of=rules_of,
        )
        self._named = self._origins.by_name
        self._closed = False

    # ------------------------------------------------------------ origins

    def adopt(self, host: Host, copies: dict[str, RobotsState]) -> None:
        """Take over what the store knows of a host's origins."""
        self._origins.adopt(host, copies)

    def forget(self, host: Host) -> None:
        """The host is no longer held."""
        self._origins.forget(host)

    def origin(self, name: str) -> Origin | None:
        return self._named.get(name)

    async def load(self, name: str, host: Host) -> Origin:
        """Have an origin in memory, as the store knows it."""
        return await self._origins.load(name, host)

    def origins_of(self, host: Host) -> list[Origin]:
        return self._origins.of(host)

    @property
    def large_bytes(self) -> int:
        """Bytes of the large robots.txt in memory, once for each dialect; read, they take 6 to 20
        times that."""
        return self._origins.large_bytes

    def with_large(self) -> list[Host]:
        """The hosts whose robots.txt are large, those read longest ago first."""
        return self._origins.with_large()

    def reread(self) -> list[Origin]:
        """The config may read robots.txt in another way now: give the origins where it does, their
        files read anew. What they say counts at once; of a large file, once it has been read."""
        changed = self._origins.reread()
        for origin in changed:
            self._read(origin)
        return changed

    # ------------------------------------------------------------ judging

    def check(self, host: Host, url: str) -> Asking | Shut | Pass | Verdict:
        """May this URL be asked for now? A Verdict means: no, and why. Synchronous and cheap."""
        name = origin_of(url)
        origin = self._named.get(name)
        if origin is None or origin.host is not host:
            origin = self._origins.add(name, host)
        if origin.task is not None and origin.rules.obey:
            return ASKING
        if host.out_of_reach and (lost := host.beyond_reach(name, self._clock.monotonic())):
            return Shut(f"no connection could be made ({lost.failure.error})")
        if host.pace.unread:
            self._read(origin)
            return ASKING
        if not origin.rules.obey:
            return GOVERNED
        now_s = self._clock.wall()
        if robots_state.is_due(origin.access, now_s):
            self.ask(origin)
            return ASKING
        standing = origin.standing
        if isinstance(standing, robots_policy.Governed):
            assert origin.policy is not None
            path = path_of(url)
            return GOVERNED if origin.policy.allowed(path) else origin.policy.verdict(path)
        if isinstance(standing, robots_policy.Open):
            return GOVERNED if standing.answered else UNGOVERNED
        if isinstance(standing, robots_policy.Closed):
            return Shut(standing.reason)
        self.ask(origin)
        return ASKING

    # ------------------------------------------------------------ asking

    def ask(self, origin: Origin) -> None:
        """Fetch its robots.txt, unless that is under way."""
        if origin.task is None and not self._closed:
            self._retries.remove(origin)
            origin.task = self._spawn(self._refresh(origin))

    def ask_by_name(self, name: str, host: Host) -> None:
        """Fetch the robots.txt of an origin that has no URL in hand (it is due)."""
        self.ask(self._named.get(name) or self._origins.add(name, host))

    def ask_again(self, host: Host) -> bool:
        """Fetch a robots.txt of this host that was answered before, whether it is due or not: to
        see if the host can be reached. False: there is none."""
        for origin in self._origins.of(host):
            if origin.rules.obey and origin.access.fetched_at is not None:
                self.ask(origin)
                if origin.task is not None:
                    return True
        return False

    def release(self, host: str | None) -> None:
        """Fetch the robots.txt in quarantine again, of one host or of all."""
        for origin in self._origins.release(host, self._clock.wall()):
            self.ask(origin)

    async def _read_of(self, host: Host) -> None:
        """Read the files of its host that have not been read."""
        await self._origins.read(host)

    def _read(self, origin: Origin) -> None:
        """The same for an origin, whose URLs wait for it."""
        if origin.host.pace.unread and origin.task is None and not self._closed:
            self._retries.remove(origin)
            origin.task = self._spawn(self._read_apart(origin))

    async def _read_apart(self, origin: Origin) -> None:
        try:
            await self._read_of(origin.host)
        finally:
            self._end_task(origin)

    def _end_task(self, origin: Origin) -> None:
        origin.task = None
        origin.waits_at = None
        self._origins.weigh(origin)
        self._retries.schedule(origin)
        self._settled(origin)

    async def _refresh(self, origin: Origin) -> None:
        previous = origin.access
        try:
            if not origin.loaded:
                await self.load(origin.name, origin.host)
                previous = origin.access
                if not robots_state.is_due(previous, self._clock.wall()):
                    return
            learned = await self._learned(origin)
            if learned is not None:
                await self._keep(origin, learned, rejudge=changes(previous, learned))
        except TurnsClosedError:
            return
        finally:
            self.flights.end(origin)
            self._end_task(origin)
        if learned is not None:
            self._changed(origin, previous)

    async def _learned(self, origin: Origin) -> RobotsState | None:
        """As `Hops.fetch`; a fault of our own on the way counts as a file that is unreachable."""
        try:
            return await self._hops.fetch(origin)
        except TurnsClosedError:
            raise
        except RequestFaultError as fault:
            return self._learn_fault(origin, str(fault))
        except Exception as error:  # noqa: BLE001
            return self._learn_fault(
                origin, contained(f"fetching the robots.txt of {origin.name}", error)
            )

    async def _learn(self, origin: Origin, news: RobotsFetch) -> RobotsState:
        """What is known after this news; the pace it asks for counts at once, but pages are judged
        by it only once it is committed (the origin's task is under way until then)."""
        now_s = self._clock.wall()
        learned = robots_state.next_state(origin.access, news, now_s=now_s, rules=origin.rules)
        origin.stand(learned, now_s=now_s)
        await origin.read()
        return learned if origin.fault is None else self._learn_fault(origin, origin.fault)

    def _learn_fault(self, origin: Origin, fault: str) -> RobotsState:
        """Its robots.txt is asked for again on the retry clock. Until then the origin is closed,
        even where an unreachable file would open it: the site did nothing to open it."""
        now_s = self._clock.wall()
        news = failure(robots_url(origin.name), fault)
        learned = robots_state.next_state(origin.access, news, now_s=now_s, rules=origin.rules)
        origin.stand(learned, now_s=now_s)
        origin.close(fault, until_s=learned.retry_at)
        return learned

    async def _keep(self, origin: Origin, learned: RobotsState, *, rejudge: bool) -> None:
        with self.flights.noted(origin.host.slot, origin.name):
            await self._store_copy(origin, learned, rejudge=rejudge)

    async def _store_copy(self, origin: Origin, learned: RobotsState, *, rejudge: bool) -> None:
        host = origin.host
        links: Sequence[Link] = ()
        if self._sitemaps is not None:
            try:
                links = await self._sitemaps(origin)
            except Exception as error:  # noqa: BLE001 - its rules count all the same
                contained(f"reading the sitemaps that {origin.name} names", error)
        completed = await self._store.robots_put(
            self._session,
            host.slot,
            origin.name,
            learned,
            also=host.update(self._clock.monotonic()),
            rejudge=rejudge,
            links=links,
        )
        if completed.refused is not None:
            fault = f"{completed.refused}, when it was stored"
            learned = self._learn_fault(origin, fault)
            await self._store.robots_put(self._session, host.slot, origin.name, learned)
        origin.access = learned
        if self._added is not None and completed.added:
            self._added(completed)

    async def _known(self, origin: Origin, url: str) -> RobotsState | None:
        """Another origin's robots.txt that is known and fresh needs no second request; what is
        taken from it is no fresher than it is."""
        other = self._named.get(origin_of(url))
        if path_of(url) != "/robots.txt" or other is None or other.task is not None:
            return None
        known = other.access
        if robots_state.is_due(known, self._clock.wall()):
            return None
        if known.body is not None:
            news = RobotsFetch(
                status=200, body=known.body, headers={}, url=url, truncated=known.truncated
            )
        elif known.unreachable_since is not None:
            news = failure(url, "the robots.txt it redirects to cannot be had")
        else:
            news = RobotsFetch(status=known.status, body=None, headers={}, url=url)
        learned = await self._learn(origin, news)
        if known.unreachable_since is not None:
            return learned
        return replace(
            learned,
            copy_at=known.copy_at if learned.body is not None else learned.copy_at,
            expires_at=_earlier(learned.expires_at, known.expires_at),
        )

    async def _fill(self, url: str, host: Host, result: Answer | Failure) -> None:
        """A hop that ended at another origin's robots.txt fills that origin's copy as well."""
        name = origin_of(url)
        if (
            path_of(url) != "/robots.txt"
            or isinstance(result, Failure)
            or not (200 <= result.status < 300)
        ):
            return
        other = self._named.get(name) or self._origins.add(name, host)
        if other.task is not None or not other.loaded:
            return
        previous = other.access
        other.task = asyncio.current_task()  # its pages wait until the copy is committed
        try:
            learned = await self._learn(other, news_of(result, url))
            await self._keep(other, learned, rejudge=changes(previous, learned))
        finally:
            other.task = None
        self._origins.weigh(other)
        self._retries.schedule(other)
        self._settled(other)
        self._changed(other, previous)

    def close(self) -> None:
        """No more robots fetches; those on the wire run on."""
        self._closed = True
        self._retries.close()


def _earlier(a: float | None, b: float | None) -> float | None:
    return min((at for at in (a, b) if at is not None), default=None)
