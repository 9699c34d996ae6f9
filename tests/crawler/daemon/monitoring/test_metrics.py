"""/metrics can be parsed, follows the conventions, and has no unbounded label."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from crawler.daemon.health import HealthEvidence, judge
from crawler.daemon.monitoring.exposition import render
from crawler.daemon.monitoring.metrics import Metrics
from crawler.daemon.monitoring.shared_store import StoreMeasures
from crawler.daemon.responses import PageReader, Status, Worker
from crawler.observer import Contacted
from crawler.operator_commands import CrawlState
from crawler.steering.live_state import HostState
from crawler.steering.queue_waits import QueueReason, QueueWait
from policies.retries import FailureCode
from storage.store import Blocked, BlockReason, Dropped, Failed, Revisited, StoreTelemetry, Visited

STATUS = Status(
    state=CrawlState.RUNNING,
    held=(),
    visited=5,
    blocked=2,
    failed=1,
    queued=7,
    hosts=4,
    bytes=500,
    in_flight=1,
    pages_per_s=1.0,
    bytes_per_s=100.0,
    uptime_s=60.0,
    memory_bytes=80_000_000,
    hosts_held=4,
    hosts_by_state={HostState.IN_FLIGHT: 1, HostState.WAITING: 3},
    fetching=(),
    uncommitted=0,
    version="1",
    health=judge(HealthEvidence(state=CrawlState.RUNNING, workers=1)),
    at=1.0,
    queue=(
        QueueWait(
            reason=QueueReason.DELAY,
            sentence="",
            urls=7,
            hosts=2,
            first_at=1.0,
            last_at=2.0,
            through_at=9.0,
        ),
    ),
    queue_at=1.0,
    name="crawl",
    page_reader=PageReader(name="native", native=3, declined=1),
)


def contact(
    kind: str = "page",
    status: int | None = 200,
    error: FailureCode | None = None,
    url: str = "http://a.test/",
) -> Contacted:
    return Contacted(
        url=url,
        slot="a.test",
        kind=kind,
        status=status,
        error=error,
        sentence="",
        started_at=1_000.0,
        elapsed_s=0.2,
        latency_s=None if error else 0.1,
        body_bytes=100,
        wire_bytes=150,
        address="127.0.0.1",
        late_s=0.004,
        next_in_s=1.0,
        rest_source="politeness.delay",
    )


WORKER = Worker(
    id=7, name="crawl", host="m1", pid=42, began_at=1.0, seen_s=0.5, here=True, idle=False, hosts=3,
    in_flight=2, pages=9, pages_per_s=1.5, uncommitted=4,
)  # fmt: skip
SHARED = replace(STATUS, workers=(WORKER, replace(WORKER, id=8, here=False, idle=True)))
MEASURES = StoreMeasures(
    telemetry=StoreTelemetry(
        renewals=20, renewals_s=0.5, renewals_failed=1, leases_lost=2, sessions_reaped=3,
        conflicts=4, commits_settled=5, reconnections=6,
    ),
    tables=[{"table": "urls", "bytes": 8_192, "rows": 10, "dead_rows": 1}],
)  # fmt: skip


def samples(
    metrics: Metrics, status: Status = STATUS, measures: StoreMeasures | None = None
) -> dict[str, float]:
    """`name{label=value}` → value, as Prometheus' own parser reads it."""
    found = {}
    for family in text_string_to_metric_families(render(metrics, status, measures).decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_contacts_are_counted_by_kind_and_outcome() -> None:
    metrics = Metrics()
    metrics.contacted(contact())
    metrics.contacted(contact(status=404))
    metrics.contacted(contact(status=None, error=FailureCode.TIMEOUT))
    metrics.contacted(contact("robots", status=503))
    found = samples(metrics)
    assert found["courtly_fetches_total{kind=page,outcome=2xx}"] == 1
    assert found["courtly_fetches_total{kind=page,outcome=4xx}"] == 1
    assert found["courtly_fetches_total{kind=page,outcome=timeout}"] == 1
    assert found["courtly_robots_fetches_total{result=unreachable}"] == 1
    assert found["courtly_body_bytes_total{kind=page}"] == 300
    assert found["courtly_fetch_latency_seconds_count{}"] == 3
    assert found["courtly_turn_lateness_seconds_bucket{le=0.004}"] == 4
    assert found["courtly_turn_lateness_seconds_bucket{le=0.002}"] == 0
    assert metrics.by_outcome() == {"2xx": 1, "4xx": 1, "timeout": 1, "5xx": 1}


def test_outcomes_and_commits_are_counted() -> None:
    metrics = Metrics()
    metrics.settled(
        "http://a.test/x",
        Blocked(
            id=1,
            slot="a.test",
            reason=BlockReason.ROBOTS,
            dialect="slurp",
            rule="Disallow: /x",
            line=2,
            robots_url="http://a.test/robots.txt",
            blocked_at=1.0,
        ),
    )
    metrics.settled("u", Failed(id=2, slot="a.test", error="dns: none", attempts=1, last_at=1.0))
    visited = Visited(
        id=3,
        slot="a.test",
        status=200,
        fetched_at=1.0,
        content_type=None,
        body_bytes=1,
        elapsed_s=0.1,
    )
    metrics.settled("v", visited)
    metrics.gave_up("b.test", "http://b.test", "connect: refused", 40)
    metrics.committed(0.02, 3, 17)
    found = samples(metrics)
    assert found["courtly_blocked_urls_total{reason=robots}"] == 1
    assert found["courtly_outcomes_total{outcome=failed}"] == 1
    assert found["courtly_outcomes_total{outcome=visited}"] == 1
    assert found["courtly_given_up_urls_total{}"] == 40
    assert found["courtly_links_committed_total{}"] == 17
    assert found["courtly_commit_seconds_count{}"] == 1


def test_an_origin_without_urls_is_not_given_up() -> None:
    """Other programs asked for it: no URL of the crawl has failed."""
    metrics = Metrics()
    for number in range(100):
        metrics.gave_up("b.test", f"http://b.test:{number + 1}", "connect: refused", 0)
    assert samples(metrics)["courtly_given_up_hosts_total{}"] == 0
    assert metrics.counts().given_up_hosts == 0
    metrics.gave_up("b.test", "http://b.test", "connect: refused", 2)
    assert metrics.counts().given_up_hosts == 1


def test_a_refused_address_is_no_unreachable_origin() -> None:
    metrics = Metrics()
    metrics.gave_up("a.test", "http://a.test", "address: 10.0.0.1 is private", 3)
    assert samples(metrics)["courtly_given_up_hosts_total{}"] == 0
    assert samples(metrics)["courtly_given_up_urls_total{}"] == 3


def test_series_exist_before_the_first_event() -> None:
    """A rate over a series that appears later would be wrong."""
    metrics = Metrics()
    before = samples(metrics).keys()
    metrics.settled("http://a.test/", Revisited(id=1, slot="a.test", plan=None))
    metrics.settled("http://a.test/", Dropped(id=2, slot="a.test", reason="max_depth"))
    assert samples(metrics).keys() == before


def test_gauges_are_named_after_their_units() -> None:
    found = samples(Metrics())
    assert found["courtly_frontier_urls{state=queued}"] == 7
    assert found["courtly_hosts_held{state=in_flight}"] == 1
    assert found["courtly_hosts_held{state=paused}"] == 0
    assert found["courtly_state{state=running}"] == 1
    assert found["courtly_state{state=paused}"] == 0
    assert found["courtly_resident_memory_bytes{}"] == 80_000_000
    assert [name for name in found if name.startswith("courtly_build_info{name=crawl,version=")]
    assert found["courtly_health{check=network}"] == 0
    assert found["courtly_queue_urls{reason=delay}"] == 7
    assert found["courtly_queue_hosts{reason=delay}"] == 2
    assert found["courtly_queue_urls{reason=backoff}"] == 0
    assert found["courtly_native_reader_pages_total{outcome=read}"] == 3
    assert found["courtly_native_reader_pages_total{outcome=declined}"] == 1


def test_series_do_not_grow_with_hosts_urls_or_odd_answers() -> None:
    metrics = Metrics()
    before = set(samples(metrics))
    for number in range(300):
        url = f"http://h{number}.test/"
        metrics.contacted(contact(url=url, status=200 + number, kind=f"kind-{number}"))
    more = set(samples(metrics)) - before
    assert not [name for name in more if "test" in name]
    assert len(more) < 10


def test_a_shared_store_is_measured() -> None:
    found = samples(Metrics(), SHARED, MEASURES)
    assert found["courtly_renewal_seconds_count{}"] == 20
    assert found["courtly_renewal_seconds_sum{}"] == 0.5
    assert found["courtly_renewals_failed_total{}"] == 1
    assert found["courtly_leases_lost_total{}"] == 2
    assert found["courtly_sessions_reaped_total{}"] == 3
    assert found["courtly_transaction_conflicts_total{}"] == 4
    assert found["courtly_commits_settled_total{}"] == 5
    assert found["courtly_reconnections_total{}"] == 6
    assert found["courtly_table_bytes{table=urls}"] == 8_192
    assert found["courtly_table_dead_rows{table=urls}"] == 1


def test_each_worker_has_series_of_its_own() -> None:
    found = samples(Metrics(), SHARED, MEASURES)
    assert found["courtly_workers{state=active}"] == 1
    assert found["courtly_workers{state=idle}"] == 1
    assert found["courtly_worker_info{machine=m1,pid=42,worker=7}"] == 1
    assert found["courtly_worker_hosts_held{worker=7}"] == 3
    assert found["courtly_worker_requests_in_flight{worker=7}"] == 2
    assert found["courtly_worker_pages_total{worker=8}"] == 9
    assert found["courtly_worker_uncommitted_outcomes{worker=7}"] == 4
    assert found["courtly_worker_unrenewed_seconds{worker=7}"] == 0.5
    assert [found[f"courtly_worker_idle{{worker={n}}}"] for n in (7, 8)] == [0, 1]


def test_two_instances_share_nothing() -> None:
    one, other = Metrics(), Metrics()
    one.contacted(contact())
    assert samples(other)["courtly_fetches_total{kind=page,outcome=2xx}"] == 0


DOCS = Path(__file__).parents[4] / "docs"


def names() -> set[str]:
    """The names of all series and of their histograms."""
    found = samples(Metrics(), SHARED, MEASURES)
    series = {name.partition("{")[0] for name in found}
    return series | {re.sub("_(bucket|count)$", "", name) for name in series}


def test_every_name_in_the_docs_and_in_the_sample_alerts_exists() -> None:
    for file, least in [
        ("operations/alerts.yml", 7),
        ("operations/grafana/dashboard.json", 15),
        ("daemon.md", 15),
    ]:
        named = set(re.findall(r"\bcourtly_[a-z_]+", (DOCS / file).read_text()))
        assert len(named) > least
        assert named <= names(), (file, least)


def test_every_sample_alert_is_explained() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (DOCS / "operations" / "alerts.yml").read_text()))
    explained = set(
        re.findall(r"^\| `(Courtly\w+)`", (DOCS / "operations.md").read_text(), re.MULTILINE)
    )
    assert alerts
    assert alerts == explained


def test_every_metric_is_in_the_docs() -> None:
    told = set(re.findall(r"\bcourtly_[a-z_]+", (DOCS / "daemon.md").read_text()))
    parts = re.compile(r"_(bucket|count|sum)$")
    assert {parts.sub("", name) for name in names()} <= told
