"""The Prometheus text format of /metrics: the counted values and the current status."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from crawler.daemon.monitoring.metrics import FRONTIER_STATES, Metrics
from crawler.daemon.monitoring.shared_store import StoreMeasures
from crawler.daemon.responses import Status, Worker
from crawler.explain.formatting import plain
from crawler.operator_commands import CrawlState
from crawler.steering.live_state import HostState
from crawler.steering.queue_waits import QueueReason
from crawler.version import __version__
from policies.holds import HoldReason

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
_COUNTERS: Final = {
    "renewals_failed": (
        "courtly_renewals_failed",
        "Renewals of this worker's session that the database did not answer.",
    ),
    "leases_lost": (
        "courtly_leases_lost",
        "Hosts this worker held when others had seen no renewal of it for too long.",
    ),
    "sessions_reaped": (
        "courtly_sessions_reaped",
        "Sessions of other workers that this one has ended, because they were not renewed.",
    ),
    "conflicts": (
        "courtly_transaction_conflicts",
        "Transactions that were repeated because they collided with another worker's.",
    ),
    "commits_settled": (
        "courtly_commits_settled",
        "Commits without an answer whose outcome the database told later.",
    ),
    "reconnections": (
        "courtly_reconnections",
        "Connections to the database that were lost and made again.",
    ),
}
_GAUGES: Final = {
    "hosts": ("courtly_worker_hosts_held", "Hosts the worker holds."),
    "in_flight": ("courtly_worker_requests_in_flight", "Its requests in flight."),
    "uncommitted": ("courtly_worker_uncommitted_outcomes", "Its outcomes that wait for a commit."),
    "idle": ("courtly_worker_idle", "1 if nothing it holds can make progress."),
    "seen_s": ("courtly_worker_unrenewed_seconds", "Time since its session was last renewed."),
}
_TABLES: Final = {
    "bytes": ("courtly_table_bytes", "Size of the largest tables, with their indexes."),
    "rows": ("courtly_table_rows", "Their rows, as the server estimates them."),
    "dead_rows": (
        "courtly_table_dead_rows",
        "Their rows that are dead, whose space is reused after a vacuum, likewise.",
    ),
}


def render(metrics: Metrics, status: Status, measures: StoreMeasures | None = None) -> bytes:
    """The text format, version 0.0.4. measures: of a database that several workers share."""
    registry = CollectorRegistry()
    families = [*_counted(metrics, status.name), *_measured(status)]
    if measures is not None:
        families += [*store_families(measures), *worker_families(status.workers)]
    registry.register(_Snapshot(families))
    return generate_latest(registry)


class _Snapshot(Collector):
    """A collector of values that are known already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _counted(metrics: Metrics, name: str) -> Iterator[Metric]:
    build = GaugeMetricFamily(
        "courtly_build_info",
        "Always 1; the labels are the version and the name of the daemon.",
        labels=("version", "name"),
    )
    build.add_metric((__version__, plain(name)), 1)
    yield build
    for counter in metrics.counters:
        family = CounterMetricFamily(counter.name, counter.note, labels=counter.labels)
        for values, count in counter.of.items():
            family.add_metric([plain(value) for value in values], count)
        yield family
    for histogram in metrics.histograms:
        bounds, counts = zip(*histogram.below(), strict=True)
        yield HistogramMetricFamily(
            histogram.name,
            histogram.note,
            buckets=list(zip(map(floatToGoString, bounds), counts, strict=True)),
            sum_value=histogram.sum,
        )


