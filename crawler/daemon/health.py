"""The health of a crawl: a short list of checks, judged by the last five minutes.

A total since the start would hide an outage behind the days before it, and keep one alive that has
long been over.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from crawler.config.units import format_bytes, format_duration
from crawler.explain.formatting import counted
from crawler.operator_commands import CrawlState
from crawler.steering.live_state import ActiveHold
from policies.holds import CONNECTING, HoldReason

SAMPLE_MIN: Final = 20  # events; a share of fewer means nothing
LOST_WARNING, LOST_BAD = 0.3, 0.6  # of the requests for pages
GONE_WARNING, GONE_BAD = 0.2, 0.5  # of the hosts that have responded before
GONE_HOSTS_MIN: Final = 5
ERRORS_WARNING, ERRORS_BAD = 0.2, 0.6
ROBOTS_WARNING, ROBOTS_BAD = 0.5, 0.9
FAILED_WARNING, FAILED_BAD = 0.2, 0.5  # of the URLs that ended
GIVEN_UP_HOSTS_WARNING, GIVEN_UP_HOSTS_BAD = 3, 10
UNCOMMITTED_WARNING_S, UNCOMMITTED_BAD_S = 15.0, 60.0
SLOW_COMMITS_WARNING: Final = 0.1
RETURN_SHOWN_S: Final = 300.0
FREE_WARNING_BYTES: Final = 1_000_000_000
FREE_WARNING_SHARE: Final = 0.05
_MINUTES: Final = "in the last five minutes"

_DISK: Final = frozenset(
    (
        HoldReason.DISK_FULL, HoldReason.DISK_LOW, HoldReason.DISK_QUOTA, HoldReason.DISK_ERROR,
        HoldReason.FILES,
    )
)  # fmt: skip
_DATABASE: Final = frozenset(
    (HoldReason.DATABASE_LOCKED, HoldReason.DATABASE_UNREACHABLE, HoldReason.DATABASE_ERROR)
)
_SHARING: Final = frozenset((HoldReason.LEASES_EXPIRED, HoldReason.DATABASE_WENT_BACK))


class HealthState(enum.StrEnum):
    """The states of health, in the order of severity."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"

    @property
    def severity(self) -> int:
        return tuple(HealthState).index(self)


class CheckName(enum.StrEnum):
    """What is checked, in the order it is shown in."""

    NETWORK = "network"  # do requests get a response?
    RESPONSES = "responses"  # are they errors or refusals of the sites?
    URLS = "urls"  # do URLs fail?
    ROBOTS = "robots.txt"  # can the files be fetched?
    POLITENESS = "politeness"  # was a host contacted too early?
    COMMITS = "commits"  # does the database take the outcomes?
    DISK = "disk"  # is there space left, also for the log?
    WORKERS = "workers"  # do all of them renew their sessions?
    WEBHOOK = "webhook"  # are notifications delivered?


class Check(Struct, frozen=True, kw_only=True):
    """The result of one check. `since`: Unix seconds at which it entered this state; null: since
    the start."""

    check: CheckName
    state: HealthState
    sentence: str
    since: float | None = None


class Health(Struct, frozen=True, kw_only=True):
    """The health of a crawl: the worst state of its checks, and all of them."""

    state: HealthState
    checks: tuple[Check, ...]

    @property
    def troubles(self) -> tuple[Check, ...]:
        """The checks that are not ok, the worst first."""
        found = [one for one in self.checks if one.state is not HealthState.OK]
        return tuple(sorted(found, key=lambda one: -one.state.severity))


