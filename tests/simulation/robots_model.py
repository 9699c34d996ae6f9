"""A naive model of robots.txt over time, written from docs/robots.md: what a crawler may know of
each origin's file at a moment, and what it then may request.

Where a kill or a redirect leaves open what is known, the model holds all that may be: a request is
wrong only if it is wrong by each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from crawler.config import Config
from policies.retries import FailureCode
from tests.simulation.history import History
from tests.simulation.web import Contact, RobotsPlan

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
COPY_KEPT_S: Final = 30 * DAY_S
GONE_AGAIN_S: Final = 900.0
REDIRECTS_MAX: Final = 5
FORKS_MAX: Final = 12

# Of each dialect: without an answer; after 401 and 403; whether it reads Crawl-delay; how long it
# keeps an answer that says nothing of that, and within which limits it obeys Cache-Control.
_OPEN, _CLOSED = "open", "closed"


class _Dialect(NamedTuple):
    unreachable: str
    denied: str
    crawl_delay: bool
    kept_s: float
    kept_max_s: float  # 0: Cache-Control is ignored
    closed_first_s: float = 0.0


TABLE: Final = {
    "slurp": _Dialect(_OPEN, _OPEN, True, DAY_S, 0),
    "rfc9309": _Dialect(_CLOSED, _OPEN, True, DAY_S, DAY_S),
    "google": _Dialect(_OPEN, _OPEN, False, DAY_S, 30 * DAY_S, closed_first_s=12 * HOUR_S),
    "bing": _Dialect(_CLOSED, _OPEN, True, DAY_S, 0),
    "res1996": _Dialect(_CLOSED, _CLOSED, False, 7 * DAY_S, 0),
    "yandex": _Dialect(_OPEN, _OPEN, False, DAY_S, 0),
}


@dataclass(frozen=True, slots=True)
class Known:
    """What may be known of one origin's robots.txt. Times are monotonic seconds."""

    copy: RobotsPlan | None = None
    copy_at_s: float = 0.0
    fetched_at_s: float | None = None
    kept_s: float = DAY_S
    kind: str = ""  # "rules", "absent", "denied": the last answer that was one
    unreachable_since_s: float | None = None
    gone_since_s: float | None = None
    retry_at_s: float | None = None  # not before, as far as the site has asked for it
    failures: int = 0
    anything: bool = False  # nothing can be said


UNKNOWN: Final = Known()
ANYTHING: Final = Known(anything=True)


def dialects_of(config: Config) -> list[_Dialect]:
    return [TABLE[name] for name in config.robots.dialect]


def after(known: Known, plan: RobotsPlan, contact: Contact, config: Config) -> Known:
    """What is known after one more answer."""
    now_s = contact.end_s
    if plan.kind in ("rules", "html"):
        kept_s = _kept_s(plan, config)
        return Known(copy=plan, copy_at_s=now_s, fetched_at_s=now_s, kept_s=kept_s, kind="rules")
    if plan.kind in ("absent", "denied"):
        since_s = now_s if known.gone_since_s is None else known.gone_since_s
        usable = known.copy is not None and now_s - known.copy_at_s <= COPY_KEPT_S
        if usable and now_s - since_s < GONE_AGAIN_S:
            return replace(
                known, fetched_at_s=now_s, kept_s=since_s + GONE_AGAIN_S - now_s,
                unreachable_since_s=None, gone_since_s=since_s, failures=0, retry_at_s=None,
            )  # fmt: skip
        return Known(fetched_at_s=now_s, kept_s=_kept_s(plan, config), kind=plan.kind)
    failing_since_s = known.unreachable_since_s
    fetched_at_s = now_s if contact.status is not None else known.fetched_at_s
    return replace(
        known,
        fetched_at_s=fetched_at_s,
        unreachable_since_s=now_s if failing_since_s is None else failing_since_s,
        failures=known.failures + 1,
        retry_at_s=now_s + (contact.retry_after_s or 0.0),
    )


def _kept_s(plan: RobotsPlan, config: Config) -> float:
    kept = []
    for dialect in dialects_of(config):
        if plan.max_age_s is None or not dialect.kept_max_s:
            kept.append(dialect.kept_s)
        else:
            kept.append(min(max(plan.max_age_s, HOUR_S), dialect.kept_max_s))
    return min(kept)


def verdicts(known: Known, path: str, now_s: float, config: Config, *, unsure: bool) -> set[str]:
    """What is possible of "allow", "forbid", "closed" and "unknown". unsure: the wall clock was
    set, so that what depends on it is not certain."""
    if known.anything:
        return {"allow", "forbid", "closed", "unknown"}
    override = config.robots.unreachable
    found = []
    for dialect in dialects_of(config):
        since_s = known.unreachable_since_s
        if since_s is not None and override is None and dialect.closed_first_s:
            if unsure:
                return {"allow", "forbid", "closed", "unknown"}
            if now_s < since_s + dialect.closed_first_s:
                found.append("closed")
                continue
        if known.copy is not None:
            if now_s - known.copy_at_s > COPY_KEPT_S:
                return {"allow", "forbid", "closed", "unknown"}
            found.append("forbid" if forbids(known.copy, path) else "allow")
        elif since_s is not None:
            openness = str(override) if override is not None else dialect.unreachable
            found.append("allow" if openness == _OPEN else "closed")
        elif known.fetched_at_s is None:
            found.append("unknown")
        else:
            denied = known.kind == "denied" and dialect.denied == _CLOSED
            found.append("closed" if denied else "allow")
    order = ["unknown", "closed", "forbid", "allow"]
    return {min(found, key=order.index)}


