"""What a Prometheus server reads at /metrics: counted as a crawl's observer, measured when asked.

Names follow Prometheus' conventions: base units, `_total` for what only grows. Every label has a
closed, small set of values: never a host, a URL or a sentence.

Every contact is counted, and hardly anybody asks: so it is counted in plain numbers (1.5 µs a
contact), and put into prometheus_client's types for those who do (`exposition`). Its own counters
each take a lock, as a crawl's one thread need not: 8 µs a contact.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from crawler.observer import Contacted
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode
from storage.store import (
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    Moved,
    Outcome,
    Retry,
    Revisited,
    SitemapRead,
    Visited,
)

KINDS: Final = ("page", "robots", "sitemap")
OTHER: Final = "other"  # a kind there was not when this was written
# Seconds. A fetch ends within `fetch.timeout` (30 s by default); a commit takes milliseconds.
LATENCY_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LATENESS_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120)
COMMIT_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

FRONTIER_STATES: Final = ("queued", "visited", "blocked", "failed")
CRAWL_STATES: Final = ("running", "paused", "held", "idle", "stopping")
HOST_STATES: Final = ("in flight", "ready", "waiting", "robots", "closed", "paused", "idle")


class Measured(Struct, frozen=True, kw_only=True):
    """What is not counted but looked up when /metrics is asked for: a crawl at this moment.

    `urls` by state of the frontier, `hosts_held` by what each held host is doing now.
    """

    state: str
    urls: Mapping[str, int]
    hosts: int
    hosts_held: Mapping[str, int]
    in_flight: int
    memory_bytes: int | None
    uptime_s: float
    held: frozenset[str] = frozenset()  # the reasons of active holds


class Tally:
    """What only grows, by the values of its labels: `of["page", "2xx"] += 1`."""

    __slots__ = ("labels", "name", "note", "of")

    def __init__(self, name: str, note: str, *labels: str) -> None:
        self.name = name
        self.note = note
        self.labels = labels
        self.of: defaultdict[tuple[str, ...], float] = defaultdict(int)


class Spread:
    """How often a value was at most each of `bounds`, ascending; the last count: more than all."""

    __slots__ = ("bounds", "counts", "name", "note", "sum")

    def __init__(self, name: str, note: str, bounds: Sequence[float]) -> None:
        self.name = name
        self.note = note
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Metrics:
    """An observer that counts."""

    def __init__(self) -> None:
        self._fetches = Tally(
            "courtly_fetches",
            "Contacts that ended, by what was asked for and how it ended: a class of statuses "
            '("2xx"), or the code of the failure ("timeout").',
            "kind",
            "outcome",
        )
        self._robots = Tally(
            "courtly_robots_fetches",
            "Requests for a robots.txt, redirects included, by result: file (2xx), absent (4xx), "
            "redirect (3xx), unreachable (429, 5xx, no answer).",
            "result",
        )
        self._bytes = Tally("courtly_body_bytes", "Bytes of bodies, after decompression.", "kind")
        self._wire = Tally("courtly_received_bytes", "Bytes as received, header included.", "kind")
        self._outcomes = Tally(
            "courtly_outcomes", "Outcomes recorded for URLs, by what became of them.", "outcome"
        )
        self._blocked = Tally("courtly_blocked_urls", "URLs found blocked, by reason.", "reason")
        self._gave_up = Tally(
            "courtly_given_up_urls",
            "URLs that failed in bulk, because their origin could not be connected to.",
        )
        self.log_lines_lost = Tally(
            "courtly_log_lines_lost", "Lines of the log that could not be written."
        )
        self._links = Tally("courtly_links_committed", "Links committed with their pages.")
        self._holds = Tally(
            "courtly_holds",
            "How often trouble of our own machine or network held the whole crawl, by reason.",
            "reason",
        )
        self._latency = Spread(
            "courtly_fetch_latency_seconds",
            "From a request to the end of the answer's header.",
            LATENCY_BUCKETS,
        )
        self._lateness = Spread(
            "courtly_turn_lateness_seconds",
            "How long after its host's rest was over a contact began.",
            LATENESS_BUCKETS,
        )
        self._commit = Spread("courtly_commit_seconds", "How long a commit took.", COMMIT_BUCKETS)
        self.tallies = (
            self._fetches,
            self._robots,
            self._bytes,
            self._wire,
            self._outcomes,
            self._blocked,
            self._gave_up,
            self._links,
            self.log_lines_lost,
            self._holds,
        )
        self.spreads = (self._latency, self._lateness, self._commit)
        # Series that exist from the first scrape on: a rate over one that appears late is wrong.
        for kind in KINDS:
            self._fetches.of[kind, "2xx"] = 0
            self._bytes.of[kind,] = 0
            self._wire.of[kind,] = 0
        for code in FailureCode:
            self._fetches.of["page", code.value] = 0
        for status in ("3xx", "4xx", "5xx"):
            self._fetches.of["page", status] = 0
        for result in ("file", "absent", "redirect", "unreachable"):
            self._robots.of[result,] = 0
        for reason in BlockReason:
            self._blocked.of[reason.value,] = 0
        for outcome in (*FRONTIER_STATES[1:], "retry", "sitemap", "unchanged", "dropped"):
            self._outcomes.of[outcome,] = 0
        for held in HoldReason:
            self._holds.of[held.value,] = 0
        self._gave_up.of[()] = 0
        self._links.of[()] = 0
        self.log_lines_lost.of[()] = 0

    # ------------------------------------------------------------ as an observer

    def contacted(self, seen: Contacted) -> None:
        kind = seen.kind if seen.kind in KINDS else OTHER
        self._fetches.of[kind, outcome_of(seen)] += 1
        self._bytes.of[kind,] += seen.body_bytes
        self._wire.of[kind,] += seen.wire_bytes
        if kind == "robots":
            self._robots.of[_robots_result(seen),] += 1
        if seen.latency_s is not None:
            self._latency.observe(max(0.0, seen.latency_s))
        self._lateness.observe(max(0.0, seen.late_s))

    def settled(self, url: str, outcome: Outcome) -> None:
        match outcome:
            case Visited():
                self._outcomes.of["visited",] += 1
            case Blocked():
                self._outcomes.of["blocked",] += 1
                self._blocked.of[outcome.reason.value,] += 1
            case Failed():
                self._outcomes.of["failed",] += 1
            case Retry():
                self._outcomes.of["retry",] += 1
            case SitemapRead():
                self._outcomes.of["sitemap",] += 1
            case Revisited():
                self._outcomes.of["unchanged",] += 1
            case Dropped() | Moved():
                self._outcomes.of["dropped",] += 1

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self._gave_up.of[()] += count

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._commit.observe(max(0.0, elapsed_s))
        self._links.of[()] += links

    def hold_began(self, hold: Hold) -> None:
        self._holds.of[hold.reason.value,] += 1

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        """Whether one is active is measured."""

    # ------------------------------------------------------------ as an answer

    def by_outcome(self) -> dict[str, int]:
        """Contacts of this run by how they ended, robots.txt included: `{"2xx": 12, …}`."""
        found: dict[str, int] = {}
        for (_, outcome), count in self._fetches.of.items():
            if count:
                found[outcome] = found.get(outcome, 0) + int(count)
        return found


def outcome_of(seen: Contacted) -> str:
    """How a contact ended, of a closed set: "1xx" to "5xx", a failure's code, or "none"."""
    if seen.error is not None:
        return seen.error.value
    if seen.status is None:
        return "none"  # broken off, because the crawl left
    return f"{seen.status // 100}xx" if 100 <= seen.status < 600 else OTHER


def _robots_result(seen: Contacted) -> str:
    if seen.error is not None or seen.status is None or seen.status == 429 or seen.status >= 500:
        return "unreachable"
    if seen.status >= 400:
        return "absent"
    return "redirect" if seen.status >= 300 else "file"
