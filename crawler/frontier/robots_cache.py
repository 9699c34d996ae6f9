"""robots.txt of the origins in memory: verdicts on URLs, and when each file is fetched again.

`policies.robots_state` and `policies.robots_policy` decide what a file or its absence means, and
when it expires. The store has every origin; some of each leased host are in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.frontier.commands import CommandQueue, FetchRobots, ParseRobots
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.origin import Origin, RobotsInFlight
from crawler.frontier.robots_budget import RobotsBudget
from crawler.frontier.workbench import Workbench
from policies import robots_policy, robots_state
from policies.pacing import NO_ROBOTS_PACING
from policies.quarantine import is_quarantined, released
from policies.robots import Verdict
from policies.robots_state import RobotsState
from policies.url import host_of, origin_of, path_of

PARSED_TIMES: Final = 10  # what a small file takes in memory when it is parsed, in its own size
ORIGINS_PER_HOST_MAX = 64  # in memory, with `per = "domain"`; the store is asked again for more


_NONE: Final[Mapping[str, int]] = {}


class Asking(Struct, frozen=True):
    """robots.txt is needed first, and is being fetched. The URL waits with its host."""


class Shut(Struct, frozen=True):
    """The origin is closed: no page of it may be requested now."""

    reason: str


class Pass(Struct, frozen=True):
    """The URL may be requested. ungoverned: only because robots.txt gave no answer."""

    ungoverned: bool


ASKING: Final = Asking()
GOVERNED: Final = Pass(ungoverned=False)
UNGOVERNED: Final = Pass(ungoverned=True)


class RobotsCache:
    """Judges URLs, and asks (by command) for robots.txt files that are due or must be parsed.

    keep_trying: fetch files again that could not be fetched, even when no URL needs them.
    """

    def __init__(
        self,
        config: CurrentConfig,
        clock: Clock,
        commands: CommandQueue,
        in_flight: RobotsInFlight,
        budget: RobotsBudget,
        *,
        keep_trying: bool,
    ) -> None:
        self._config = config
        self._clock = clock
        self._commands = commands
        self._in_flight = in_flight
        self._keep_trying = keep_trying
        self._origins: dict[str, Origin] = {}
        self._retries: Workbench[Origin] = Workbench()
        self.budget = budget
        self._closed = False

    # ------------------------------------------------------------ origins

    def get(self, name: str) -> Origin | None:
        return self._origins.get(name)

    def of(self, host: HostQueue) -> list[Origin]:
        """The origins of a host that are in memory."""
        return [
            origin
            for name in host.pace.asks
            if (origin := self._origins.get(name)) and origin.host is host
        ]

    def adopt(
        self,
        host: HostQueue,
        copies: Mapping[str, RobotsState],
        large: Mapping[str, int] = _NONE,
    ) -> None:
        """Take over what the store knows of a host's origins. Large files, of which it gives the
        sizes, are loaded and parsed before the first contact with the host."""
        for name, known in copies.items():
            origin = self.add(name, host, known)
            origin.judge_by(known, now_s=self._clock.wall())
            self.measure(origin)
            self._schedule(origin)
        for name, size_bytes in large.items():
            origin = self.add(name, host)
            origin.loaded = False
            origin.size_bytes = size_bytes
            host.pace.unread.add(name)

    def get_or_add(self, name: str, host: HostQueue) -> Origin:
        origin = self._origins.get(name)
        return self.add(name, host) if origin is None or origin.host is not host else origin

    def add(self, name: str, host: HostQueue, known: RobotsState = robots_state.UNKNOWN) -> Origin:
        rules, tokens = self._config.robots_of(host_of(name + "/"))
        if len(host.pace.asks) > ORIGINS_PER_HOST_MAX:
            self._make_room(host)
        origin = self._origins[name] = Origin(name, host, known, rules, tokens, self._in_flight)
        origin.loaded = known is not robots_state.UNKNOWN or host.all_known
        host.pace.asks.setdefault(name, NO_ROBOTS_PACING)
        return origin

    def load(self, origin: Origin, known: RobotsState | None) -> None:
        """Take over the stored state of an origin that was not `loaded`."""
        if origin.loaded:
            return
        origin.loaded = True
        origin.access = robots_state.UNKNOWN if known is None else known
        if known is not None:
            origin.judge_by(known, now_s=self._clock.wall())
            self.measure(origin)

    def forget(self, host: HostQueue) -> None:
        """The host is no longer leased."""
        for name in host.pace.asks:
            origin = self._origins.get(name)
            if origin and origin.host is host:
                self._let_go(origin)

    def _make_room(self, host: HostQueue) -> None:
        """Forget some of its origins, those met longest ago first, that nothing depends on. The
        store has them, and is asked again when one of their URLs comes up."""
        needed = {origin_of(q.url) for q in host.prefetched} | host.closed | {*host.parked}
        gone: list[str] = []
        for origin in self.of(host)[: ORIGINS_PER_HOST_MAX // 2]:
            if not (
                origin.busy
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
        del self._origins[origin.name]
        self.measure(origin)

    def measure(self, origin: Origin) -> None:
        """Update the memory figures after a change of the robots.txt of an origin."""
        cached = self._origins.get(origin.name) is origin and origin.loaded
        if not (cached and origin.size_bytes):
            self.budget.forget(origin)
        elif origin.policy is not None and origin.large:
            self.budget.keep(origin, origin.policy.memory_bytes, large=True)
        elif not origin.large:
            self.budget.keep(origin, PARSED_TIMES * origin.size_bytes, large=False)

    def reread(self) -> list[Origin]:
        """The config may read robots.txt in another way now: judge by it from now on, and return
        the origins where it does."""
        changed: list[Origin] = []
        for origin in self._origins.values():
            rules, tokens = self._config.robots_of(host_of(origin.name + "/"))
            if (rules, tokens) != (origin.rules, origin.tokens):
                origin.rules, origin.tokens = rules, tokens
                if origin.loaded:
                    origin.judge_by(origin.judged_by, now_s=self._clock.wall())
                else:  # it is loaded when one of its URLs comes up
                    origin.standing = robots_policy.Unknown()
                self.measure(origin)
                changed.append(origin)
        for origin in changed:
            if not origin.busy:
                self._schedule(origin)
        for origin in changed:
            self._parse(origin)
        return changed

    # ------------------------------------------------------------ judging

    def check(self, host: HostQueue, url: str) -> Asking | Shut | Pass | Verdict:
        """Decide whether this URL may be requested now. A Verdict forbids it and says why.
        Cheap."""
        name = origin_of(url)
        origin = self.get_or_add(name, host)
        if origin.busy and origin.rules.obey:
            return ASKING
        if host.out_of_reach and (lost := host.beyond_reach(name, self._clock.monotonic())):
            return Shut(f"no connection could be made ({lost.failure.error})")
        if host.pace.unread:
            self._parse(origin)
            return ASKING
        if not origin.rules.obey:
            return GOVERNED
        now_s = self._clock.wall()
        if robots_state.is_due(origin.access, now_s):
            self.fetch(origin)
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
        self.fetch(origin)
        return ASKING

    # ------------------------------------------------------------ fetching

    def fetch(self, origin: Origin) -> None:
        """Request a fetch of its robots.txt, unless one is under way."""
        if not origin.busy and not self._closed:
            self._retries.remove(origin)
            origin.busy = True
            self._commands.put(FetchRobots(origin))

    def refetch_answered(self, host: HostQueue) -> bool:
        """Ask for a fetch of a robots.txt of this host that was answered before, due or not, to
        find out whether the host can be reached. False: there is none."""
        for origin in self.of(host):
            if origin.rules.obey and origin.loaded and origin.access.fetched_at is not None:
                self.fetch(origin)
                if origin.busy:
                    return True
        return False

    def release(self, host: str | None) -> None:
        """Request a new fetch of the quarantined robots.txt of one host, or of all."""
        now_s = self._clock.wall()
        for origin in list(self._origins.values()):
            if is_quarantined(origin.access) and host in (None, origin.host.slot):
                origin.access = released(origin.access, now_s=now_s)
                self.fetch(origin)

    def _parse(self, origin: Origin) -> None:
        if origin.host.pace.unread and not origin.busy and not self._closed:
            self._retries.remove(origin)
            origin.busy = True
            self._commands.put(ParseRobots(origin))

    def settled(self, origin: Origin) -> None:
        """The origin's fetch or parse has ended."""
        origin.busy = False
        origin.waits_at = None
        origin.waits_elsewhere = ""
        origin.waits_for_room = False
        if origin.large and origin.policy is None and not (origin.unread or origin.pinned):
            origin.strip()  # what does not govern, or was not parsed for the end of the crawl
        self.measure(origin)
        self.budget.settled(origin)
        self._schedule(origin)

    def _schedule(self, origin: Origin) -> None:
        """Wait for the next try, if its robots.txt could not be fetched, or closes it."""
        retry_at = origin.access.retry_at
        if retry_at is None and isinstance(origin.standing, robots_policy.Closed):
            retry_at = origin.standing.until_s
        if retry_at is None or not self._keep_trying or self._closed or origin.host.gone:
            self._retries.remove(origin)
            return
        now_s = self._clock.monotonic()
        wall_s = self._clock.wall()
        due = robots_state.is_due(origin.access, wall_s)
        at_s = now_s if due else now_s + max(0.0, retry_at - wall_s)
        if lost := origin.host.beyond_reach(origin.name, now_s):
            at_s = max(at_s, lost.until_s)
        self._retries.put(origin, at_s)
        self._commands.wake_by(at_s)

    def wake_at(self) -> float | None:
        """The time when `advance` must be called (monotonic seconds)."""
        return self._retries.next_at()

    def advance(self, now_s: float) -> None:
        """Time has passed: fetch the files whose next try is due."""
        while origin := self._retries.take(now_s):
            if not origin.host.gone:
                self.fetch(origin)

    def close(self) -> None:
        """Ask for no more fetches; those under way continue, but no file is parsed any more."""
        self._closed = True
        self.budget.close()
