"""What holds the queue: rows of the store, corrected by what the hosts in memory wait for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crawler.frontier.reasons import Wait
from crawler.steering.queue_waits import (
    PHRASES,
    LiveWait,
    QueueReason,
    queue_waits,
    reason_of,
)
from storage.read_records import StoredReason

NOW_S = 1_000.0


def row(reason: str = "delay", urls: int = 5, host: str = "", **more: Any) -> dict[str, Any]:
    times = {"first_at": NOW_S + 1, "last_at": NOW_S + 9, "through_at": NOW_S + 50}
    counts = {"urls": urls, "hosts": 1, "visited_hosts": 1, "gone_hosts": 1}
    return {"host": host, "reason": reason, **counts, **times, **more}


def holds(*rows: Any, live: Any = None, overall: Any = None, rate: float = 0.0) -> dict[Any, Any]:
    found = queue_waits(rows, live or {}, overall=overall, pages_per_s=rate, now_s=NOW_S)
    return {one.reason: one for one in found}


def test_every_reason_has_a_phrase_and_every_wait_a_reason() -> None:
    assert set(PHRASES) == set(QueueReason)
    assert {reason_of(wait) for wait in Wait} == set(QueueReason)


def test_hosts_in_memory_have_their_exact_reason() -> None:
    found = holds(
        row(urls=7),
        row(urls=2, host="a.test"),
        row(urls=3, host="b.test"),
        live={"a.test": LiveWait(QueueReason.CLOSED, NOW_S + 100)},
    )
    assert found[QueueReason.CLOSED].urls == 2
    assert found[QueueReason.CLOSED].last_at == NOW_S + 100
    assert found[QueueReason.CLOSED].through_at is None  # nobody knows
    assert found[QueueReason.DELAY].urls == 10  # that of another worker too
    assert found[QueueReason.DELAY].hosts == 2
    assert (found[QueueReason.DELAY].first_at, found[QueueReason.DELAY].last_at) == (1001, 1009)


def test_the_end_is_bounded_by_the_slowest_host_and_by_the_rate() -> None:
    assert holds(row())[QueueReason.DELAY].through_at == NOW_S + 50
    assert holds(row(urls=1_000), rate=2.0)[QueueReason.DELAY].through_at == NOW_S + 500
    assert holds(row("paused"), rate=2.0)[QueueReason.PAUSED].through_at is None


def test_a_crawl_that_stands_still_has_one_reason() -> None:
    found = holds(row(), row("backoff", 3), overall=QueueReason.CRAWL_PAUSED)
    (one,) = found.values()
    assert (one.reason, one.urls, one.hosts) == (QueueReason.CRAWL_PAUSED, 8, 2)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(StoredReason), st.integers(1, 1_000), st.sampled_from(["", "a", "b"])
        )
    ),
    st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(QueueReason)),
    st.sampled_from([None, QueueReason.CRAWL_HELD]),
)
def test_no_url_is_lost_or_counted_twice(rows: Any, live: Any, overall: Any) -> None:
    made = [row(reason, urls, host) for reason, urls, host in rows]
    waits = {host: LiveWait(reason, None) for host, reason in live.items()}
    found = holds(*made, live=waits, overall=overall)
    assert sum(one.urls for one in found.values()) == sum(one["urls"] for one in made)
    assert sum(one.hosts for one in found.values()) == len(made)
    assert sum(one.visited_hosts for one in found.values()) == len(made)
