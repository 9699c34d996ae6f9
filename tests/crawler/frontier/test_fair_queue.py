"""Parties that ask for much do not hold up those that ask for little."""

from __future__ import annotations

import pytest

from crawler.frontier.fair_queue import FairQueue
from crawler.frontier.tickets import FrontierClosedError


def served(queue: FairQueue[int], count: int) -> list[str]:
    found = [queue.take(lambda _: True) for _ in range(count)]
    return [entry.party for entry in found if entry is not None]


def test_one_with_a_thousand_tickets_has_its_share() -> None:
    queue: FairQueue[int] = FairQueue()
    for n in range(1_000):
        queue.put("many", n, 1.0)
    queue.put("one", 0, 1.0)
    queue.put("two", 0, 1.0)
    assert sorted(served(queue, 3)) == ["many", "one", "two"]


def test_cost_counts() -> None:
    queue: FairQueue[int] = FairQueue()
    for n in range(8):
        queue.put("dear", n, 4.0)
        queue.put("cheap", n, 1.0)
    assert served(queue, 10).count("cheap") == 8


def test_who_comes_late_does_not_catch_up() -> None:
    queue: FairQueue[int] = FairQueue()
    for n in range(20):
        queue.put("early", n, 1.0)
    served(queue, 10)
    for n in range(20):
        queue.put("late", n, 1.0)
    assert 4 <= served(queue, 10).count("late") <= 6


def test_those_that_may_not_be_served_wait_and_withdrawn_ones_go() -> None:
    queue: FairQueue[int] = FairQueue()
    gone = queue.put("a", 1, 1.0)
    queue.put("a", 2, 1.0)
    queue.put("b", 3, 1.0)
    gone.withdraw()
    entry = queue.take(lambda party: party == "a")
    assert entry is not None
    assert entry.asker == 2
    assert queue.take(lambda party: party == "a") is None
    assert list(queue.parties) == ["b"]


async def test_close_turns_everybody_away() -> None:
    queue: FairQueue[int] = FairQueue()
    tickets = [queue.put(party, 1, 1.0) for party in "aab"]
    queue.close("the crawl is ending")
    for ticket in tickets:
        with pytest.raises(FrontierClosedError):
            await ticket.wait()
    assert list(queue.parties) == []


def test_only_few_parties_are_remembered() -> None:
    queue: FairQueue[int] = FairQueue()
    for n in range(1_100):
        queue.put(f"p{n}", n, 1.0)
        queue.put(f"p{n + 1}", n, 1.0)
        assert queue.take(lambda _: True)
    assert len(queue._finished) <= 1_025