def forbids(plan: RobotsPlan, path: str) -> bool:
    return plan.kind == "rules" and any(path.startswith(prefix) for prefix in plan.disallow)


class RobotsTimeline:
    """What may be known of each origin at any time, by the log."""

    def __init__(self, history: History, configs: ConfigTimeline) -> None:
        self._history = history
        self._configs = configs
        self._uncertain = uncertain_times(history)
        self._led_to = {
            plan.target
            for host in history.scenario.hosts.values()
            for _, plan in host.robots
            if plan.kind == "redirect"
        }
        self._states: dict[str, list[tuple[float, list[Known]]]] = {}
        for contact in history.contacts:
            if contact.is_robots and not contact.broken_off:
                self._learn(contact)
        for states in self._states.values():
            states.sort(key=lambda state: state[0])

    def at(self, origin: str, now_s: float) -> list[Known]:
        """All that may be known of the origin at a time."""
        found = [UNKNOWN]
        for at_s, known in self._states.get(origin, ()):
            if at_s > now_s + 1e-6:
                break
            found = known
        return found

    def changed_s(self, origin: str) -> list[float]:
        """When something was learned of the origin."""
        return [at_s for at_s, _ in self._states.get(origin, ())]

    def _learn(self, contact: Contact) -> None:
        if contact.failure in (FailureCode.DNS, FailureCode.CONNECT) or contact.robots is None:
            return
        states = self._states.setdefault(contact.origin, [])
        before = states[-1][1] if states else [UNKNOWN]
        plan, certain = self._effective(contact)
        config = self._configs.at(contact.end_s)[-1]
        if not certain or plan is None:
            states.append((contact.end_s, [ANYTHING]))
            return
        learned = [after(known, plan, contact, config) for known in before]
        forked = contact.host in self._led_to and plan.kind not in ("rules", "html")
        followed = contact.robots.kind == "redirect"  # it is learned with the last hop
        ours = contact.failure is not None  # it may be blamed on this machine
        if forked or followed or ours or self._uncertain.near(contact.end_s):
            learned = [*before, *learned]
        unique = list(dict.fromkeys(learned))
        states.append((contact.end_s, unique if len(unique) <= FORKS_MAX else [ANYTHING]))

    def _effective(self, contact: Contact) -> tuple[RobotsPlan | None, bool]:
        """The answer at the end of all redirects, and whether that is certain."""
        plan = contact.robots
        hops = 0
        while plan is not None and plan.kind == "redirect":
            hops += 1
            if hops > REDIRECTS_MAX:
                return RobotsPlan(kind="absent", max_age_s=plan.max_age_s), True
            target = self._history.scenario.hosts.get(plan.target)
            if target is None or len(target.robots) > 1 or target.dead:
                return None, False
            if target.latency_s + 0.02 > 9.0:
                return None, False
            plan = target.robots[0][1]
        if hops and plan is not None and plan.kind not in ("rules", "absent", "denied", "html"):
            return None, False
        if plan is contact.robots and contact.status is None and contact.failure is None:
            return None, False
        return plan, True


class ConfigTimeline:
    """The configs that may be in force at a time."""

    def __init__(self, history: History) -> None:
        self._configs = history.configs

    def at(self, now_s: float, *, since_s: float | None = None) -> list[Config]:
        """Oldest first. since_s: all that were in force at any time from then on."""
        from_s = now_s if since_s is None else since_s
        found: list[Config] = []
        for begun_s, sure_s, config in self._configs:
            if begun_s > now_s + 1e-6:
                break
            if sure_s <= from_s - 1e-6:
                found = [config]
            else:
                found.append(config)
        return found


class Times:
    """Some stretches of time."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        self._spans = list(spans)

    def near(self, at_s: float) -> bool:
        return any(from_s <= at_s <= to_s for from_s, to_s in self._spans)

    def overlap(self, from_s: float, to_s: float) -> bool:
        return any(begin_s <= to_s and end_s >= from_s for begin_s, end_s in self._spans)

    def __bool__(self) -> bool:
        return bool(self._spans)


def uncertain_times(history: History) -> Times:
    """When it is not certain that what was learned was stored: before kills and cancellations,
    while workers were frozen or cut off, and what a database forgot that went back in time."""
    spans = []
    lag_s = 1.5 + 30 * history.scenario.slow_store_s
    faults = history.faults
    for run in history.runs:
        ends = [(at_s, at_s) for at_s in run.killed.values()]
        if run.end in ("kill", "cancel"):
            ends.append((run.to_s, run.to_s))
        for done in run.done:
            if done.verb in ("freeze", "freeze at release", "cut off"):
                ends.append((done.from_s, done.from_s + 90.0))
            elif done.verb == "back to copy":
                spans.append((done.from_s - done.value - lag_s, done.from_s + 90.0))
            elif done.verb == "sleep":
                ends.append((done.from_s, done.from_s + 30.0))
        for at_s, to_s in ends:
            from_s = at_s - lag_s
            for fault_from_s, fault_to_s in faults:
                if fault_from_s <= at_s and fault_to_s >= from_s:
                    from_s = min(from_s, fault_from_s - lag_s)
            spans.append((from_s, to_s))
    return Times(spans)


def paces(states: Sequence[Known], config: Config) -> list[tuple[float, float]]:
    """The Crawl-delay and Request-rate that an origin may ask for, by each state."""
    reads = any(dialect.crawl_delay for dialect in dialects_of(config))
    found = []
    for known in states:
        plan = known.copy
        if known.anything or plan is None or plan.kind != "rules":
            found.append((0.0, 0.0))
        else:
            found.append((
                (plan.crawl_delay_s or 0.0) if reads else 0.0, float(plan.request_rate_s or 0),
            ))  # fmt: skip
    return found
