"""The counters and histograms of a crawl, updated as an observer of it: /metrics shows all of them
(`exposition`), and the history has the increases of some of them in each minute.

Names follow the Prometheus conventions: base units, `_total` for counters. Every label has a small,
closed set of values: never a host, a URL or a sentence.

Every contact is counted, and scrapes are rare. So counts are plain numbers, which `exposition`
converts to the types of prometheus_client; its own counters take a lock for each update.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from crawler.daemon.health import Counts
from crawler.observer import Contacted, Observer
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode, is_address_refused
from storage.log_histogram import FLOOR_S, PER_DOUBLING, bucket_of, increase
from storage.log_histogram import Histogram as Buckets
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
DOUBLINGS: Final = 18  # of FLOOR_S, which are the bounds of the buckets in /metrics: to 131 s
SLOW_COMMIT_S: Final = 1.0  # within a bucket of `storage.log_histogram`
# Failures for which the network or the site is responsible, and which got no complete response.
LOST: Final = frozenset(
    (
        FailureCode.DNS, FailureCode.CONNECT, FailureCode.TLS, FailureCode.TIMEOUT,
        FailureCode.PROTOCOL, FailureCode.BODY,
    )
)  # fmt: skip

REFUSED_REQUESTS: Final = ("malformed", "unauthorized", "limited", "command")
FRONTIER_STATES: Final = ("queued", "visited", "blocked", "failed")
_CLASSES: Final = {
    "2xx": "success",
    "3xx": "redirects",
    "4xx": "client_errors",
    "5xx": "server_errors",
}
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

    initial: the series that exist from the first scrape on; a rate over one that appears later
    is wrong. history: returns, for label values, the numbers of the history that include their
    counter.
    """

    __slots__ = ("history", "labels", "name", "note", "of")

    def __init__(
        self,
        name: str,
        note: str,
        *labels: str,
        initial: Iterable[tuple[str, ...]] = ((),),
        history: Callable[..., Sequence[str]] = lambda *_: (),
    ) -> None:
        self.name = name
        self.note = note
        self.labels = labels
        self.history = history
        self.of: defaultdict[tuple[str, ...], float] = defaultdict(int)
        self.of.update(dict.fromkeys(initial, 0))


class Histogram:
    """Counts of durations by the buckets of `storage.log_histogram`. history: the name of the
    histogram in the history; "" if it is not there."""

    __slots__ = ("buckets", "history", "name", "note", "sum")

    def __init__(self, name: str, note: str, *, history: str = "") -> None:
        self.name = name
        self.note = note
        self.history = history
        self.buckets: Counter[int] = Counter()
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bucket_of(seconds)] += 1
        if seconds > 0:
            self.sum += seconds

    def below(self) -> list[tuple[float, int]]:
        """The bounds of /metrics in seconds, each with the count of durations up to it."""
        bounds = [(FLOOR_S * 2**n, n * PER_DOUBLING) for n in range(DOUBLINGS)]
        return [
            (bound, sum(count for bucket, count in self.buckets.items() if bucket <= last))
            for bound, last in [*bounds, (math.inf, math.inf)]
        ]


class Sampled(Struct, frozen=True, kw_only=True):
    """What the history has of the counters, by its names; `durations` are histograms."""

    counts: Mapping[str, int]
    durations: Mapping[str, Buckets]

    def since(self, before: Sampled) -> Sampled:
        """What was counted since an earlier sample."""
        durations = {
            name: increase(buckets, before.durations.get(name, {}))
            for name, buckets in self.durations.items()
        }
        return Sampled(counts=increase(self.counts, before.counts), durations=durations)


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
            history=lambda kind, outcome: (_CLASSES.get(outcome, "unanswered"),),
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
            history=lambda outcome: ("failed",) if outcome == "failed" else (),
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
            history=lambda: ("failed", "given_up"),
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
            history="latency",
        )
        self._lateness = Histogram(
            "courtly_turn_lateness_seconds",
            "How long after the politeness delay of its host a contact began.",
            history="lateness",
        )
        self._commit = Histogram("courtly_commit_seconds", "Duration of commits.")
        families = vars(self).values()
        self.counters = [one for one in families if isinstance(one, CounterFamily)]
        self.histograms = [one for one in families if isinstance(one, Histogram)]

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

    # ------------------------------------------------------------ what is derived from them

    def sampled(self) -> Sampled:
        """What the history has of all this, since the start."""
        counts: Counter[str] = Counter()
        for family in self.counters:
            for labels, count in family.of.items():
                for name in family.history(*labels):
                    counts[name] += int(count)
        durations = {one.history: dict(one.buckets) for one in self.histograms if one.history}
        return Sampled(counts=counts, durations=durations)

    def counts(self) -> Counts:
        """The counts that health is judged by, since the start."""
        outcomes, given_up = self._outcomes.of, int(self._gave_up.of[()])
        failed = int(outcomes["failed",]) + given_up
        commits, fast = self._commit.buckets, bucket_of(SLOW_COMMIT_S)
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
            commits=commits.total(),
            slow_commits=sum(count for bucket, count in commits.items() if bucket > fast),
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
