"""The headline of the overview: the state of the crawl in a phrase and a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from crawler.console.filters import worker_pill
from crawler.console.overview_page import headline, queue_rows
from crawler.daemon.health import Counts, Health, HealthEvidence, judge
from crawler.daemon.responses import Status, Worker
from crawler.operator_commands import CrawlState
from crawler.steering.queue_waits import QueueReason, QueueWait
from tests.crawler.console.conftest import host_row
from tests.crawler.console.test_web import serving
from tests.crawler.daemon.monitoring.test_metrics import STATUS

ONE = replace(STATUS, visited=1, hosts=1, queued=2)


def test_it_describes_what_the_crawl_is_doing() -> None:
    given: Any
    for given, title, words in [
        ({"state": "running"}, "Running", "1 page visited on 1 host, 2 queued."),
        ({"state": "idle"}, "Idle", "Every queued URL is waiting for its host"),
        ({"state": "idle", "queued": 0}, "Idle", "the crawl is waiting for new seeds"),
        ({"state": "idle", "hosts": 0}, "Waiting for seeds", "Add a seed"),
        ({"state": "paused", "visited": 1_200}, "Paused", "1,200 pages visited on 1 host"),
        ({"state": "held"}, "On hold: a problem with this machine or its network", "automatically"),
        ({"state": "stopping"}, "Stopping", "results committed"),
    ]:
        status: Status = replace(ONE, **given)
        found = headline(status)
        assert found.title == title
        assert words in found.sentence


def health(**seen: Any) -> Health:
    return judge(HealthEvidence(**({"state": CrawlState.RUNNING} | seen)))


def test_an_outage_changes_the_headline_at_any_age_of_the_crawl() -> None:
    """With a million good requests before, only those of the last minutes count."""
    outage = health(
        recent=Counts(pages=1_600, lost=1_503, ended=1_503, failed=1_503),
        run=Counts(pages=1_001_503, lost=1_503, ended=1_001_503, failed=1_503),
        failed=1_503,
        ended=1_001_503,
    )
    found = headline(replace(ONE, health=outage))
    assert found.title == "Running, but not well"
    assert "1,503 of 1,600 page requests got no response" in found.sentence
    assert "1,503 URLs failed in the last five minutes" in found.sentence
    after = health(run=Counts(pages=1_001_503, lost=1_503), failed=1_503, ended=1_001_503)
    assert headline(replace(ONE, health=after)).title == "Running"


def test_an_idle_crawl_whose_urls_have_all_failed_is_not_well() -> None:
    failed = health(state=CrawlState.IDLE, failed=20_000, ended=20_000)
    idle = replace(ONE, state=CrawlState.IDLE, queued=0, failed=20_000, health=failed)
    assert headline(idle).title == "Idle, but not well"
    assert "20,000 of 20,000 URLs failed so far" in headline(idle).sentence


WORKER = Worker(
    id=7, name="crawl", host="m1", pid=42, began_at=1.0, seen_s=0.5, here=True, idle=True, hosts=3,
    in_flight=2, pages=9, pages_per_s=1.5, uncommitted=4,
)  # fmt: skip


def test_it_tells_idle_workers_from_an_idle_crawl() -> None:
    busy = replace(WORKER, id=8, here=False, idle=False)
    given: Any = {"state": "idle"}
    found = headline(replace(ONE, **given, workers=(WORKER, busy)))
    assert found.title == "Running on other workers"
    resting = replace(busy, idle=True)
    assert headline(replace(ONE, **given, workers=(WORKER, resting))).title == "Idle"


def test_the_state_of_a_worker() -> None:
    assert worker_pill(WORKER) == ("calm", "idle")
    assert worker_pill(replace(WORKER, idle=False)) == ("good", "active")
    assert worker_pill(replace(WORKER, seen_s=7.0)) == ("bad", "silent")


def test_silent_workers_do_not_count() -> None:
    other = replace(WORKER, here=False)
    status = replace(ONE, pages_per_s=2.0, in_flight=1, workers=(WORKER, other))
    assert status.of_all_workers().pages_per_s == 3.5
    assert status.of_all_workers().in_flight == 3
    silent = replace(status, workers=(WORKER, replace(other, seen_s=6.0)))
    assert silent.of_all_workers().pages_per_s == 2.0


def test_the_end_of_a_wait_that_nobody_knows_is_not_now() -> None:
    for reason, first_at, words in [
        (QueueReason.READY, None, "now"),
        (QueueReason.DELAY, 1.0, "now"),
        (QueueReason.CRAWL_PAUSED, None, "until resumed"),
        (QueueReason.CRAWL_HELD, None, "unknown"),
    ]:
        hold = QueueWait(
            reason=reason, sentence="", urls=1, hosts=1, first_at=first_at, last_at=None,
            through_at=None,
        )  # fmt: skip
        (row,) = queue_rows(replace(STATUS, queue=(hold,)))
        assert row["until"] == words


@pytest.mark.parametrize(("paused", "words"), [(4, None), (21, "21 paused"), (100, "100 paused")])
async def test_hosts_that_need_attention_and_are_not_shown_are_counted(
    answers: Any, paused: int, words: str | None
) -> None:
    answers.rows = {
        f"p{n}.test": host_row(f"p{n}.test", paused=True, wait_reason="paused")
        for n in range(paused)
    }
    async with serving(answers) as site:
        page = await site.get("/")
    assert page.count('class="pill wait">paused') == 4
    assert ("In all:" in page) is (words is not None)
    assert words is None or f'<a href="/hosts?state=paused">{words}</a>' in page


async def test_very_many_hosts_that_need_attention_are_not_all_read(answers: Any) -> None:
    given = answers.hosts

    async def hosts(**asked: Any) -> Any:
        page = await given(**asked)
        return replace(page, hosts=page.hosts[: asked["limit"]], after="more")

    answers.hosts = hosts
    answers.rows = {f"p{n}.test": host_row(f"p{n}.test", paused=True) for n in range(500)}
    async with serving(answers) as site:
        assert ">more than 100 paused</a>" in await site.get("/")
