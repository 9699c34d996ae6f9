"""One origin in memory: the state of its robots.txt and the resulting policy for its pages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from crawler.faults import contained
from crawler.frontier.host_queue import HostQueue
from policies import robots, robots_policy, robots_state
from policies.pacing import NO_ROBOTS_PACING, RobotsPacing
from policies.quarantine import is_quarantined
from policies.robots import RuleSet
from policies.robots_policy import RobotsPolicy
from policies.robots_state import RobotsRules, RobotsState
from storage.store import Store

LARGE_BYTES = 8_192
"""Larger files are parsed in a thread: a hostile one takes up to a second in all dialects."""


class Origin:
    """What is known of one origin. `access` is committed; `judged_by` may be newer, while that is
    being committed."""

    __slots__ = (
        "access",
        "busy",
        "domain",
        "fault",
        "host",
        "in_flight",
        "judged_by",
        "loaded",
        "name",
        "parsing",
        "pinned",
        "policy",
        "rules",
        "seat",
        "size_bytes",
        "standing",
        "tokens",
        "unread",
        "waits_at",
        "waits_elsewhere",
        "waits_for_room",
        "wanted",
    )

    def __init__(
        self,
        name: str,
        host: HostQueue,
        known: RobotsState,
        rules: RobotsRules,
        tokens: tuple[str, ...],
        in_flight: RobotsInFlight,
    ) -> None:
        self.name = name
        self.domain = ""  # the registrable one, once it is needed
        self.in_flight = in_flight
        self.host = host
        self.access = known
        # `access` is what the store has, too. False: it has more, at least the body.
        self.loaded = True
        self.pinned = False  # must stay in memory
        self.rules = rules
        self.tokens = tokens
        self.seat = 0  # the workbench's mark
        self.standing: RobotsPolicy = robots_policy.Unknown()
        self.judged_by = known
        self.policy: RuleSet | None = None
        self.unread: Callable[[], RuleSet] | None = None  # parses a large file; see `RobotsFetcher`
        self.parsing = asyncio.Lock()  # taken while a thread parses: once is enough
        self.fault: str | None = None  # why its file could not be parsed: an internal error
        self.busy = False  # its robots.txt is being fetched, or parsed: its URLs wait
        self.wanted = False  # it is fetched because it was due, though no URL waits for it
        self.size_bytes = len(known.body or b"")  # of its file, also when that is not in memory
        self.waits_for_room = False  # its file is large, and there is no room for it yet
        self.waits_at: HostQueue | None = None  # the host whose permit the fetch waits for
        self.waits_elsewhere = ""  # the host of another worker that it waits for

    @property
    def in_use(self) -> bool:
        """Whether its robots.txt is being fetched or parsed."""
        return self.busy or self.parsing.locked()

    @property
    def answered(self) -> bool:
        """Whether its pages are judged by an answer rather than by the lack of one."""
        standing = self.standing
        return isinstance(standing, robots_policy.Governed) or (
            isinstance(standing, robots_policy.Open) and standing.answered
        )

    def judge_by(self, known: RobotsState, *, now_s: float) -> None:
        """Judge its pages by `known` from now on (`now_s`: Unix seconds), and pace its host by what
        it asks for. A large file must be parsed first, before the next contact with the host."""
        self.judged_by = known
        self.size_bytes = len(known.body or b"")
        self.standing = standing = robots_policy.robots_policy(known, now_s=now_s, rules=self.rules)
        self.policy = self.fault = None
        self.put_off(None)
        if not isinstance(standing, robots_policy.Governed):
            self.obey(None)
            return
        large = len(standing.body) > LARGE_BYTES
        parse = partial(_parse, standing.body, self.tokens, self.rules.dialect, whole=large)
        if large:
            self.put_off(parse)
            return
        try:
            with self.in_flight.noted(self.host.slot, self.name):
                self.obey(parse())
        except Exception as error:  # noqa: BLE001 - what cannot be parsed opens nothing
            self.close_unparsed(error)

    @property
    def large(self) -> bool:
        """Whether its file, in memory or not, is large."""
        return self.size_bytes > LARGE_BYTES

    def strip(self) -> bool:
        """Forget its file, which the store has; what it asks of the pace stays in force, and so
        does the reason for which the origin is closed. False: it has none that can be forgotten."""
        if not self.loaded or is_quarantined(self.access):
            return False
        self.loaded = False
        self.access = self.judged_by = replace(self.access, body=None)
        self.policy = None
        if not isinstance(self.standing, robots_policy.Closed):
            self.standing = robots_policy.Unknown()
        return True

    def recall(self, known: RobotsState | None) -> None:
        """Remember what the store has of it, until it is fetched again."""
        self.loaded = True
        self.access = self.judged_by = robots_state.UNKNOWN if known is None else known
        self.size_bytes = len(self.access.body or b"")

    def put_off(self, parse: Callable[[], RuleSet] | None) -> None:
        """Keep the file to be parsed later, which its host then waits for. None: there is none."""
        self.unread = parse
        if parse is None:
            self.host.pace.unread.discard(self.name)
        else:
            self.host.pace.unread.add(self.name)

    def obey(self, policy: RuleSet | None) -> None:
        """Judge by this parsed file. None: no file governs the origin."""
        self.policy = policy
        self.host.pace.set_ask(self.name, self._ask())

    def close_unparsed(self, error: Exception) -> None:
        """The file of the origin could not be parsed: close the origin until it is fetched
        again."""
        self.fault = contained(f"parsing the robots.txt of {self.name}", error)
        self.close(self.fault, until_s=robots_state.next_due_at(self.judged_by))
        self.host.pace.set_ask(self.name, NO_ROBOTS_PACING)

    def close(self, fault: str, *, until_s: float | None) -> None:
        """Close the origin because an internal error prevents the use of its file. until_s: Unix
        seconds."""
        self.policy = None
        self.put_off(None)
        reason = f"its robots.txt could not be read ({fault})"
        self.standing = robots_policy.Closed(reason=reason, until_s=until_s)

    def _ask(self) -> RobotsPacing:
        policy = self.policy
        paced = policy if self.rules.crawl_delay else None
        return RobotsPacing(
            crawl_delay_s=paced.crawl_delay_s if paced else None,
            request_rate_s=paced.request_rate_s if paced else None,
            windows=policy.visit_windows if policy else (),
            missing=self.judged_by.unreachable_since is not None,
        )


def _parse(
    body: bytes, tokens: tuple[str, ...], dialect: tuple[str, ...], *, whole: bool
) -> RuleSet:
    policy = robots.parse(body).rule_set(tokens, [robots.DIALECTS[name] for name in dialect])
    if whole:
        policy.read_whole()
    return policy


def changes(previous: RobotsState, learned: RobotsState) -> bool:
    """Return whether URLs already judged by this origin's robots.txt must be judged again."""
    if learned.unreachable_since is not None:
        return False
    late = previous.unreachable_since is not None
    return late or (previous.copy_at is not None and previous.body != learned.body)