def _measured(status: Status) -> Iterator[Metric]:
    urls = {state: float(getattr(status, state)) for state in FRONTIER_STATES}
    yield _by_state("courtly_frontier_urls", "URLs known, by state.", urls)
    yield GaugeMetricFamily("courtly_hosts", "Hosts known.", status.hosts)
    held = {state.replace(" ", "_"): status.hosts_by_state.get(state, 0) for state in HostState}
    yield _by_state("courtly_hosts_held", "Hosts in memory, by what each is doing.", held)
    states = {state.value: state == status.state for state in CrawlState}
    yield _by_state("courtly_state", "1 for the state of the whole crawl, 0 for the rest.", states)
    reasons = GaugeMetricFamily(
        "courtly_held",
        "1 while a problem of the crawler's own machine or network puts the crawl on hold.",
        labels=("reason",),
    )
    active = {hold.reason for hold in status.held}
    for reason in HoldReason:
        reasons.add_metric((reason.value,), float(reason.value in active))
    yield reasons
    health = GaugeMetricFamily(
        "courtly_health",
        "Health by the last five minutes: 0 ok, 1 warning, 2 bad.",
        labels=("check",),
    )
    for check in status.health.checks:
        health.add_metric((check.check.value,), check.state.severity)
    yield health
    natively = CounterMetricFamily(
        "courtly_native_reader_pages",
        "Pages offered to the native reader: read by it, or declined, which Python reads.",
        labels=("outcome",),
    )
    natively.add_metric(("read",), status.page_reader.native)
    natively.add_metric(("declined",), status.page_reader.declined)
    yield natively
    urls_held, hosts_held = (
        GaugeMetricFamily(f"courtly_queue_{what}", note, labels=("reason",))
        for what, note in (
            ("urls", "Queued URLs by what they wait for."),
            ("hosts", "Hosts with queued URLs by what they wait for."),
        )
    )
    found = {one.reason: one for one in status.queue}
    for queue_reason in QueueReason:
        one = found.get(queue_reason)
        urls_held.add_metric((queue_reason.value,), one.urls if one else 0)
        hosts_held.add_metric((queue_reason.value,), one.hosts if one else 0)
    yield from (urls_held, hosts_held)
    yield CounterMetricFamily(
        "courtly_database_returns",
        "Times that the database was found to have gone back in time.",
        status.database_returns,
    )
    yield GaugeMetricFamily("courtly_requests_in_flight", "Requests in flight.", status.in_flight)
    yield GaugeMetricFamily(
        "courtly_resident_memory_bytes", "Resident memory.", status.memory_bytes or 0
    )
    yield GaugeMetricFamily(
        "courtly_start_time_seconds",
        "Start of this run, in Unix seconds.",
        time.time() - status.uptime_s,
    )


def _by_state(name: str, note: str, values: Mapping[str, float]) -> Metric:
    gauge = GaugeMetricFamily(name, note, labels=("state",))
    for state, value in values.items():
        gauge.add_metric((state,), value)
    return gauge


def store_families(measures: StoreMeasures) -> Iterator[Metric]:
    """Return what this worker's store has counted, and the tables of the database."""
    counted = measures.telemetry
    yield SummaryMetricFamily(
        "courtly_renewal_seconds",
        "Round trips of the renewals of this worker's session.",
        count_value=counted.renewals,
        sum_value=counted.renewals_s,
    )
    for field, (name, note) in _COUNTERS.items():
        yield CounterMetricFamily(name, note, getattr(counted, field))
    for column, (name, note) in _TABLES.items():
        gauge = GaugeMetricFamily(name, note, labels=("table",))
        for row in measures.tables:
            gauge.add_metric((str(row["table"]),), float(str(row[column])))
        yield gauge


def worker_families(workers: Sequence[Worker]) -> Iterator[Metric]:
    """Return the families of the last report of each worker.

    The label `worker` is the number of a session. A worker's series end when it does, so their
    number grows with the workers that are alive.
    """
    states = GaugeMetricFamily("courtly_workers", "Live workers.", labels=("state",))
    idle = sum(worker.idle for worker in workers)
    states.add_metric(("active",), len(workers) - idle)
    states.add_metric(("idle",), idle)
    yield states
    about = GaugeMetricFamily(
        "courtly_worker_info",
        "Always 1; the labels are the machine and the process of a worker.",
        labels=("worker", "machine", "pid"),
    )
    pages = CounterMetricFamily(
        "courtly_worker_pages", "Pages the worker has visited.", labels=("worker",)
    )
    for worker in workers:
        about.add_metric((str(worker.id), worker.host, str(worker.pid)), 1)
        pages.add_metric((str(worker.id),), worker.pages)
    yield about
    yield pages
    for field, (name, note) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, note, labels=("worker",))
        for worker in workers:
            gauge.add_metric((str(worker.id),), float(getattr(worker, field)))
        yield gauge
