"""One contact with a host: fetch on a turn, end the turn, and let the host learn from the answer.

The only way to the network, for pages and robots.txt alike, so that no contact can be made that
the host's clock does not know of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec.structs import replace

from crawler.clock import Clock
from crawler.faults import contained
from crawler.fetching.fetcher import Answer, Failure, Fetcher, Request
from crawler.fetching.header_scope import HeaderScope
from crawler.observer import Contacted, Observer
from crawler.politeness.holds import Holds
from crawler.politeness.host import Host, Turn
from crawler.politeness.turns import Turns
from policies.pacing import Per
from policies.retries import FailureCode, retry_after_s
from policies.url import host_of, origin_of

PAGE = "page"
ROBOTS = "robots"
SITEMAP = "sitemap"
REFUSALS = frozenset({429, 503})


class Contacts:
    """Makes contacts. `not_connected(host, origin, failure)` is called when no connection to an
    origin could be made, `backed_off(host)` when a host asked for a longer rest, `contacted(host)`
    after every contact; all are synchronous. holds: recognises trouble of our own; None: who asks
    is told of it."""

    def __init__(
        self,
        clock: Clock,
        turns: Turns,
        fetcher: Fetcher,
        *,
        not_connected: Callable[[Host, str, Failure], None],
        backed_off: Callable[[Host], None],
        contacted: Callable[[Host], None],
        holds: Holds | None = None,
        observer: Observer | None = None,
    ) -> None:
        self._clock = clock
        self._turns = turns
        self._fetcher = fetcher
        self._not_connected = not_connected
        self._backed_off = backed_off
        self._contacted = contacted
        self._holds = holds
        self._observer = observer
        self.meant: HeaderScope | None = None  # what the config's headers are for; None: everything
        self.urls: dict[str, float] = {}  # what is being fetched now, and since when

    def excuses(self, failure: Failure) -> bool:
        """Is it to be asked again without charge? For trouble of our own, which holds the crawl
        until it is over, or for a connection that was kept and had gone stale."""
        return failure.stale or (failure.ours is not None and self._holds is not None)

    async def take(self, host: Host, origin: str) -> Turn | Failure:
        """A turn at this host for that origin, its address known where a clock depends on it."""
        while True:
            turn = await self._turns.acquire(host)
            try:
                located = await self.located(turn, origin)
            except BaseException:
                self._turns.give_back(turn)
                raise
            if located is None and not self._turns.stayed(turn):
                return turn
            self._turns.give_back(turn)
            if isinstance(located, Failure):
                return located

    def must_locate(self, turn: Turn) -> bool:
        """With `per = "ip"` a turn must know whose clock it counts on."""
        return turn.host.pace.rules.per is Per.IP and turn.address_clock is None

    async def located(self, turn: Turn, origin: str) -> Failure | Literal["again"] | None:
        """See to it that `must_locate` is False.

        None: it was. "again": it has just been learned, ask for a turn again. A Failure: the
        name has no address (the host has been told).
        """
        host = turn.host
        if not self.must_locate(turn):
            return None
        try:
            address = await self._fetcher.address_of(host_of(origin + "/"))
        except Exception as error:  # noqa: BLE001 - its URLs wait as if it had no address
            address = self._fault(origin, error, self._clock.monotonic(), connected=False)
        if isinstance(address, Failure):
            if self._holds is not None:
                judged = self._holds.judge(turn, address)
                assert isinstance(judged, Failure)
                address = judged
            self._not_connected(host, origin, address)
            return address
        self._turns.set_address(host, address)
        return "again"

    async def fetch(
        self,
        turn: Turn,
        request: Request,
        *,
        kind: str,
        before_end: Callable[[Answer | Failure], Awaitable[None]] | None = None,
    ) -> Answer | Failure:
        """Spend the turn on one request. The turn is over when this returns or raises.

        `before_end` sees the result while the turn is still held, so that what it learns (a
        Crawl-delay) counts for the rest after this very contact.
        """
        if self.meant is not None and not self.meant.covers(request.url):
            request = replace(request, bare=True)
        began_s = self._clock.monotonic()
        self.urls[request.url] = began_s
        turn.host.pace.on_wire()
        status: int | None = None
        started_s, ended_s = began_s, None
        result: Answer | Failure | None = None
        try:
            try:
                result = await self._fetcher.fetch(request)
                if self._holds is not None:
                    result = self._holds.judge(turn, result)
                if isinstance(result, Failure) and not result.contacted and result.ours is not None:
                    self._turns.give_back(turn)  # nothing was sent: its host need not rest
                    if kind == ROBOTS or self._holds is not None:
                        self._not_connected(turn.host, origin_of(result.url), result)
                    return result
                started_s, ended_s, status = result.started_s, result.ended_s, result.status
                self._learn(turn.host, result, kind)
            except Exception as error:  # noqa: BLE001 - it costs this request, and no other
                result = self._fault(request.url, error, began_s)
                if self._holds is not None and turn.probe:
                    result = self._holds.judge(turn, result)
            if before_end:
                await before_end(result)
            return result
        finally:
            self.urls.pop(request.url, None)
            if not turn.over:
                self._turns.end(
                    turn,
                    started_s=started_s,
                    ended_s=self._clock.monotonic() if ended_s is None else ended_s,
                    kind=kind,
                    status=status,
                )
                self._contacted(turn.host)
                if self._observer is not None:
                    self._observer.contacted(self._seen(turn, request.url, kind, result, began_s))

    def _fault(
        self, url: str, error: Exception, began_s: float, *, connected: bool = True
    ) -> Failure:
        """What a fault of our own amounts to: a request that is not made again."""
        return Failure(
            url=url,
            code=FailureCode.INTERNAL,
            sentence=contained(f"the request for {url}", error),
            connected=connected,
            permanent=connected,
            started_s=began_s,
            ended_s=self._clock.monotonic(),
        )

    def _seen(
        self, turn: Turn, url: str, kind: str, result: Answer | Failure | None, began_s: float
    ) -> Contacted:
        """The contact that has just ended, for who watches; `result` None: it was broken off."""
        now_s, wall_s = self._clock.monotonic(), self._clock.wall()
        started_s = began_s if result is None else result.started_s
        next_in_s, source = turn.host.pace.next_turn(now_s, wall_s)
        failure = result if isinstance(result, Failure) else None
        answer = result if isinstance(result, Answer) else None
        return Contacted(
            url=url,
            slot=turn.host.slot,
            kind=kind,
            status=result.status if result else None,
            error=failure.code if failure else None,
            sentence=failure.sentence if failure else "",
            started_at=started_s + wall_s - now_s,
            elapsed_s=(result.ended_s if result else now_s) - started_s,
            latency_s=answer.latency_s if answer else None,
            body_bytes=(answer.poured_bytes or len(answer.body)) if answer else 0,
            wire_bytes=answer.wire_bytes if answer else 0,
            address=answer.address if answer else None,
            late_s=max(0.0, started_s - turn.could_s),
            next_in_s=next_in_s,
            rest_source=source,
        )

    def _learn(self, host: Host, result: Answer | Failure, kind: str) -> None:
        if isinstance(result, Failure):
            origin = origin_of(result.url)
            if result.connected and result.ours is None:
                host.out_of_reach.pop(origin, None)
            else:
                self._not_connected(host, origin, result)
            return
        if host.out_of_reach:
            host.out_of_reach.pop(origin_of(result.url), None)
        if host.address_clock and result.address and result.address != host.address:
            self._turns.set_address(host, result.address)  # the name has moved
        rest_s: float | None = None
        if (after := result.headers.get("Retry-After")) is not None:
            rest_s = retry_after_s(after, now_s=self._clock.wall())
        # A 5xx on robots.txt without Retry-After does not back the host off; 429 always does.
        refusal = result.status == 429 or (result.status in REFUSALS and kind != ROBOTS)
        if rest_s is not None and not (refusal or result.status >= 500 or kind == ROBOTS):
            rest_s = None  # on a redirect or a success it says nothing about our pace
        now_s = self._clock.monotonic()
        if host.pace.answered(result.status, refusal=refusal, rest_s=rest_s, now_s=now_s):
            self._backed_off(host)