class Counts(Struct, frozen=True, kw_only=True):
    """Counts since the start, or in a span of time.

    pages: contacts for pages. lost: those without a response, for which the network or the site is
    responsible. server_errors: 5xx. refusals: 429 and 503. robots, robots_unreachable: requests for
    robots.txt. ended: URLs visited, blocked or failed. failed: URLs that failed, also those given
    up together. given_up_hosts: origins whose URLs were given up. early: contacts that began before
    the delay of their host was over. unproven: contacts of which nobody measured how long their
    host had rested. commits, slow_commits: of which the latter took over a second.
    """

    pages: int = 0
    lost: int = 0
    server_errors: int = 0
    refusals: int = 0
    robots: int = 0
    robots_unreachable: int = 0
    ended: int = 0
    failed: int = 0
    given_up_hosts: int = 0
    early: int = 0
    unproven: int = 0
    commits: int = 0
    slow_commits: int = 0

    def since(self, before: Counts) -> Counts:
        """The difference to earlier counts."""
        pairs = zip(structs.astuple(self), structs.astuple(before), strict=True)
        names = self.__struct_fields__
        return Counts(**dict(zip(names, (now - then for now, then in pairs), strict=True)))


class Space(Struct, frozen=True, kw_only=True):
    """The free space where the crawl writes."""

    folder: Path
    free_bytes: int
    total_bytes: int


class HealthEvidence(Struct, frozen=True, kw_only=True):
    """What the health of a crawl is judged by.

    recent: of the last five minutes; run: since the start. failed, ended: URLs of the database, and
    how many of all were visited, blocked or failed. known_hosts: those with queued URLs of which
    pages were visited; gone_hosts: of them, those that could not be connected to at the last
    attempt. uncommitted_s: how long outcomes have waited for a commit. silent: names of workers
    that do not renew their sessions. returned_ago_s: since the database went back in time; None:
    it did not. undelivered: why notifications do not reach the webhook, as a
    sentence; "": they do; None: there is no webhook.
    """

    state: CrawlState
    held: Sequence[ActiveHold] = ()
    recent: Counts = Counts()
    run: Counts = Counts()
    failed: int = 0
    ended: int = 0
    queued: int = 0
    known_hosts: int = 0
    gone_hosts: int = 0
    uncommitted_s: float = 0.0
    spaces: Sequence[Space] = ()
    log_lines_lost: int = 0
    silent: Sequence[str] = ()
    workers: int = 0
    returned_ago_s: float | None = None
    undelivered: str | None = None


def judge(seen: HealthEvidence) -> Health:
    """Check everything. The sentences have a capital and a full stop."""
    held = {HoldReason(hold.reason): hold.sentence for hold in seen.held}
    checks = (
        _network(seen, held),
        _responses(seen),
        _urls(seen),
        _robots(seen),
        _politeness(seen),
        _commits(seen, held),
        _disk(seen, held),
        *((_workers(seen, held),) if seen.workers or not _SHARING.isdisjoint(held) else ()),
        *((_webhook(seen.undelivered),) if seen.undelivered is not None else ()),
    )
    worst = max((one.state for one in checks), key=lambda state: state.severity)
    return Health(state=worst, checks=checks)


def _check(name: CheckName, state: HealthState, sentence: str) -> Check:
    return Check(check=name, state=state, sentence=sentence)


def _grade(value: float, warning: float, bad: float) -> HealthState:
    if value >= bad:
        return HealthState.BAD
    return HealthState.WARNING if value >= warning else HealthState.OK


def _share(part: int, whole: int) -> float:
    """A share of enough events; 0.0 of too few."""
    return part / whole if whole >= SAMPLE_MIN else 0.0


def _on_hold(held: Mapping[HoldReason, str], reasons: Iterable[HoldReason]) -> str:
    """The sentence of a hold with one of these reasons; "" for none."""
    return next((f"On hold: {held[one]}." for one in reasons if one in held), "")


