"""Fetches robots.txt: follows its redirects, each hop under a permit of its host, and commits the
file before the first page that it governs is requested."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from msgspec.structs import replace

from crawler.clock import Clock
from crawler.downloading.downloader import Downloader
from crawler.downloading.robots_exchange import (
    CROWDED,
    LIMITS,
    NO_ROOM,
    ROBOTS_BYTES_MAX,
    NoRoom,
    Redirect,
    RobotsBody,
    news_of,
    says_something,
    unreachable,
    validators,
)
from crawler.downloading.robots_parser import RobotsParser
from crawler.faults import contained
from crawler.fetching.request import Answer, Failure, Request
from crawler.frontier.frontier import ROBOTS, Frontier
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.frontier.origin import LARGE_BYTES, Origin, changes
from crawler.frontier.tickets import FrontierClosedError
from crawler.frontier.waiting import ELSEWHERE_AGAIN_S
from policies import robots_state
from policies.quarantine import is_suspect
from policies.retries import FailureCode
from policies.robots_state import RobotsFetch, RobotsState
from policies.url import canonical, host_of, origin_of, path_of, robots_url
from storage.store import Link, Store

# For how long a host that another worker leases is asked for; then the file counts as unreachable.
ELSEWHERE_S_MAX = 60.0
REDIRECTS_MAX = 5  # RFC 9309, 2.3.1.2; the sixth counts as an absent file


class HostLeaser(Protocol):
    """Leases hosts on demand."""

    async def lease(self, slot: str) -> HostQueue | None:
        """Return the leased host of a slot; None: another worker has it."""
        ...


class SitemapFinder(Protocol):
    async def of_origin(self, origin: Origin) -> Sequence[Link]:
        """The sitemaps to read of an origin whose robots.txt is known."""
        ...


class RequestFaultError(Exception):
    """A request for robots.txt met an internal error, which has been logged."""


class RobotsFetcher:
    """Carries out the frontier's commands FetchRobots (`refresh`) and ParseRobots (`parse`).

    sitemaps: finds the links to sitemaps that are committed with a robots.txt; None: none are.
    """

    def __init__(
        self,
        frontier: Frontier,
        downloader: Downloader,
        parser: RobotsParser,
        hosts: HostLeaser,
        store: Store,
        session: int,
        clock: Clock,
        *,
        sitemaps: SitemapFinder | None = None,
    ) -> None:
        self._frontier = frontier
        self._budget = frontier.budget
        self._downloader = downloader
        self._parser = parser
        self._hosts = hosts
        self._store = store
        self._session = session
        self._clock = clock
        self._sitemaps = sitemaps

    # ------------------------------------------------------------ fetching

    async def refresh(self, origin: Origin) -> list[Origin]:
        """Fetch the robots.txt of an origin; returns the origins whose file is known now, others on
        the way of a redirect included."""
        previous = origin.access
        settled = [origin]
        learned: RobotsState | None = None
        try:
            if not origin.loaded:
                if origin.access is robots_state.UNKNOWN:
                    await self._parser.prepare(origin)
                # The store knows by a clock that no step moves whether one is due.
                due = origin.wanted or robots_state.is_due(origin.access, self._clock.wall())
                if not due:
                    await self._parser.prepare(origin)
                    return settled
            learned = await self._learned(origin, settled)
            if learned is not None:
                previous = origin.access
                learned = await self._parsed(origin, learned)
                await self._keep(origin, learned, rejudge=changes(previous, learned))
        except FrontierClosedError:
            return settled
        finally:
            self._frontier.in_flight.end(origin)
            self._budget.leave_place(origin)
            self._frontier.robots_settled(origin)
        if learned is not None:
            self._frontier.robots_learned(origin, previous)
        return settled

    async def parse(self, origin: Origin) -> None:
        """Parse the large files of the origin's host, for which its URLs wait."""
        try:
            await self._parser.prepare_host(origin.host)
        except FrontierClosedError:
            pass  # its URLs stay queued
        finally:
            self._frontier.robots_settled(origin)

    async def _learned(self, origin: Origin, settled: list[Origin]) -> RobotsState | None:
        """Follow redirects as `_follow` does; an internal error counts as a file that could not be
        fetched."""
        try:
            return await self._follow(origin, settled)
        except FrontierClosedError:
            raise
        except RequestFaultError as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001
            fault = contained(f"fetching the robots.txt of {origin.name}", error)
        await self._parser.recall(origin)
        return self._learn_fault(origin, fault)

    async def _follow(self, origin: Origin, settled: list[Origin]) -> RobotsState | None:
        """Request robots.txt and follow its redirects, each hop under a permit of its host.

        None: a host on the way could not be connected to. That neither opens nor closes the origin,
        which is tried again later like any that cannot be connected to.
        """
        url = robots_url(origin.name)
        give_up_s = self._clock.monotonic() + ELSEWHERE_S_MAX
        last = Redirect(0, None)
        redirects = 0
        admitted = False
        while redirects <= REDIRECTS_MAX:
            own = origin_of(url) == origin.name
            host = (
                origin.host
                if own
                else await self._hosts.lease(self._frontier.slot_of(host_of(url)))
            )
            if host is None:
                known = await self._known_elsewhere(origin, url, give_up_s)
                if known is not None:
                    return known
                continue
            hop_origin = origin_of(url)
            if self._is_lost(origin, host, hop_origin):
                return None
            if not (admitted or self._budget.may_ask(origin)):
                await self._parser.find_room(origin, CROWDED)
                admitted = True
                continue
            await self._parser.prepare_host(host)
            if host.gone and not own:
                continue  # released meanwhile
            origin.waits_at = host
            permit = await self._downloader.permit(host, hop_origin)
            origin.waits_at = None
            hop: RobotsState | Failure | Redirect | NoRoom | None
            if isinstance(permit, Permit):
                if host.pace.unread:  # another file came while this one waited
                    self._frontier.permits.give_back(permit)
                    continue
                hop = await self._under(permit, origin, url, settled)
            else:
                hop = permit
            if isinstance(hop, NoRoom):
                await self._parser.find_room(origin, hop)
                admitted = True
                continue
            if hop is None:
                if self._is_lost(origin, host, hop_origin):
                    return None  # others found out while this one waited
                await self._frontier.in_flight.landed()
                continue
            if isinstance(hop, RobotsState):
                return hop
            self._frontier.in_flight.end(origin)  # it may be long until the next hop
            if isinstance(hop, Failure):
                if self._frontier.holds.excuses(hop):
                    continue  # it says nothing about the robots.txt
                if not own and (lost := host.out_of_reach.get(hop_origin)):
                    self._frontier.connection_failed(origin.host, origin.name, hop, lost.failures)
                return None
            last = hop
            redirects += 1
            if last.url is None:
                break
            url = last.url
        overflow = last.url is not None
        return await self._learn(
            origin,
            RobotsFetch(
                status=last.status, body=None, headers={}, url=url, redirect_overflow=overflow
            ),
        )

    async def _under(
        self, permit: Permit, origin: Origin, url: str, settled: list[Origin]
    ) -> RobotsState | Failure | Redirect | NoRoom | None:
        """One hop; None: it must not be made now, because its origin is out of reach, or another
        suspect is in flight."""
        try:
            lost = permit.host.beyond_reach(origin_of(url), self._clock.monotonic())
            if lost is not None or (
                is_suspect(origin.access) and not self._frontier.in_flight.begin(origin)
            ):
                return None
            if origin_of(url) != origin.name and (known := await self._known(origin, url)):
                return known
            if origin.large and not self._budget.take_place(origin, ROBOTS_BYTES_MAX):
                return NO_ROOM
            if not self._budget.begin_fetch(origin):
                return CROWDED
            return await self._hop(origin, permit, url, settled)
        finally:
            self._budget.end_fetch(origin)
            self._frontier.permits.give_back(permit)  # if no request was made

    def _is_lost(self, origin: Origin, host: HostQueue, hop_origin: str) -> bool:
        """Whether the origin of this hop is out of reach. Then so is the origin that leads
        there."""
        lost = host.beyond_reach(hop_origin, self._clock.monotonic())
        if lost is not None and hop_origin != origin.name:
            self._frontier.connection_failed(origin.host, origin.name, lost.failure, lost.failures)
        return lost is not None

    async def _hop(
        self, origin: Origin, permit: Permit, url: str, settled: list[Origin]
    ) -> RobotsState | Failure | Redirect | NoRoom:
        """One request: what is known now, where it leads, or the failure to connect."""
        await self._parser.recall(origin)
        body = RobotsBody(partial(self._budget.take_place, origin))
        request = Request(
            url=url,
            headers=validators(origin.access, url),
            limits=LIMITS,
            cut_ok=True,
            reader=body,
        )
        learned: RobotsState | None = None
        with (
            self._frontier.in_flight.noted(origin.host.slot, origin.name),
            self._frontier.in_flight.noted(permit.host.slot, origin_of(url)),
        ):
            async with self._downloader.exchange(permit, request, kind=ROBOTS) as answer:
                result = body.complete(answer)
                if says_something(result) and not body.turned_away:
                    learned = await self._learn(origin, _news_at(permit.host, result, url))
            if learned is not None:
                if origin_of(url) != origin.name:
                    await self._fill(url, permit.host, result, settled)
                return learned
        if body.turned_away:
            return NO_ROOM
        if isinstance(result, Failure):
            if result.code is FailureCode.INTERNAL:
                raise RequestFaultError(result.sentence)
            return result
        location = result.headers.get("Location")
        return Redirect(result.status, canonical(location, url) if location else None)

    async def _known(self, origin: Origin, url: str) -> RobotsState | None:
        """Return another origin's robots.txt that is known and fresh, which needs no second
        request. What is taken from it is no fresher than it is."""
        other = self._frontier.robots.get(origin_of(url))
        if path_of(url) != "/robots.txt" or other is None or other.busy:
            return None
        known: RobotsState | None = other.access
        if not other.loaded:
            known = await self._store.robots_get(other.name)
        if known is None or robots_state.is_due(known, self._clock.wall()):
            return None
        return await self._learn_from(origin, known, url)

    async def _learn_from(self, origin: Origin, known: RobotsState, url: str) -> RobotsState:
        if known.body is not None:
            news = RobotsFetch(
                status=200, body=known.body, headers={}, url=url, truncated=known.truncated
            )
        elif known.unreachable_since is not None:
            news = unreachable(url, "the robots.txt it redirects to could not be fetched")
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

    async def _known_elsewhere(
        self, origin: Origin, url: str, give_up_s: float
    ) -> RobotsState | None:
        """Return what another worker, which leases the host that this hop leads to, stored of that
        origin's robots.txt, if it is fresh. None, after a while: ask for the host again. Raises
        FrontierClosedError."""
        if path_of(url) == "/robots.txt":
            stored = await self._store.robots_get(origin_of(url))
            if stored is not None and not robots_state.is_due(stored, self._clock.wall()):
                return await self._learn_from(origin, stored, url)
        now_s = self._clock.monotonic()
        if now_s >= give_up_s or not self._frontier.deadline.exists:
            sentence = "its robots.txt redirects to a host in use by another worker"
            return await self._learn(origin, unreachable(url, sentence))
        origin.waits_elsewhere = self._frontier.slot_of(host_of(url))
        await self._clock.sleep_until(now_s + ELSEWHERE_AGAIN_S)
        origin.waits_elsewhere = ""
        if self._frontier.stopping or origin.host.gone:
            raise FrontierClosedError("the crawl is ending")
        return None

    async def _fill(
        self, url: str, host: HostQueue, result: Answer | Failure, settled: list[Origin]
    ) -> None:
        """A redirect that ended at another origin's robots.txt fills that origin's copy as well."""
        if (
            path_of(url) != "/robots.txt"
            or isinstance(result, Failure)
            or not 200 <= result.status < 300
        ):
            return
        robots = self._frontier.robots
        name = origin_of(url)
        other = robots.get(name) or robots.add(name, host)
        if other.busy or not other.loaded:
            return
        previous = other.access
        other.busy = True  # its pages wait until the copy is committed
        try:
            learned = await self._learn(other, _news_at(host, result, url))
            learned = await self._parsed(other, learned)
            await self._keep(other, learned, rejudge=changes(previous, learned))
        finally:
            self._budget.leave_place(other)
            self._frontier.robots_settled(other)
        settled.append(other)
        self._frontier.robots_learned(other, previous)

    # ------------------------------------------------------------ learning

    async def _learn(self, origin: Origin, news: RobotsFetch) -> RobotsState:
        """Return the state after this result. Its pace applies immediately; pages are judged
        by it only once it is committed (the origin is busy until then)."""
        await self._parser.recall(origin)
        now_s = self._clock.wall()
        learned = robots_state.next_state(origin.access, news, now_s=now_s, rules=origin.rules)
        size_bytes = origin.size_bytes
        origin.judge_by(learned, now_s=now_s)
        size_bytes = max(size_bytes, origin.size_bytes)
        if size_bytes > LARGE_BYTES:  # it stays in memory until it is committed
            self._budget.take_place(origin, size_bytes, beyond=True)
        return learned

    async def _parsed(self, origin: Origin, learned: RobotsState) -> RobotsState:
        """Parse the file that was learned; returns the state after that. Not under a permit: large
        files wait for their turn."""
        await self._parser.parse(origin)
        return learned if origin.fault is None else self._learn_fault(origin, origin.fault)

    def _learn_fault(self, origin: Origin, fault: str) -> RobotsState:
        """Schedule another fetch of its robots.txt. Until then the origin is closed, even where an
        unreachable file would open it: the site did nothing to open it."""
        now_s = self._clock.wall()
        news = unreachable(robots_url(origin.name), fault)
        learned = robots_state.next_state(origin.access, news, now_s=now_s, rules=origin.rules)
        origin.judge_by(learned, now_s=now_s)
        origin.close(fault, until_s=learned.retry_at)
        return learned

    async def _keep(self, origin: Origin, learned: RobotsState, *, rejudge: bool) -> None:
        """Commit what is known, with the links to the sitemaps that it names."""
        with self._frontier.in_flight.noted(origin.host.slot, origin.name):
            links: Sequence[Link] = ()
            if self._sitemaps is not None:
                try:
                    links = await self._sitemaps.of_origin(origin)
                except Exception as error:  # noqa: BLE001 - its rules count all the same
                    contained(f"reading the sitemaps that {origin.name} names", error)
            host = origin.host
            if host.lease_lost:
                raise FrontierClosedError("another worker may hold the host")
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
                fault = completed.refused
                if fault != robots_state.NO_SPACE:
                    fault += ", when it was stored"
                learned = self._learn_fault(origin, fault)
                await self._store.robots_put(self._session, host.slot, origin.name, learned)
        origin.access = learned
        if completed.added:
            self._frontier.links_added(completed)


def _news_at(host: HostQueue, result: Answer | Failure, url: str) -> RobotsFetch:
    """The result of a request to this host."""
    return news_of(result, url, retry_after_s_max=host.pace.rules.max_retry_after_s)


def _earlier(a: float | None, b: float | None) -> float | None:
    return min((at for at in (a, b) if at is not None), default=None)
