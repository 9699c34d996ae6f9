"""Observers receive every contact, every outcome and every commit once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crawler.observer import Contacted, Observer, Observers, all_of
from crawler.operator_commands import PauseCrawl, ResumeCrawl
from crawler.testing import Answers, Reply, html, text
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode
from storage.store import Blocked, Failed, Outcome, Retry, Visited

if TYPE_CHECKING:
    from tests.conftest import World


class Watcher(Observer):
    """Records all calls."""

    def __init__(self) -> None:
        self.seen: list[Contacted] = []
        self.outcomes: list[tuple[str, Outcome]] = []
        self.lost: list[tuple[str, str, str, int]] = []
        self.commits: list[tuple[float, int, int]] = []
        self.holds: list[tuple[HoldReason, str]] = []

    def contacted(self, seen: Contacted) -> None:
        self.seen.append(seen)

    def settled(self, url: str, outcome: Outcome) -> None:
        self.outcomes.append((url, outcome))

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self.lost.append((slot, origin, error, count))

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        self.commits.append((elapsed_s, outcomes, links))

    def hold_began(self, hold: Hold) -> None:
        self.holds.append((hold.reason, "began"))

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        self.holds.append((hold.reason, "ended"))


async def test_every_contact_is_observed_with_its_times_and_delay(world: World) -> None:
    watcher = Watcher()
    answers: Answers = {
        "http://a.test/robots.txt": text("User-agent: *\nCrawl-delay: 4\n"),
        "http://a.test/1": html("One", "/2"),
        "http://a.test/2": Reply(status=429, headers={"Retry-After": "100"}),
    }
    crawled = await world.crawl(
        answers, "http://a.test/1", observer=watcher, crawl={"patience": "1m"}
    )
    robots, one, two = watcher.seen
    assert [(s.url, s.kind, s.status) for s in watcher.seen] == [
        ("http://a.test/robots.txt", "robots", 200),
        ("http://a.test/1", "page", 200),
        ("http://a.test/2", "page", 429),
    ]
    assert robots.started_at == pytest.approx(crawled.start_s + crawled.wall_from_s)
    assert [s.elapsed_s for s in watcher.seen] == pytest.approx([0.05] * 3)
    assert [s.latency_s for s in watcher.seen] == pytest.approx([0.05] * 3)
    assert [s.late_s for s in watcher.seen] == pytest.approx([0.0] * 3, abs=1e-6)
    assert (one.next_in_s, one.rest_source) == (4.0, "Crawl-delay in robots.txt")
    assert two.next_in_s == pytest.approx(100.0)
    assert "429" in two.rest_source
    assert one.body_bytes > 0
    assert one.address == "127.0.0.1"


async def test_a_failed_contact_is_observed_with_its_error(world: World) -> None:
    watcher = Watcher()
    answers: Answers = {"http://a.test/1": FailureCode.TIMEOUT, "http://b.test/1": FailureCode.DNS}
    await world.crawl(
        answers,
        "http://a.test/1",
        "http://b.test/1",
        observer=watcher,
        fetch={"max_attempts": 1, "unreachable_for": 0},
        crawl={"patience": "1m"},
    )
    failed = {s.url: s for s in watcher.seen if s.error}
    assert failed["http://a.test/1"].error is FailureCode.TIMEOUT
    assert failed["http://a.test/1"].sentence
    assert failed["http://a.test/1"].latency_s is None
    assert {url: type(outcome) for url, outcome in watcher.outcomes} == {"http://a.test/1": Failed}
    assert [(slot, origin, count) for slot, origin, _, count in watcher.lost] == [
        ("b.test", "http://b.test", 1)
    ]
    assert watcher.lost[0][2].startswith("dns: ")


async def test_every_outcome_and_commit_is_observed_once(world: World) -> None:
    watcher = Watcher()
    answers: Answers = {
        "http://a.test/robots.txt": text("User-agent: *\nDisallow: /no\n"),
        "http://a.test/1": html("One", "/2", "/no/1"),
        "http://a.test/2": html("Two"),
    }
    await world.crawl(answers, "http://a.test/1", observer=watcher)
    assert {url: type(outcome) for url, outcome in watcher.outcomes} == {
        "http://a.test/1": Visited,
        "http://a.test/2": Visited,
        "http://a.test/no/1": Blocked,
    }
    assert len(watcher.outcomes) == 3
    assert sum(outcomes for _, outcomes, _ in watcher.commits) == 3
    assert sum(links for _, _, links in watcher.commits) == 2


async def test_a_retry_is_observed(world: World) -> None:
    watcher = Watcher()
    replies = [Reply(status=500), html("Page")]

    def answers(request: object) -> Reply:
        url = getattr(request, "url", "")
        return text("", status=404) if url.endswith("robots.txt") else replies.pop(0)

    await world.crawl(answers, "http://a.test/1", observer=watcher)
    assert [type(outcome) for _, outcome in watcher.outcomes] == [Retry, Visited]


async def test_lateness_counts_from_the_earliest_possible_start(world: World) -> None:
    """A host without work is not late; one that waits for `concurrency` is; a pause does not
    count."""
    watcher = Watcher()
    answers: Answers = {
        "http://a.test/1": Reply(delay_s=10),
        "http://b.test/1": html("B"),
        "http://b.test/2": html("B2"),
    }
    await world.crawl(
        answers,
        "http://a.test/1",
        "http://b.test/1",
        "http://b.test/2",
        observer=watcher,
        crawl={"concurrency": 1},
        at={
            15.0: lambda: world.do(world.control.execute(PauseCrawl())),
            100.0: lambda: world.do(world.control.execute(ResumeCrawl())),
        },
    )
    late = {s.url: s.late_s for s in watcher.seen}
    assert max(late.values()) <= 10.1
    assert max(late.values()) > 8  # b.test stood ready while a.test had the one place
    assert sum(late.values()) < 25


async def test_a_cancelled_contact_is_observed_without_a_status(world: World) -> None:
    watcher = Watcher()
    await world.crawl(
        {"http://a.test/robots.txt": Reply(delay_s=20)},
        "http://a.test/1",
        observer=watcher,
        at={5.0: world.leave},
    )
    (seen,) = watcher.seen
    assert (seen.status, seen.error, seen.sentence) == (None, None, "")
    assert seen.elapsed_s == pytest.approx(5.0)


def test_several_observers_are_called_in_order() -> None:
    one, two = Watcher(), Watcher()
    assert all_of([]) is None
    assert isinstance(all_of([one]), Observers)
    both = all_of([one, two])
    assert isinstance(both, Observers)
    both.committed(0.1, 2, 3)
    both.gave_up("a.test", "http://a.test", "dns: no", 4)
    assert one.commits == two.commits == [(0.1, 2, 3)]
    assert one.lost == two.lost
