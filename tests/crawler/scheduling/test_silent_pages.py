"""Pages that a host never answers, or breaks off, are no outage, however many hosts have them; and
an outage in which everything is broken off, or a proxy answers for everybody, is one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from crawler.fetching.request import Answer, Failure, Request
from crawler.testing import FakeFetcher, JumpClock, Reply, html, not_found
from policies.retries import FailureCode
from policies.url import host_of, path_of

if TYPE_CHECKING:
    from tests.conftest import World

GOOD = 6  # pages of each host that it answers, the first included


class Pits(FakeFetcher):
    """Hosts whose pages `/pit…` fail in one of several ways; all else is answered, unless the
    network is away. free: a host without such pages, and with 200 others."""

    def __init__(
        self,
        clock: JumpClock,
        *,
        pits: int,
        kind: str,
        from_s: float = 0,
        to_s: float = 0,
        free: str = "",
    ) -> None:
        links = [f"/pit{n}" for n in range(pits)] + [f"/{n}" for n in range(GOOD)]
        more = [f"/{n}" for n in range(200)]

        def answers(request: Request) -> Reply:
            if request.url.endswith("/robots.txt"):
                return not_found()
            return html("ParsedPage", *(more if host_of(request.url) == free else links))

        super().__init__(clock, answers)
        self.kind = kind
        self._from_s, self._to_s = clock.monotonic() + from_s, clock.monotonic() + to_s

    async def fetch(self, request: Request) -> Answer | Failure:
        result = await super().fetch(request)
        assert isinstance(result, Answer)
        away = self._from_s <= self._clock.monotonic() < self._to_s
        if not (away or path_of(request.url).startswith("/pit")):
            return result
        if self.kind in ("502", "511"):
            status = int(self.kind)
            return structs.replace(result, status=status, body=b"", gateway=True)
        waits_s = request.limits.timeout_s if self.kind in ("mute", "stalled") else 0.0
        await self._clock.sleep_until(self._clock.monotonic() + waits_s)
        unanswered = self.kind in ("reset", "mute")
        return Failure(
            url=request.url,
            code=FailureCode.TIMEOUT if waits_s else FailureCode.PROTOCOL,
            sentence=self.kind,
            connected=True,
            permanent=False,
            started_s=result.started_s,
            ended_s=self._clock.monotonic(),
            received=not unanswered,
            broken_off=not unanswered,
        )


def check_rests(log: object) -> None:
    for host in {entry.host for entry in log}:  # type: ignore[attr-defined]
        for before, after in itertools.pairwise(log.requests(host)):  # type: ignore[attr-defined]
            assert after.start_s - before.end_s >= 1.0 - 1e-6


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    hosts=st.integers(1, 10),
    pits=st.integers(0, 20),
    kind=st.sampled_from(["reset", "mute", "broken", "stalled", "502"]),
)
@example(hosts=2, pits=20, kind="mute")
@example(hosts=3, pits=20, kind="reset")
@example(hosts=12, pits=3, kind="reset")
async def test_pages_that_are_never_answered_cost_no_others(
    hosts: int, pits: int, kind: str
) -> None:
    """Though all hosts are asked for them at the same time."""
    from tests.conftest import World

    async with JumpClock() as clock:
        world = World(clock)
        fetcher = Pits(clock, pits=pits, kind=kind)
        seeds = [f"http://h{n}.test/0" for n in range(hosts)]
        crawled = await world.crawl(
            {},
            *seeds,
            fetcher=fetcher,
            crawl={"patience": "2h"},  # longer than all the tries of the silent ones take
            fetch={"timeout": 15},
            cap_s=40_000,
        )
        assert len(crawled.urls("visited")) == GOOD * hosts
        assert len(crawled.urls("failed")) == pits * hosts
        assert crawled.urls("queued") == []
        check_rests(crawled.log)


@pytest.mark.parametrize("hosts", [2, 6])
@pytest.mark.parametrize("kind", ["reset", "mute", "broken", "stalled", "502", "511"])
@pytest.mark.parametrize("lasts_s", [20, 500])
async def test_an_outage_that_speaks_fails_nothing(
    world: World, hosts: int, kind: str, lasts_s: float
) -> None:
    fetcher = Pits(world.clock, pits=0, kind=kind, from_s=3.5, to_s=3.5 + lasts_s)
    seeds = [f"http://h{n}.test/0" for n in range(hosts)]
    crawled = await world.crawl({}, *seeds, fetcher=fetcher, fetch={"timeout": 5}, cap_s=4_000)
    assert crawled.urls("failed") == []
    assert len(crawled.urls("visited")) == GOOD * hosts
    assert all(row["state"] != "unreachable" for row in crawled.rows["robots"])
    check_rests(crawled.log)


@pytest.mark.parametrize("kind", ["mute", "stalled"])
async def test_hosts_that_fall_silent_together_stop_no_other(world: World, kind: str) -> None:
    """Their requests fail in one moment, between two answers of another host."""

    fetcher = Pits(world.clock, pits=8, kind=kind, free="v.test")
    seeds = ["http://v.test/0", *(f"http://h{n}.trap.test/0" for n in range(64))]
    crawled = await world.crawl(
        {}, *seeds, fetcher=fetcher, fetch={"timeout": 15}, crawl={"max_time": 120}
    )
    at_s = crawled.at("v.test")
    assert max(b - a for a, b in itertools.pairwise(at_s)) < 2.0
    assert len(at_s) > 100
    check_rests(crawled.log)


async def test_a_limit_of_the_run_ends_it_during_an_outage(world: World) -> None:
    """Whatever its patience: nothing more would be requested after the outage."""
    fetcher = Pits(world.clock, pits=0, kind="mute", from_s=3.5, to_s=5_000)
    seeds = [f"http://h{n}.test/0" for n in range(12)]
    crawled = await world.crawl(
        {}, *seeds, fetcher=fetcher, fetch={"timeout": 5}, crawl={"max_time": 60, "patience": "1h"}
    )
    assert crawled.elapsed_s < 70.0
    assert len(crawled.urls("queued")) > 12
    assert crawled.urls("failed") == []
