"""What a Prometheus server reads at /metrics: counted as a crawl's observer, measured when asked.

Names follow Prometheus' conventions: base units, `_total` for what only grows. Every label has a
closed, small set of values: never a host, a URL or a sentence.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from crawler.config.identity import version
from crawler.observer import Contacted
from policies.retry import FailureCode
from storage.base import (
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

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

KINDS: Final = ("page", "robots", "sitemap")
OTHER: Final = "other"  # a kind there was not when this was written
# Seconds. A fetch ends within `fetch.timeout` (30 s by default); a commit takes milliseconds.
LATENCY_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LATENESS_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120)
COMMIT_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)

FRONTIER_STATES: Final = ("queued", "visited", "blocked", "failed")
CRAWL_STATES: Final = ("running", "paused", "idle", "stopping")
HOST_STATES: Final = ("in flight", "ready", "waiting", "robots", "closed", "paused", "idle")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
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


class Metrics:
    """An observer that counts. `render(measured)` is the body of an answer of CONTENT_TYPE."""

    def __init__(self) -> None:
        # A second series for each counter, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        build = Gauge(
            "courtly_build_info",
            "Always 1; the label says which version runs.",
            ["version"],
            registry=self._registry,
        )
        build.labels(version()).set(1)
        self._fetches = self._counter(
            "courtly_fetches",
            "Contacts that ended, by what was asked for and how it ended: a class of statuses "
            '("2xx"), or the code of the failure ("timeout").',
            "kind",
            "outcome",
        )
        self._robots = self._counter(
            "courtly_robots_fetches",
            "Requests for a robots.txt, redirects included, by result: file (2xx), absent (4xx), "
            "redirect (3xx), unreachable (429, 5xx, no answer).",
            "result",
        )
        self._bytes = self._counter(
            "courtly_body_bytes", "Bytes of bodies, after decompression.", "kind"
        )
        self._wire = self._counter(
            "courtly_received_bytes", "Bytes as received, header included.", "kind"
        )
        self._outcomes = self._counter(
            "courtly_outcomes", "Outcomes recorded for URLs, by what became of them.", "outcome"
        )
        self._blocked = self._counter(
            "courtly_blocked_urls", "URLs found blocked, by reason.", "reason"
        )
        self._gave_up = self._counter(
            "courtly_given_up_urls",
            "URLs that failed in bulk, because their origin could not be connected to.",
        )
        self._links = self._counter("courtly_links_committed", "Links committed with their pages.")
        self._latency = self._histogram(
            "courtly_fetch_latency_seconds",
            "From a request to the end of the answer's header.",
            LATENCY_BUCKETS,
        )
        self._lateness = self._histogram(
            "courtly_turn_lateness_seconds",
            "How long after its host's rest was over a contact began.",
            LATENESS_BUCKETS,
        )
        self._commit = self._histogram(
            "courtly_commit_seconds", "How long a commit took.", COMMIT_BUCKETS
        )
        self._urls = self._gauge("courtly_frontier_urls", "URLs known, by state.", "state")
        self._hosts = self._gauge("courtly_hosts", "Hosts known.")
        self._held = self._gauge(
            "courtly_hosts_held", "Hosts in memory, by what each is doing.", "state"
        )
        self._state = self._gauge(
            "courtly_state", "1 for what the crawl as a whole is doing, 0 for the rest.", "state"
        )
        self._in_flight = self._gauge("courtly_requests_in_flight", "Requests on the wire.")
        self._memory = self._gauge("courtly_resident_memory_bytes", "Resident memory.")
        self._started = self._gauge(
            "courtly_start_time_seconds", "When this run began, Unix seconds."
        )
        # Looking a child up takes a lock and 2 µs, at every contact; the labels are of closed sets.
        self._fetches_of = functools.cache(self._fetches.labels)
        self._bytes_of = functools.cache(self._bytes.labels)
        self._wire_of = functools.cache(self._wire.labels)
        self._outcomes_of = functools.cache(self._outcomes.labels)
        # Series that exist from the first scrape on: a rate over one that appears late is wrong.
        for kind in KINDS:
            self._fetches.labels(kind, "2xx")
            self._bytes.labels(kind)
            self._wire.labels(kind)
        for code in FailureCode:
            self._fetches.labels("page", code.value)
        for status in ("3xx", "4xx", "5xx"):
            self._fetches.labels("page", status)
        for result in ("file", "absent", "redirect", "unreachable"):
            self._robots.labels(result)
        for reason in BlockReason:
            self._blocked.labels(reason.value)
        for outcome in (*FRONTIER_STATES[1:], "retry", "sitemap", "dropped"):
            self._outcomes.labels(outcome)

    # ------------------------------------------------------------ as an observer

    def contacted(self, seen: Contacted) -> None:
        kind = seen.kind if seen.kind in KINDS else OTHER
        self._fetches_of(kind, outcome_of(seen)).inc()
        self._bytes_of(kind).inc(seen.body_bytes)
        self._wire_of(kind).inc(seen.wire_bytes)
        if kind == "robots":
            self._robots.labels(_robots_result(seen)).inc()
        if seen.latency_s is not None:
            self._latency.observe(max(0.0, seen.latency_s))
        self._lateness.observe(max(0.0, seen.late_s))

    def settled(self, url: str, outcome: Outcome) -> None:
        match outcome:
            case Visited():
                self._outcomes_of("visited").inc()
            case Blocked():
                self._outcomes_of("blocked").inc()
                self._blocked.labels(outcome.reason.value).inc()
            case Failed():
                self._outcomes_of("failed").inc()
            case Retry():
                self._outcomes_of("retry").inc()
            case SitemapRead():
                self._outcomes_of("sitemap").inc()
            case Revisited():
                self._outcomes_of("unchanged").inc()
            case Dropped() | Moved():
                self._outcomes_of("dropped").inc()

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self._gave_up.inc(count)

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self._commit.observe(max(0.0, elapsed_s))
        self._links.inc(links)

    # ------------------------------------------------------------ as an answer

    def render(self, measured: Measured) -> bytes:
        """The text format, version 0.0.4."""
        for state in FRONTIER_STATES:
            self._urls.labels(state).set(measured.urls.get(state, 0))
        for state in HOST_STATES:
            self._held.labels(state.replace(" ", "_")).set(measured.hosts_held.get(state, 0))
        for state in CRAWL_STATES:
            self._state.labels(state).set(state == measured.state)
        self._hosts.set(measured.hosts)
        self._in_flight.set(measured.in_flight)
        if measured.memory_bytes is not None:
            self._memory.set(measured.memory_bytes)
        self._started.set(time.time() - measured.uptime_s)
        return generate_latest(self._registry)

    def by_outcome(self) -> dict[str, int]:
        """Contacts of this run by how they ended, robots.txt included: `{"2xx": 12, …}`."""
        found: dict[str, int] = {}
        for metric in self._fetches.collect():
            for sample in metric.samples:
                if sample.name.endswith("_total") and sample.value:
                    outcome = sample.labels["outcome"]
                    found[outcome] = found.get(outcome, 0) + int(sample.value)
        return found

    # ------------------------------------------------------------ making them

    def _counter(self, name: str, note: str, *labels: str) -> Counter:
        return Counter(name, note, labels, registry=self._registry)

    def _gauge(self, name: str, note: str, *labels: str) -> Gauge:
        return Gauge(name, note, labels, registry=self._registry)

    def _histogram(self, name: str, note: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, note, buckets=tuple(buckets), registry=self._registry)


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
