"""The way to a robots.txt: redirects followed, each hop a turn of its host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from crawler.clock import Clock
from crawler.fetching.request import Answer, Failure, Request
from crawler.politeness.contact import ROBOTS, Contacts
from crawler.politeness.flights import Flights
from crawler.politeness.host import Host, Turn
from crawler.politeness.news import LIMITS, failure, is_redirect, news_of, validators
from crawler.politeness.origin import Origin
from crawler.politeness.turns import Turns
from policies.quarantine import is_suspect
from policies.retries import FailureCode
from policies.robots_state import RobotsFetch, RobotsState
from policies.url import canonical, host_of, origin_of, robots_url

REDIRECTS_MAX = 5  # RFC 9309, 2.3.1.2; the sixth counts as absent (design section 5)


class Redirect(NamedTuple):
    """An answer that sends us on; `url` None: nowhere."""

    status: int
    url: str | None


class RequestFaultError(Exception):
    """A request for robots.txt met a fault of our own, which is contained."""


class Hops:
    """`hold`, `slot_of` and `lost` as the gate has them. `learn(origin, news)` gives what is known
    after this news, `known(origin, url)` what another origin's file says for it, if that needs no
    request; `fill(url, host, result)` is told of a file of another origin; `read(host)` reads the
    files that a host has and that may ask something of its pace.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        turns: Turns,
        contacts: Contacts,
        flights: Flights,
        hold: Callable[[str], Awaitable[Host | None]],
        slot_of: Callable[[str], str],
        lost: Callable[[Host, str, Failure, int], None],
        learn: Callable[[Origin, RobotsFetch], Awaitable[RobotsState]],
        known: Callable[[Origin, str], Awaitable[RobotsState | None]],
        fill: Callable[[str, Host, Answer | Failure], Awaitable[None]],
        read: Callable[[Host], Awaitable[None]],
    ) -> None:
        self._clock = clock
        self._turns = turns
        self._contacts = contacts
        self._flights = flights
        self._hold = hold
        self._slot_of = slot_of
        self._lost = lost
        self._learn = learn
        self._known = known
        self._fill = fill
        self._read = read

    async def fetch(self, origin: Origin) -> RobotsState | None:
        """Ask for robots.txt, following redirects, each hop at its host's turn.

        None: a host on the way could not be reached. That opens nothing and closes nothing; the
        origin is tried again on the retry clock like any that cannot be connected to.
        """
        url = robots_url(origin.name)
        last = Redirect(0, None)
        redirects = 0
        while redirects <= REDIRECTS_MAX:
            own = origin_of(url) == origin.name
            host = origin.host if own else await self._hold(self._slot_of(host_of(url)))
            if host is None:
                return await self._learn(
                    origin, failure(url, "its robots.txt leads to a host held by another worker")
                )
            hop_origin = origin_of(url)
            if self._is_lost(origin, host, hop_origin):
                return None
            await self._read(host)
            if host.gone and not own:
                continue  # given back meanwhile
            origin.waits_at = host
            turn = await self._contacts.take(host, hop_origin)
            origin.waits_at = None
            if isinstance(turn, Turn):
                try:
                    if self._is_lost(origin, host, hop_origin):
                        return None  # others found out while this one waited
                    waits = is_suspect(origin.access) and not self._flights.begin(origin)
                    if not waits and not own and (known := await self._known(origin, url)):
                        return known
                    hop = None if waits else await self._hop(origin, turn, url)
                finally:
                    self._turns.give_back(turn)  # if no contact was made
                if hop is None:
                    await self._flights.landed()
                    continue
            else:
                hop = turn
            if isinstance(hop, RobotsState):
                return hop
            self._flights.end(origin)  # it may be long until the next hop
            if isinstance(hop, Failure) and self._contacts.excuses(hop):
                continue  # it says nothing of the robots.txt
            if isinstance(hop, Failure):
                if not own and (lost := host.out_of_reach.get(hop_origin)):
                    self._lost(origin.host, origin.name, hop, lost.failures)
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

    def _is_lost(self, origin: Origin, host: Host, hop_origin: str) -> bool:
        """Is the origin of this hop out of reach? Then so is the origin that leads there."""
        lost = host.beyond_reach(hop_origin, self._clock.monotonic())
        if lost is not None and hop_origin != origin.name:
            self._lost(origin.host, origin.name, lost.failure, lost.failures)
        return lost is not None

    async def _hop(self, origin: Origin, turn: Turn, url: str) -> RobotsState | Failure | Redirect:
        """One request for robots.txt: what is known now, where it leads, or the failure to
        connect."""
        learned: RobotsState | None = None

        async def before_end(result: Answer | Failure) -> None:
            nonlocal learned
            if isinstance(result, Failure):
                counts = result.connected and result.ours is None and not result.stale
                if counts and result.code is not FailureCode.INTERNAL:
                    learned = await self._learn(origin, news_of(result, url))
            elif not is_redirect(result):
                learned = await self._learn(origin, news_of(result, url))

        request = Request(
            url=url, headers=validators(origin.access, url), limits=LIMITS, cut_ok=True
        )
        with (
            self._flights.noted(origin.host.slot, origin.name),
            self._flights.noted(turn.host.slot, origin_of(url)),
        ):
            result = await self._contacts.fetch(turn, request, kind=ROBOTS, before_end=before_end)
            if learned is not None:
                if origin_of(url) != origin.name:
                    await self._fill(url, turn.host, result)
                return learned
        if isinstance(result, Failure):
            if result.code is FailureCode.INTERNAL:
                raise RequestFaultError(result.sentence)
            return result
        location = result.headers.get("Location")
        return Redirect(result.status, canonical(location, url) if location else None)
