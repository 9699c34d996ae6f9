"""Changes a crawl while it runs: pauses, paces, failures revived, another config."""

from __future__ import annotations

from collections.abc import Callable

from crawler.clock import Clock
from crawler.config import Config
from crawler.config.model import CurrentConfig
from crawler.engine.course import Course
from crawler.engine.holdings import Holdings
from crawler.engine.keeper import Keeper
from crawler.engine.marked import Marked
from crawler.politeness.gate import Gate
from crawler.politeness.host import Host
from crawler.politeness.origin import Origin
from crawler.politeness.reading import session_name
from crawler.politeness.turns import Turns
from crawler.visiting.known import Known
from crawler.visiting.ledger import Ledger
from crawler.visiting.visit import Budget
from policies.retries import FailureCode
from policies.scope import Scope, ScopeRules
from storage.store import Store


class Steering:
    """What `Control` has done to the parts of a crawl. `reopen(host, origin)` lets an origin's URLs
    move, `reread(origin)` is told of one whose robots.txt is read otherwise now, `staff()` of
    another number of requests in flight, and of pages that may be wanted again.
    """

    def __init__(
        self,
        effective: CurrentConfig,
        *,
        store: Store,
        session: int,
        clock: Clock,
        course: Course,
        turns: Turns,
        gate: Gate,
        ledger: Ledger,
        holdings: Holdings,
        keeper: Keeper,
        scope: Scope,
        budget: Budget,
        known: Known,
        marked: Marked,
        reopen: Callable[[Host, str], None],
        reread: Callable[[Origin], None],
        staff: Callable[[], None],
    ) -> None:
        self._effective = effective
        self._store = store
        self._session = session
        self._clock = clock
        self._course = course
        self._turns = turns
        self._gate = gate
        self._ledger = ledger
        self._holdings = holdings
        self._keeper = keeper
        self._scope = scope
        self._budget = budget
        self._known = known
        self._marked = marked
        self._reopen = reopen
        self._reread = reread
        self._staff = staff

    # ------------------------------------------------------------ by hand

    def pause(self) -> None:
        """No contact begins, for pages or robots.txt, until `resume`; what is in flight ends."""
        self._turns.pause()
        self._course.stir.set()

    def resume(self) -> None:
        self._course.moved_s = self._clock.monotonic()  # the patience counts from here
        self._turns.resume()
        self._look_again()

    def hold_off(self, slot: str) -> None:
        """A held host is paused before anything that takes time; `steer` makes it durable."""
        if (host := self._turns.get(slot)) is not None:
            host.steer(paused=True)
            self._turns.consider(host)

    async def steer(
        self,
        slot: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> bool:
        """Pause, slow or let go on one host: durable, and obeyed by a held host at once. False if
        no such host is known."""
        async with self._holdings.leasing:  # none is taken on by what a lease said before
            known = await self._store.set_control(
                slot, paused=paused, slow_s=slow_s, clear_slow=clear_slow
            )
            if (host := self._turns.get(slot)) is not None:
                host.steer(paused=paused, slow_s=slow_s, clear_slow=clear_slow)
                self._turns.consider(host)
                self._ledger.touch(host)  # its rest, and where that comes from, are to be seen
        self._look_again()
        return known

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Queue failed URLs again, of one host or of all, and try at once what was given up."""
        count = await self._store.retry_failed(host, code)
        held = [one for one in self._turns if host in (None, one.slot)]
        for one in held:
            for origin, lost in list(one.out_of_reach.items()):
                if lost.given_up:
                    del one.out_of_reach[origin]
                    self._reopen(one, origin)
            self._ledger.want(one)
        if code in (None, FailureCode.QUARANTINED):
            self._gate.release(host)
        self._look_again()
        return count

    # ------------------------------------------------------------ another config

    def apply(self, config: Config) -> None:
        """From now on by another config, all of it at once, and for the hosts that rest, too: their
        next times count from the end of their last contact. What is in flight ends as it began."""
        before, self._effective.config = self._effective.config, config
        self._scope.judge_by(lambda host: config.site(host).scope, max_depth=config.crawl.max_depth)
        self._known.clear()  # what was out of scope may now be in it
        self._keeper.patience_s = config.crawl.patience_s
        self._budget.limit = config.crawl.max_pages
        for host in self._turns:
            host.rule(config.site(host.slot).politeness)
        for origin in self._gate.reread():
            self._reread(origin)
        self._turns.reckon_addresses()
        for host in self._turns:
            self._turns.consider(host)
            self._ledger.touch(host)  # its rest, and where that comes from, are to be seen
        revisits_begin = config.revisits and not before.revisits
        self._holdings.bring_back(
            lambda slot: (
                revisits_begin
                or _host_limits(before.site(slot).scope) != _host_limits(config.site(slot).scope)
            )
        )
        self._turns.open_pages(open_=self._budget.left >= 1)
        self._turns.set_limit(config.crawl.concurrency)
        self._staff()
        self._course.idle = False
        self._look_again()

    async def rouse(self) -> None:
        """Delays are others now: hosts on disk do not wait for the rest they were put down with."""
        await self._store.recheck_delays(self._session)
        self._look_again()

    async def read_robots_anew(self) -> None:
        """What was judged by robots.txt is judged again, because the config reads it otherwise."""
        await self._store.name_session(self._session, session_name(self._effective.config))
        await self._store.rejudge_all(self._session)
        self._marked.again()

    def _look_again(self) -> None:
        """Something was changed from outside: hosts on disk may be claimed, or may move sooner."""
        self._course.may_claim = True
        self._course.stir.set()


def _host_limits(rules: ScopeRules) -> tuple[float, float]:
    return rules.max_pages_per_host, rules.max_bytes_per_host
