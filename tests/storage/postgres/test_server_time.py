"""The clock of a crawl on a server: steps of the server's clock change nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.postgres.server_time import ServerTime
from tests.storage.postgres.stores import link, one, store_at


class Elapsed:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Server:
    """A server's clock, and the shift that is stored for all workers."""

    def __init__(self, elapsed: Elapsed) -> None:
        self._elapsed = elapsed
        self.ahead_s = 1_800_000_000.0
        self.shift_s = 0.0

    @property
    def clock_s(self) -> float:
        return self._elapsed.now_s + self.ahead_s

    def read(self, time: ServerTime, round_trip_s: float = 0.0) -> None:
        """What a worker does at the begin of each transaction."""
        sent_s = self._elapsed.now_s
        clock_s = self.clock_s
        self._elapsed.now_s += round_trip_s
        step_s = time.step_s(clock_s, self.shift_s, sent_s)
        self.shift_s -= step_s
        time.observe(clock_s, self.shift_s, sent_s)


@pytest.fixture
def elapsed() -> Elapsed:
    return Elapsed()


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0, 86_400.0 * 365, 2.0, -2.0])
def test_a_step_of_the_server_s_clock_moves_no_time(elapsed: Elapsed, step_s: float) -> None:
    server, time = Server(elapsed), ServerTime(lambda: 0.0, elapsed)
    server.read(time)
    before_s = time.now_s()
    elapsed.now_s += 10.0
    server.ahead_s += step_s
    server.read(time)
    assert time.now_s() == pytest.approx(before_s + 10.0, abs=1e-6)


def test_what_one_worker_corrects_holds_for_the_others(elapsed: Elapsed) -> None:
    server = Server(elapsed)
    first, second = ServerTime(lambda: 0.0, elapsed), ServerTime(lambda: 0.0, elapsed)
    server.read(first)
    server.read(second)
    server.ahead_s += 7_200.0
    server.read(first)
    server.read(second)
    newcomer = ServerTime(lambda: 0.0, elapsed)
    server.read(newcomer)
    assert first.now_s() == pytest.approx(second.now_s()) == pytest.approx(newcomer.now_s())


def test_a_slow_answer_is_no_step(elapsed: Elapsed) -> None:
    server, time = Server(elapsed), ServerTime(lambda: 0.0, elapsed)
    server.read(time)
    for _ in range(5):
        server.read(time, round_trip_s=20.0)
    assert server.shift_s == 0.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5), st.floats(-1e6, 1e6)), max_size=20))
def test_time_never_runs_backwards(moves: list[tuple[float, float, float]]) -> None:
    elapsed = Elapsed()
    server, time = Server(elapsed), ServerTime(lambda: 0.0, elapsed)
    server.read(time)
    last_s = time.now_s()
    for wait_s, round_trip_s, step_s in moves:
        elapsed.now_s += wait_s
        server.ahead_s += step_s
        server.read(time, round_trip_s)
        assert time.now_s() >= last_s
        last_s = time.now_s()


def test_it_is_behind_the_server_by_no_more_than_it_says(elapsed: Elapsed) -> None:
    server, time = Server(elapsed), ServerTime(lambda: 0.0, elapsed)
    server.read(time, round_trip_s=0.5)
    assert 0.0 <= server.clock_s - time.now_s() <= time.late_s() == 0.5


async def test_the_first_worker_that_notices_corrects_the_shift(crawl_url: str) -> None:
    """On a real server, whose clock seems to be an hour ahead for a worker that was told so."""
    store = store_at(crawl_url)
    await store.open_session("a")
    time = store._calls.time
    assert isinstance(time, ServerTime)
    before_s = time.now_s()
    real: Callable[[], float] = time.elapsed
    time.elapsed = lambda: real() + 3_600.0  # an hour has passed here, but not on the server
    await store.add([link("http://a.test/")])
    assert await one(crawl_url, "SELECT shift_s FROM crawl") == pytest.approx(3_600.0, abs=2.0)
    assert await one(crawl_url, "SELECT steps FROM crawl") == 1
    assert time.now_s() == pytest.approx(before_s + 3_600.0, abs=2.0)
    due_at = await one(crawl_url, "SELECT next_at FROM hosts")
    assert due_at == pytest.approx(before_s, abs=2.0), "views show the server's clock"
    await store.close()
