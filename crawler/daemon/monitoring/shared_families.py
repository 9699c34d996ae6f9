"""The metrics of a database that several workers share, and of these workers.

The label `worker` is the number of a session. A worker's series end when it does, so their number
grows with the workers that are alive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)

from crawler.daemon.monitoring.shared_store import StoreMeasures
from crawler.daemon.responses import Worker

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


def store_families(measures: StoreMeasures) -> Iterator[Metric]:
    """What this worker's store has counted, and the tables of the database."""
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
    """What each worker last reported."""
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
