"""One origin as the gate holds it in memory: what is known of its robots.txt, what that means."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from crawler.faults import contained
from crawler.politeness.flights import Flights
from crawler.politeness.host import Host
from crawler.threads import in_thread
from policies import robots, robots_policy, robots_state
from policies.pacing import NO_ROBOTS_PACING, RobotsPacing
from policies.robots import RuleSet
from policies.robots_policy import RobotsPolicy
from policies.robots_state import RobotsRules, RobotsState

READ_APART_BYTES = 8_192
"""Larger files are read in a thread: one made to be slow takes up to a second in all dialects."""


class Origin:
    """What the gate holds of one origin in memory."""

    __slots__ = (
        "access",
        "fault",
        "flights",
        "host",
        "loaded",
        "lock",
        "name",
        "pinned",
        "policy",
        "rules",
        "seat",
        "standing",
        "stands_on",
        "task",
        "tokens",
        "unread",
        "waits_at",
    )

    def __init__(
        self,
        name: str,
        host: Host,
        known: RobotsState,
        rules: RobotsRules,
        tokens: tuple[str, ...],
        flights: Flights,
    ) -> None:
        self.name = name
        self.flights = flights
        self.host = host
        self.access = known
        self.loaded = True  # that is what the store knows, too
        self.pinned = False  # something counts on its being in memory
        self.rules = rules
        self.tokens = tokens
        self.seat = 0
        self.standing: RobotsPolicy = robots_policy.Unknown()
        self.stands_on = known  # newer than `access` while that is being committed
        self.policy: RuleSet | None = None
        self.unread: Callable[[], RuleSet] | None = None  # gives the policy; `read` calls it
        self.lock = asyncio.Lock()  # whoever reads it: once is enough
        self.fault: str | None = None  # why its file could not be read: a fault of our own
        self.task: asyncio.Task[None] | None = None  # its robots.txt is being fetched, or read
        self.waits_at: Host | None = None  # the host whose turn that task waits for

    @property
    def in_use(self) -> bool:
        """Is its robots.txt being fetched, or read?"""
        return self.task is not None or self.lock.locked()

    @property
    def answered(self) -> bool:
        """Is what we do here founded on an answer, rather than on the lack of one?"""
        standing = self.standing
        return isinstance(standing, robots_policy.Governed) or (
            isinstance(standing, robots_policy.Open) and standing.answered
        )

    def stand(self, known: RobotsState, *, now_s: float) -> None:
        """Work out what governs the origin by what is known (`now_s`: wall clock), and what it asks
        of the pace of its host. A large file must be `read` before it governs, and before the next
        contact with its host."""
        self.stands_on = known
        self.standing = standing = robots_policy.robots_policy(known, now_s=now_s, rules=self.rules)
        self.policy = self.fault = None
        self._put_off(None)
        if not isinstance(standing, robots_policy.Governed):
            self._obey(None)
            return
        large = len(standing.body) > READ_APART_BYTES
        read = partial(_read, standing.body, self.tokens, self.rules.dialect, whole=large)
        if large:
            self._put_off(read)
            return
        try:
            with self.flights.noted(self.host.slot, self.name):
                self._obey(read())
        except Exception as error:  # noqa: BLE001 - what cannot be read opens nothing
            self._close_unread(error)

    async def read(self) -> None:
        """Read the file that governs the origin, if that has not been done."""
        if self.unread is None:
            return
        async with self.lock:
            while (read := self.unread) is not None:
                result: RuleSet | Exception
                try:
                    with self.flights.noted(self.host.slot, self.name):
                        result = await in_thread(read)
                except Exception as error:  # noqa: BLE001 - what cannot be read opens nothing
                    result = error
                if self.unread is not read:
                    continue  # there is another file by now
                self._put_off(None)
                if isinstance(result, Exception):
                    self._close_unread(result)
                else:
                    self._obey(result)

    def _put_off(self, read: Callable[[], RuleSet] | None) -> None:
        """Keep the file to be read later, which the host then waits for. None: there is none."""
        self.unread = read
        if read is None:
            self.host.pace.unread.discard(self.name)
        else:
            self.host.pace.unread.add(self.name)

    def _obey(self, policy: RuleSet | None) -> None:
        """None: no file governs it."""
        self.policy = policy
        self.host.pace.set_ask(self.name, self._ask())

    def _close_unread(self, error: Exception) -> None:
        self.fault = contained(f"reading the robots.txt of {self.name}", error)
        self.close(self.fault, until_s=robots_state.next_due_at(self.stands_on))
        self.host.pace.set_ask(self.name, NO_ROBOTS_PACING)

    def close(self, fault: str, *, until_s: float | None) -> None:
        """A fault of our own keeps its file from being read. Unix seconds."""
        self.policy = None
        self._put_off(None)
        reason = f"its robots.txt could not be read ({fault})"
        self.standing = robots_policy.Closed(reason=reason, until_s=until_s)

    def _ask(self) -> RobotsPacing:
        policy = self.policy
        paced = policy if self.rules.crawl_delay else None
        return RobotsPacing(
            crawl_delay_s=paced.crawl_delay_s if paced else None,
            request_rate_s=paced.request_rate_s if paced else None,
            windows=policy.visit_windows if policy else (),
            missing=self.stands_on.unreachable_since is not None,
        )


def _read(
    body: bytes, tokens: tuple[str, ...], dialect: tuple[str, ...], *, whole: bool
) -> RuleSet:
    policy = robots.parse(body).rule_set(tokens, [robots.DIALECTS[name] for name in dialect])
    if whole:
        policy.read_whole()
    return policy


def changes(previous: RobotsState, learned: RobotsState) -> bool:
    """Must what was judged before under this origin be judged again (law 4)?"""
    if learned.unreachable_since is not None:
        return False
    late = previous.unreachable_since is not None
    return late or (previous.copy_at is not None and previous.body != learned.body)