class RobotsInFlight:
    """A robots.txt noted here when the process dies becomes a suspect (`policies.robots_state`).
    While a suspect is in flight no other suspect is, robots.txt or page: if the process dies again,
    at most one of them can be to blame."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._noted: Counter[str] = Counter()
        self._suspect: object | None = None
        self._landed = asyncio.Event()

    @contextlib.contextmanager
    def noted(self, slot: str, origin: str) -> Iterator[None]:
        """The robots.txt of the origin is in flight meanwhile."""
        self._noted[origin] += 1
        if self._noted[origin] == 1:
            self._store.robots_in_flight(slot, origin)
        try:
            yield
        finally:
            self._noted[origin] -= 1
            if not self._noted[origin]:
                del self._noted[origin]
                self._store.robots_not_in_flight(slot, origin)

    @property
    def suspect_in_flight(self) -> bool:
        return self._suspect is not None

    def begin(self, suspect: object) -> bool:
        """Put the suspect in flight; False if another one is."""
        if self._suspect not in (None, suspect):
            return False
        self._suspect = suspect
        self._landed.clear()
        return True

    def end(self, suspect: object) -> None:
        """The suspect is no longer in flight, if it was."""
        if self._suspect is suspect:
            self._suspect = None
            self._landed.set()

    async def landed(self) -> None:
        """Wait until the suspect in flight has ended."""
        await self._landed.wait()
