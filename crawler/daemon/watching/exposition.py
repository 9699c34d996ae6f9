"""The text of /metrics: what was counted and what is measured, in prometheus_client's types."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from crawler.daemon.watching.metrics import (
    CRAWL_STATES,
    FRONTIER_STATES,
    HOST_STATES,
    Measured,
    Metrics,
)
from crawler.version import __version__
from policies.holds import HoldReason

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


def render(metrics: Metrics, measured: Measured) -> bytes:
    """The text format, version 0.0.4."""
    registry = CollectorRegistry()
    registry.register(_Once((*_counted(metrics), *_measured(measured))))
    return generate_latest(registry)


class _Once(Collector):
    """What is known now."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _counted(metrics: Metrics) -> Iterator[Metric]:
    build = GaugeMetricFamily(
        "courtly_build_info", "Always 1; the label says which version runs.", labels=("version",)
    )
    build.add_metric((__version__,), 1)
    yield build
    for tally in metrics.tallies:
        counter = CounterMetricFamily(tally.name, tally.note, labels=tally.labels)
        for values, count in tally.of.items():
            counter.add_metric(values, count)
        yield counter
    for spread in metrics.spreads:
        bounds = [*map(floatToGoString, spread.bounds), "+Inf"]
        upto = itertools.accumulate(spread.counts)
        buckets = list(zip(bounds, upto, strict=True))
        yield HistogramMetricFamily(spread.name, spread.note, buckets=buckets, sum_value=spread.sum)


def _measured(measured: Measured) -> Iterator[Metric]:
    urls = {state: measured.urls.get(state, 0) for state in FRONTIER_STATES}
    yield _by_state("courtly_frontier_urls", "URLs known, by state.", urls)
    yield GaugeMetricFamily("courtly_hosts", "Hosts known.", measured.hosts)
    held = {state.replace(" ", "_"): measured.hosts_held.get(state, 0) for state in HOST_STATES}
    yield _by_state("courtly_hosts_held", "Hosts in memory, by what each is doing.", held)
    states = {state: state == measured.state for state in CRAWL_STATES}
    yield _by_state(
        "courtly_state", "1 for what the crawl as a whole is doing, 0 for the rest.", states
    )
    reasons = GaugeMetricFamily(
        "courtly_held",
        "1 while trouble of our own machine or network holds the whole crawl for this reason.",
        labels=("reason",),
    )
    for reason in HoldReason:
        reasons.add_metric((reason.value,), float(reason.value in measured.held))
    yield reasons
    yield GaugeMetricFamily(
        "courtly_requests_in_flight", "Requests on the wire.", measured.in_flight
    )
    yield GaugeMetricFamily(
        "courtly_resident_memory_bytes", "Resident memory.", measured.memory_bytes or 0
    )
    yield GaugeMetricFamily(
        "courtly_start_time_seconds",
        "When this run began, Unix seconds.",
        time.time() - measured.uptime_s,
    )


def _by_state(name: str, note: str, values: Mapping[str, float]) -> Metric:
    gauge = GaugeMetricFamily(name, note, labels=("state",))
    for state, value in values.items():
        gauge.add_metric((state,), value)
    return gauge
