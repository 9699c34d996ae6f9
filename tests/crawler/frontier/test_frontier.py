"""The frontier alone, without an event loop: whatever happens in whatever order, no host is
contacted early, too often at the same time, or without a verdict."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crawler.clock import Timer
from crawler.config import from_dict
from crawler.config.model import CurrentConfig
from crawler.fetching.request import Failure
from crawler.frontier.commands import FetchRobots
from crawler.frontier.commit_buffer import CommitBatch
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.frontier.robots_cache import Pass
from crawler.frontier.stops import BY_OPERATOR
from crawler.frontier.tickets import FrontierClosedError, Ticket
from policies.holds import HoldReason
from policies.retries import FailureCode
from policies.robots_state import RobotsFetch, next_state
from policies.url import origin_of
from storage.store import Batch, Completed, HostClock, Lease, Prefetched, Queued, Store

HOSTS = 3
START_S = 1000.0
WALL_S = 1_700_000_000.0
FLOAT_S = 1e-6


class HandClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = START_S

    def monotonic(self) -> float:
        return self.now_s

    def boottime(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return WALL_S + self.now_s

    def call_at(self, when_s: float, callback: Callable[[], None]) -> Timer:
        raise AssertionError("the frontier sets no timers")

    async def sleep_until(self, when_s: float) -> None:
        raise AssertionError("the frontier does not sleep")


class NoStore:
    """Takes the notes of robots.txt in flight."""

    shared = False

    def robots_in_flight(self, slot: str, origin: str) -> None: ...

    def robots_not_in_flight(self, slot: str, origin: str) -> None: ...


@dataclass
class Open:
    """A permit that is open, and since when."""

    permit: Permit
    began_s: float


@dataclass
class History:
    """The contacts of one host, and what they had to keep to."""

    ended_s: list[float] = field(default_factory=list)
    delay_s: float = 0.0


class FrontierMachine(RuleBasedStateMachine):
    """Drives a frontier as a scheduler does, in any order."""

    @initialize(
        delay=st.sampled_from([0.0, 0.5, 10.0]),
        lanes=st.integers(1, 3),
        limit=st.integers(1, 4),
    )
    def begin(self, delay: float, lanes: int, limit: int) -> None:
        self.clock = HandClock()
        config = from_dict(
            {
                "crawl": {"concurrency": limit},
                "politeness": {
                    "delay": delay,
                    "concurrency_per_host": lanes,
                    "latency_factor": 0,
                },
            }
        )
        self.lanes, self.limit = lanes, limit
        store = cast("Store", NoStore())
        self.frontier = Frontier(CurrentConfig(config), self.clock, store)
        self.ids = itertools.count(1)
        self.tickets: list[tuple[Ticket[Permit], HostQueue | None]] = []
        self.open: list[Open] = []
        self.histories: dict[str, History] = {}
        self.fetching: list[FetchRobots] = []
        self.held: set[HoldReason] = set()

    # ------------------------------------------------------------ events

    @rule(n=st.integers(0, HOSTS - 1), pages=st.integers(0, 5))
    def lease(self, n: int, pages: int) -> None:
        slot = f"h{n}.test"
        if (host := self.frontier.permits.get(slot)) is None:
            lease = Lease(
                slot=slot,
                epoch=1,
                clean=True,
                clock=HostClock(),
                paused=False,
                slow_s=None,
                visited=0,
                body_bytes=0,
                robots={},
                prefetched=Prefetched(urls=self._urls(slot, pages), next_due_in_s=None),
            )
            self.frontier.host_leased(lease)
            self.histories[slot] = History()
        else:
            host.wanting = True
            hand = Prefetched(urls=self._urls(slot, pages), next_due_in_s=None)
            completed = Completed(stale=frozenset(), added={}, prefetched={slot: hand})
            taken = CommitBatch(outcomes=[], batch=Batch(), upto=0)
            self.frontier.committed(taken, completed)

    def _urls(self, slot: str, pages: int) -> list[Queued]:
        return [
            Queued(
                id=(id_ := next(self.ids)),
                url=f"http://{slot}/{id_}",
                depth=0,
                priority=0,
                attempts=0,
                refusals=0,
                seed=False,
            )
            for _ in range(pages)
        ]

    @rule()
    def ask_for_any_host(self) -> None:
        self.tickets.append((self.frontier.permits.for_any_host(), None))
        self._take_served()

    @rule(n=st.integers(0, HOSTS - 1))
    def ask_for_one_host(self, n: int) -> None:
        host = self.frontier.permits.get(f"h{n}.test")
        if host is None:
            return
        try:
            granted = self.frontier.permits.for_host(host)
        except FrontierClosedError:
            return
        if isinstance(granted, Permit):
            self._granted(granted)
        else:
            self.tickets.append((granted, host))
        self._take_served()

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def cancel_one_who_waits(self, data: st.DataObject) -> None:
        ticket, host = self.tickets.pop(data.draw(st.integers(0, len(self.tickets) - 1)))
        self.frontier.permits.withdraw(ticket, host)
        self._take_served()

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        status=st.sampled_from([200, 429, 500, None]),
        takes_s=st.sampled_from([0.0, 0.1, 3.0]),
    )
    def use_permit(self, data: st.DataObject, status: int | None, takes_s: float) -> None:
        """A request is sent if the permit is still good and robots.txt allows one of its URLs."""
        at = data.draw(st.integers(0, len(self.open) - 1))
        permit = self.open[at].permit
        permits = self.frontier.permits
        url = self._allowed_url(permit.host)
        if permits.is_void(permit) or url is None:
            del self.open[at]
            permits.give_back(permit)
        elif self.open[at].began_s == math.inf:
            self._begin_contact(self.open[at])
        else:
            self.clock.now_s += takes_s
            self._end_contact(self.open.pop(at), url, status)
        self._take_served()

    def _allowed_url(self, host: HostQueue) -> str | None:
        while host.prefetched:
            url = host.prefetched[0].url
            if isinstance(self.frontier.robots.check(host, url), Pass):
                return url
            host.prefetched.popleft()
        return None

    def _begin_contact(self, one: Open) -> None:
        host = one.permit.host
        one.began_s = self.clock.now_s
        history = self.histories[host.slot]
        free = sorted(history.ended_s)[-self.lanes :]
        busy = sum(o.permit.host is host and o.began_s != math.inf for o in self.open)
        assert busy <= self.lanes, "more requests at once than lanes"
        if len(free) + busy > self.lanes:
            follows_s = free[len(free) + busy - self.lanes - 1]
            assert self.clock.now_s >= follows_s + history.delay_s - FLOAT_S, "too early"
        host.pace.on_wire()

    def _end_contact(self, one: Open, url: str, status: int | None) -> None:
        host, permits = one.permit.host, self.frontier.permits
        host.prefetched.popleft()
        if status is None:
            failure = Failure(
                url=url,
                code=FailureCode.CONNECT,
                sentence="refused",
                connected=False,
                permanent=False,
                started_s=one.began_s,
                ended_s=self.clock.now_s,
            )
            self.frontier.learn(one.permit, failure, kind="page")
        elif status in (429, 500):
            host.pace.answered(status, refusal=status == 429, rest_s=None, now_s=self.clock.now_s)
        self.histories[host.slot].ended_s.append(self.clock.now_s)
        permits.end(
            one.permit,
            started_s=one.began_s,
            ended_s=self.clock.now_s,
            kind="page",
            status=status,
        )
        self.frontier.request_ended(one.permit)

    @precondition(lambda self: self.fetching)
    @rule(
        data=st.data(),
        body=st.sampled_from(
            [b"", b"User-agent: *\nCrawl-delay: 7\n", b"User-agent: *\nDisallow: /"]
        ),
    )
    def robots_arrive(self, data: st.DataObject, body: bytes) -> None:
        command = self.fetching.pop(data.draw(st.integers(0, len(self.fetching) - 1)))
        origin = command.origin
        now_s = self.clock.wall()
        fetched = RobotsFetch(status=200, body=body, headers={}, url=f"{origin.name}/robots.txt")
        learned = next_state(origin.access, fetched, now_s=now_s, rules=origin.rules)
        origin.stand(learned, now_s=now_s)
        origin.access = learned
        self.frontier.robots_settled(origin)
        self._take_served()

    @rule(by_s=st.sampled_from([0.01, 0.5, 10.0, 3600.0]))
    def time_passes(self, by_s: float) -> None:
        self.clock.now_s += by_s
        self._advance()

    @rule()
    def next_pass(self) -> None:
        self._advance()

    @rule()
    def wake(self) -> None:
        """Time passes up to the moment that the frontier asked for."""
        at_s = self.frontier.next_wake_s()
        if at_s is not None:
            self.clock.now_s = max(self.clock.now_s, at_s)
            self._advance()

    @rule(stop=st.booleans())
    def pause(self, stop: bool) -> None:
        permits = self.frontier.permits
        (permits.stop if stop else permits.go)(BY_OPERATOR)
        self._take_served()

    @rule(reason=st.sampled_from([HoldReason.DISK_FULL, HoldReason.NETWORK]), begins=st.booleans())
    def hold(self, reason: HoldReason, begins: bool) -> None:
        holds = self.frontier.holds
        holds.begin(reason) if begins else holds.end(reason)
        self._take_served()

    # ------------------------------------------------------------ what a scheduler does

    def _advance(self) -> None:
        self.frontier.advance()
        self.frontier.next_pass()
        self._take_served()

    def _take_served(self) -> None:
        for command in self.frontier.commands.take():
            if isinstance(command, FetchRobots):
                self.fetching.append(command)
        waiting = []
        for ticket, host in self.tickets:
            if not ticket.done:
                waiting.append((ticket, host))
            elif (permit := ticket.withdraw()) is not None:
                self._granted(permit)
        self.tickets = waiting

    def _granted(self, permit: Permit) -> None:
        assert permit.allowed_s <= self.clock.now_s + FLOAT_S, "granted before it is allowed"
        self.open.append(Open(permit, math.inf))
        host = permit.host
        self.histories[host.slot].delay_s = host.pace.rules.delay

    # ------------------------------------------------------------ what always holds

    @invariant()
    def permits_are_counted(self) -> None:
        if not hasattr(self, "frontier"):
            return
        permits = self.frontier.permits
        served = sum(t.done for t, _ in self.tickets)
        assert permits.in_flight == len(self.open) + served
        assert permits.in_flight <= self.limit
        for host in permits:
            assert host.busy <= self.lanes
            assert host.pace.breaches == 0, "the pace itself saw an early contact"

    @invariant()
    def origins_belong_to_held_hosts(self) -> None:
        if not hasattr(self, "frontier"):
            return
        for host in self.frontier.permits:
            for origin in self.frontier.robots.of(host):
                assert origin.host is host
                assert origin_of(f"{origin.name}/") == origin.name


TestFrontier = FrontierMachine.TestCase
TestFrontier.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