def _network(seen: HealthEvidence, held: Mapping[HoldReason, str]) -> Check:
    name, recent = CheckName.NETWORK, seen.recent
    if sentence := _on_hold(held, sorted(CONNECTING)):
        return _check(name, HealthState.BAD, sentence)
    if seen.gone_hosts >= GONE_HOSTS_MIN:
        state = _grade(seen.gone_hosts / seen.known_hosts, GONE_WARNING, GONE_BAD)
        if state is not HealthState.OK:
            return _check(
                name,
                state,
                f"{seen.gone_hosts:,} of {seen.known_hosts:,} hosts with queued URLs responded"
                " before, but could not be connected to at the last attempt.",
            )
    if not recent.pages:
        return _check(name, HealthState.OK, f"No page was requested {_MINUTES}.")
    state = _grade(_share(recent.lost, recent.pages), LOST_WARNING, LOST_BAD)
    if not recent.lost:
        return _check(name, state, f"All {recent.pages:,} page requests got a response {_MINUTES}.")
    return _check(
        name,
        state,
        f"{recent.lost:,} of {counted(recent.pages, 'page request')} got no response {_MINUTES}.",
    )


def _responses(seen: HealthEvidence) -> Check:
    name, recent = CheckName.RESPONSES, seen.recent
    answered = recent.pages - recent.lost
    errors = recent.server_errors
    state = _grade(_share(errors, answered), ERRORS_WARNING, ERRORS_BAD)
    if recent.refusals:
        words = f", and {counted(recent.refusals, 'response')} asked for fewer requests"
        share = _share(recent.refusals, answered)
        state = max(state, _grade(share, ERRORS_WARNING, ERRORS_BAD), key=lambda one: one.severity)
    else:
        words = ""
    if not errors and not words:
        return _check(name, state, f"No server errors {_MINUTES}.")
    sentence = (
        f"{errors:,} of {counted(answered, 'response')} were server errors {_MINUTES}{words}."
    )
    return _check(name, state, sentence)


def _urls(seen: HealthEvidence) -> Check:
    name, recent = CheckName.URLS, seen.recent
    by_share = _grade(_share(recent.failed, recent.ended), FAILED_WARNING, FAILED_BAD)
    by_hosts = _grade(recent.given_up_hosts, GIVEN_UP_HOSTS_WARNING, GIVEN_UP_HOSTS_BAD)
    state = max(by_share, by_hosts, key=lambda one: one.severity)
    if recent.failed:
        hosts = ""
        if recent.given_up_hosts:
            hosts = f", with {counted(recent.given_up_hosts, 'origin')} that could not be reached"
        return _check(name, state, f"{counted(recent.failed, 'URL')} failed {_MINUTES}{hosts}.")
    share = _share(seen.failed, seen.ended)
    if seen.failed and (state := _grade(share, FAILED_WARNING, FAILED_BAD)) is not HealthState.OK:
        if seen.state is not CrawlState.IDLE:  # it may still do better
            state = HealthState.WARNING
        sentence = f"{seen.failed:,} of {counted(seen.ended, 'URL')} failed so far."
        return _check(name, state, sentence)
    return _check(name, HealthState.OK, f"No URL failed {_MINUTES}.")


def _robots(seen: HealthEvidence) -> Check:
    name, recent = CheckName.ROBOTS, seen.recent
    if not recent.robots_unreachable:
        return _check(name, HealthState.OK, f"Every robots.txt was fetched {_MINUTES}.")
    share = _share(recent.robots_unreachable, recent.robots)
    sentence = (
        f"{recent.robots_unreachable:,} of {counted(recent.robots, 'request')} for a robots.txt got"
        f" no usable response {_MINUTES}."
    )
    return _check(name, _grade(share, ROBOTS_WARNING, ROBOTS_BAD), sentence)


def _politeness(seen: HealthEvidence) -> Check:
    name, state = CheckName.POLITENESS, HealthState.OK
    sentence = "No request in this run began too early."
    if seen.recent.early:
        state = HealthState.BAD
        sentence = f"{counted(seen.recent.early, 'request')} began too early {_MINUTES}."
    elif seen.run.early:
        state = HealthState.WARNING
        sentence = f"{counted(seen.run.early, 'request')} began too early in this run."
    if seen.run.unproven:
        after = counted(seen.run.unproven, "request")
        sentence += f" {after} followed a delay that nobody could measure."
    return _check(name, state, sentence)


