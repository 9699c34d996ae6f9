"""The counters and histograms of /metrics, updated as an observer of the crawl.

Names follow the Prometheus conventions: base units, `_total` for counters. Every label has a small,
closed set of values: never a host, a URL or a sentence.

Every contact is counted, and scrapes are rare. So counts are plain numbers, which `exposition`
converts to the types of prometheus_client; its own counters take a lock for each update.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from crawler.daemon.health import Counts
from crawler.observer import Contacted, Observer
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode, is_address_refused
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
OTHER: Final = "other"  # a kind added later
# Seconds. A fetch ends within `fetch.timeout` (30 s by default); a commit takes milliseconds.
LATENCY_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LATENESS_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120)
COMMIT_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

SLOW_COMMIT_S: Final = 1.0  # one of the bounds above
# Failures for which the network or the site is responsible, and which got no complete response.
LOST: Final = frozenset(
    (
        FailureCode.DNS, FailureCode.CONNECT, FailureCode.TLS, FailureCode.TIMEOUT,
        FailureCode.PROTOCOL, FailureCode.BODY,
    )
)  # fmt: skip

REFUSED_REQUESTS: Final = ("malformed", "unauthorized", "limited", "command")
FRONTIER_STATES: Final = ("queued", "visited", "blocked", "failed")
_OUTCOMES: Final = {
    Visited: "visited",
    Blocked: "blocked",
    Failed: "failed",
    Retry: "retry",
    SitemapRead: "sitemap",
    Revisited: "unchanged",
    Dropped: "dropped",
    Moved: "dropped",
}


class CounterFamily:
    """A counter for each combination of label values: `of["page", "2xx"] += 1`.

    `initial`: the series that exist from the first scrape on; a rate over one that appears later
    is wrong.
    """

    __slots__ = ("labels", "name", "note", "of")

    def __init__(
        self,
        name: str,
        note: str,
        *labels: str,
        initial: Iterable[tuple[str, ...]] = ((),),
    ) -> None:
        self.name = name
        self.note = note
        self.labels = labels
        self.of: defaultdict[tuple[str, ...], float] = defaultdict(int)
        self.of.update(dict.fromkeys(initial, 0))


class Histogram:
    """Counts of values by bucket. `bounds` are upper limits, ascending; the last count is for
    larger values."""

    __slots__ = ("bounds", "counts", "name", "note", "sum")

    def __init__(self, name: str, note: str, bounds: Sequence[float]) -> None:
        self.name = name
        self.note = note
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        value = max(0.0, value)
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class Metrics(Observer):
    """Counts what happens in a crawl."""

    def __init__(self) -> None:
        kinds = [(kind,) for kind in KINDS]
        failures = [code.value for code in FailureCode]
        self._fetches = CounterFamily(
            "courtly_fetches",
            "Completed requests, by kind and outcome: a status class "
            '("2xx"), or the code of the failure ("timeout").',
            "kind",
            "outcome",
            initial=[
                *((kind, "2xx") for kind in KINDS),
                *(("page", outcome) for outcome in (*failures, "3xx", "4xx", "5xx")),
            ],
        )
        self._robots = CounterFamily(
            "courtly_robots_fetches",
            "Requests for a robots.txt, redirects included, by result: file (2xx), absent (4xx), "
            "redirect (3xx), unreachable (429, 5xx, no answer).",
            "result",
            initial=[("file",), ("absent",), ("redirect",), ("unreachable",)],
        )
        self._bytes = CounterFamily(
            "courtly_body_bytes",
            "Size of response bodies after decompression, in bytes.",
            "kind",
            initial=kinds,
        )
        self._received = CounterFamily(
            "courtly_received_bytes", "Bytes as received, with headers.", "kind", initial=kinds
        )
        self._outcomes = CounterFamily(
            "courtly_outcomes",
            "Outcomes recorded for URLs.",
            "outcome",
            initial=dict.fromkeys((name,) for name in _OUTCOMES.values()),
        )
        self._blocked = CounterFamily(
            "courtly_blocked_urls",
            "URLs found blocked, by reason.",
            "reason",
            initial=[(reason.value,) for reason in BlockReason],
        )
        self._gave_up = CounterFamily(
            "courtly_given_up_urls",
            "URLs that failed together because no connection to their origin could be made.",
        )
        self._gave_up_hosts = CounterFamily(
            "courtly_given_up_hosts",
            "Origins whose queued URLs were given up together, except those whose address the "
            "config does not allow.",
        )
        self._early = CounterFamily(
            "courtly_early_contacts",
            "Contacts that began before the politeness delay of their host was over.",
        )
        self._unproven = CounterFamily(
            "courtly_unproven_contacts",
            "Contacts of which nobody measured how long their host had rested before.",
        )
        self._refusals = CounterFamily(
            "courtly_refusals",
            "Responses that ask for fewer requests, by status.",
            "status",
            initial=[("429",), ("503",)],
        )
        self._links = CounterFamily("courtly_links_committed", "Links committed with their pages.")
        self.log_lines_lost = CounterFamily(
            "courtly_log_lines_lost", "Log lines that could not be written."
        )
        self.notifications = CounterFamily(
            "courtly_webhook_notifications",
            "Notifications of changes of health: delivered, or given up (lost).",
            "outcome",
            initial=[("delivered",), ("lost",)],
        )
        self.webhook_failures = CounterFamily(
            "courtly_webhook_failures", "Requests to the webhook that failed."
        )
        self.refused_requests = CounterFamily(
            "courtly_refused_requests",
            "Requests to the daemon that were refused.",
            "reason",
            initial=[(reason,) for reason in REFUSED_REQUESTS],
        )
        self._holds = CounterFamily(
            "courtly_holds",
            "Times that a problem of the crawler's own machine or network put the crawl on hold.",
            "reason",
            initial=[(reason.value,) for reason in HoldReason],
        )
        self._latency = Histogram(
            "courtly_fetch_latency_seconds",
            "From a request to the end of the response header.",
            LATENCY_BUCKETS,
        )
        self._lateness = Histogram(
            "courtly_turn_lateness_seconds",
            "How long after the politeness delay of its host a contact began.",
            LATENESS_BUCKETS,
        )
        self._commit = Histogram("courtly_commit_seconds", "Duration of commits.", COMMIT_BUCKETS)
        self.counters = (
            self._fetches,
            self._robots,
            self._bytes,
            self._received,
            self._outcomes,
            self._blocked,
            self._gave_up,
            self._gave_up_hosts,
            self._early,
            self._unproven,
            self._refusals,
            self._links,
            self.log_lines_lost,
            self.notifications,
            self.webhook_failures,
            self.refused_requests,
            self._holds,
        )
        self.histograms = (self._latency, self._lateness, self._commit)

    # ------------------------------------------------------------ the observer

    def contacted(self, seen: Contacted) -> None:
        kind = seen.kind if seen.kind in KINDS else OTHER
        self._fetches.of[kind, outcome_of(seen)] += 1
        self._bytes.of[kind,] += seen.body_bytes
        self._received.of[kind,] += seen.wire_bytes
        if kind == "robots":
            self._robots.of[_robots_result(seen),] += 1
        if seen.early:
            self._early.of[()] += 1
        if seen.unproven:
            self._unproven.of[()] += 1
        if seen.status in (429, 503):
            self._refusals.of[str(seen.status),] += 1
        if seen.latency_s is not None:
            self._latency.observe(seen.latency_s)
        self._lateness.observe(seen.late_s)

    def settled(self, url: str, outcome: Outcome) -> None:
        self._outcomes.of[_OUTCOMES[type(outcome)],] += 1
        if isinstance(outcome, Blocked):
            self._blocked.of[outcome.reason.value,] += 1

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self._gave_up.of[()] += count
        # Origins that only other programs asked for have no URLs; a refused address is no problem
        # of the network.
        if count and not is_address_refused(error):
            self._gave_up_hosts.of[()] += 1

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._commit.observe(elapsed_s)
        self._links.of[()] += links

    def hold_began(self, hold: Hold) -> None:
        self._holds.of[hold.reason.value,] += 1

    # ------------------------------------------------------------ for the health and the web page

    def counts(self) -> Counts:
        """The counts that health is judged by, since the start."""
        outcomes, given_up = self._outcomes.of, int(self._gave_up.of[()])
        failed = int(outcomes["failed",]) + given_up
        slow = self._commit.counts[bisect_left(self._commit.bounds, SLOW_COMMIT_S) + 1 :]
        return Counts(
            pages=sum(
                int(count) for (kind, _), count in self._fetches.of.items() if kind == "page"
            ),
            lost=sum(int(self._fetches.of["page", code.value]) for code in LOST),
            server_errors=int(self._fetches.of["page", "5xx"]),
            refusals=int(sum(self._refusals.of.values())),
            robots=int(sum(self._robots.of.values())),
            robots_unreachable=int(self._robots.of["unreachable",]),
            ended=int(outcomes["visited",] + outcomes["blocked",]) + failed,
            failed=failed,
            given_up_hosts=int(self._gave_up_hosts.of[()]),
            early=int(self._early.of[()]),
            unproven=int(self._unproven.of[()]),
            commits=sum(self._commit.counts),
            slow_commits=sum(slow),
        )

    def by_outcome(self) -> dict[str, int]:
        """Contacts of this run by outcome, robots.txt included: `{"2xx": 12, …}`."""
        found: dict[str, int] = {}
        for (_, outcome), count in self._fetches.of.items():
            if count:
                found[outcome] = found.get(outcome, 0) + int(count)
        return found


def outcome_of(seen: Contacted) -> str:
    """The outcome of a contact: "1xx" to "5xx", the code of a failure, or "none"."""
    if seen.error is not None:
        return seen.error.value
    if seen.status is None:
        return "none"  # cancelled when the crawl ended
    return f"{seen.status // 100}xx" if 100 <= seen.status < 600 else OTHER


def _robots_result(seen: Contacted) -> str:
    if seen.error is not None or seen.status is None or seen.status == 429 or seen.status >= 500:
        return "unreachable"
    if seen.status >= 400:
        return "absent"
    return "redirect" if seen.status >= 300 else "file"
