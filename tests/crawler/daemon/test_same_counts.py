"""The history, /metrics and the status show the same numbers of a crawl, which are counted once."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from crawler.app import open_crawl
from crawler.config import from_dict
from crawler.daemon.api.history_view import HistoryPoint
from crawler.daemon.monitoring.metrics import Metrics
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.service import operations_of
from crawler.testing import LocalWeb, Reply, html, redirect, text
from crawler.testing.jump_clock import JumpClock
from tests.crawler.daemon.conftest import Daemon, daemon_of
from tests.crawler.daemon.monitoring.test_metrics import contact

CLASSES = {
    "success": "2xx",
    "redirects": "3xx",
    "client_errors": "4xx",
    "server_errors": "5xx",
}


async def metrics_of(daemon: Daemon) -> Counter[str]:
    """Values by the name of the series and the last of its labels."""
    found: Counter[str] = Counter()
    answer = await daemon.client.get("/metrics")
    for family in text_string_to_metric_families(answer.body):
        for sample in family.samples:
            label = "".join(f" {value}" for value in [*sample.labels.values()][-1:])
            found[sample.name + label] += int(sample.value)
    return found


async def test_history_metrics_and_status_agree_on_a_crawl(tmp_path: Path) -> None:
    """One with pages, errors, redirects, a robots.txt that forbids, and an origin that is down."""
    sites = {
        "a.test": {
            "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
            "/": html("a", "/one", "/moved", "/none", "/broken", "/private/x", "/lost"),
            "/one": html("one"),
            "/moved": redirect("/one"),
            "/broken": Reply(status=500),
            "/lost": Reply(status=0, broken=True),
        },
        "b.test": {"/": html("b", *(f"/{n}" for n in range(20)))},
    }
    async with LocalWeb(sites) as web:
        config = web.config(
            politeness={"delay": 0.01, "latency_factor": 0},
            fetch={"max_attempts": 1, "unreachable_for": 0.1},
        )
        seeds = [web.url("a.test"), web.url("b.test"), f"http://c.test:{web.dead_port}/"]
        async with daemon_of(config, tmp_path, *seeds) as daemon:
            status = await daemon.until(lambda now: not now["queued"] and now["failed"] >= 3)
            metrics = await metrics_of(daemon)
            history = (await daemon.client.get("/api/history")).body
            (stored,) = daemon.monitor.history.newest().counts
    sums: Counter[str] = Counter()
    for point in history["points"]:
        sums.update({name: n for name, n in point.items() if isinstance(n, int)})
    for name, outcome in CLASSES.items():
        assert sums[name] == metrics[f"courtly_fetches_total {outcome}"] > 0, name
    contacts = sum(n for name, n in metrics.items() if name.startswith("courtly_fetches_total"))
    answered = sum(sums[name] for name in CLASSES)
    assert sums["unanswered"] == contacts - answered > 0
    assert stored.durations["lateness"].values()
    assert sum(stored.durations["lateness"].values()) == contacts
    assert metrics["courtly_turn_lateness_seconds_count"] == contacts
    latencies = sum(stored.durations["latency"].values())
    assert latencies == metrics["courtly_fetch_latency_seconds_count"] >= answered
    given_up = metrics["courtly_given_up_urls_total"]
    assert sums["given_up"] == given_up > 0
    failed = metrics["courtly_outcomes_total failed"] + given_up
    assert sums["failed"] == failed == status["failed"] > 0
    assert metrics["courtly_outcomes_total visited"] == status["visited"] > 20
    assert metrics["courtly_outcomes_total blocked"] == status["blocked"] > 0


def test_every_number_that_is_sampled_is_in_the_history() -> None:
    metrics, shown = Metrics(), set(HistoryPoint.__struct_fields__)
    series = [(one, labels) for one in metrics.counters for labels in one.of]
    counts = {name for one, labels in series for name in one.history(*labels)}
    shares = {f"{name}_p{n}_s" for name in metrics.sampled().durations for n in (50, 95)}
    assert counts | shares == shown - {"at", "step_s", "observed_s", "queued"}


async def test_each_minute_has_what_happened_in_it(tmp_path: Path) -> None:
    """Samples are taken when a minute begins, whenever the first one was."""
    config = from_dict({"storage": {"url": f"sqlite:{tmp_path / 'crawl.db'}"}})
    async with JumpClock(wall_s=time.time() // 60 * 60 + 3.4) as clock:
        monitor, expected = Monitor(clock), Counter[int]()
        async with (
            open_crawl(config, runs_forever=True) as opened,
            operations_of(opened, monitor) as operations,
            monitor.sampling(opened.control),
        ):
            for _ in range(60):
                await clock.sleep_until(clock.monotonic() + 3.1)
                expected[int(clock.wall()) // 60 * 60] += 1
                monitor.metrics.contacted(contact())
            now_s = clock.wall()
            answer = await operations.history.history(from_=now_s - 600, to=now_s, step=60)
    assert {one.at: one.success for one in answer.points} == expected