def _commits(seen: HealthEvidence, held: Mapping[HoldReason, str]) -> Check:
    name, recent = CheckName.COMMITS, seen.recent
    if sentence := _on_hold(held, sorted(_DATABASE)):
        return _check(name, HealthState.BAD, sentence)
    if seen.uncommitted_s >= UNCOMMITTED_WARNING_S:
        state = _grade(seen.uncommitted_s, UNCOMMITTED_WARNING_S, UNCOMMITTED_BAD_S)
        waited = format_duration(seen.uncommitted_s)
        return _check(name, state, f"Outcomes have waited {waited} to be committed.")
    if _share(recent.slow_commits, recent.commits) >= SLOW_COMMITS_WARNING:
        sentence = f"{recent.slow_commits:,} of {recent.commits:,} commits took over a second."
        return _check(name, HealthState.WARNING, sentence)
    if seen.returned_ago_s is not None and seen.returned_ago_s < RETURN_SHOWN_S:
        sentence = (
            f"The database went back in time {format_duration(max(1.0, seen.returned_ago_s))} ago:"
            " what was stored last before that is lost, and its pages are fetched again."
        )
        return _check(name, HealthState.WARNING, sentence)
    if not recent.commits:
        return _check(name, HealthState.OK, "No outcome waits to be committed.")
    return _check(name, HealthState.OK, f"{counted(recent.commits, 'commit')} {_MINUTES}.")


def _disk(seen: HealthEvidence, held: Mapping[HoldReason, str]) -> Check:
    name = CheckName.DISK
    if sentence := _on_hold(held, sorted(_DISK)):
        return _check(name, HealthState.BAD, sentence)
    if seen.log_lines_lost:
        sentence = f"{counted(seen.log_lines_lost, 'log line')} could not be written in this run."
        return _check(name, HealthState.WARNING, sentence)
    for space in sorted(seen.spaces, key=lambda one: one.free_bytes):
        low = min(FREE_WARNING_BYTES, FREE_WARNING_SHARE * space.total_bytes)
        state = HealthState.WARNING if space.free_bytes < low else HealthState.OK
        return _check(name, state, f"{format_bytes(space.free_bytes)} free in {space.folder}.")
    return _check(name, HealthState.OK, "Nothing is written to a disk.")


def _workers(seen: HealthEvidence, held: Mapping[HoldReason, str]) -> Check:
    name = CheckName.WORKERS
    if sentence := _on_hold(held, sorted(_SHARING)):
        return _check(name, HealthState.BAD, sentence)
    if seen.silent:
        number = counted(len(seen.silent), "worker")
        return _check(
            name, HealthState.WARNING, f"{number} not heard of: {', '.join(seen.silent)}."
        )
    return _check(name, HealthState.OK, f"{counted(seen.workers, 'worker')} active or idle.")


def _webhook(undelivered: str) -> Check:
    if undelivered:
        return _check(CheckName.WEBHOOK, HealthState.WARNING, undelivered)
    return _check(CheckName.WEBHOOK, HealthState.OK, "Every notification was delivered.")


def dated(now: Health, before: Health | None, at_s: float) -> Health:
    """The same, with the time (Unix seconds) since which each check is in its state."""
    known = {one.check: one for one in before.checks} if before is not None else {}
    checks = []
    for one in now.checks:
        earlier = known.get(one.check)
        same = earlier is not None and earlier.state is one.state
        since = (
            earlier.since if earlier is not None and same else (None if before is None else at_s)
        )
        checks.append(Check(check=one.check, state=one.state, sentence=one.sentence, since=since))
    return Health(state=now.state, checks=tuple(checks))
