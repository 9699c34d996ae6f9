"""Large bodies share a fixed amount of memory, and none waits for ever for another."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from crawler.fetching.request import LARGE_BYTES, NoPlaceError
from crawler.frontier.large_bodies import BYTES_MAX, DOMAIN_BYTES_MAX, LargeBodies, LargeBodyPlace
from crawler.testing import JumpClock

PAGE = 9_000_000
STEP = 65_536


class Received:
    """Bodies that arrive piece by piece, each with a pause, and are then parsed one at a time."""

    def __init__(self, clock: JumpClock, *, parsing_s: float = 0.1, wait_s: float = 1e6) -> None:
        self.clock = clock
        self.waiting: Counter[str] = Counter()
        self.bodies = LargeBodies(clock, self.waiting)
        self.parsed: list[str] = []
        self.most = 0
        self.most_of: Counter[str] = Counter()
        self._parsing_s, self._wait_s = parsing_s, wait_s
        self._parser = asyncio.Lock()
        self._now: dict[LargeBodyPlace, int] = {}  # bytes in memory

    async def receive(
        self, domain: str, size: int, *, most: int = 10_000_000, piece_s: float = 0.001
    ) -> None:
        place = LargeBodyPlace(self.bodies, domain)
        try:
            for got in range(STEP, size + STEP, STEP):
                got = min(got, size)
                if got > place.size_bytes:
                    await place.grow(got, most_bytes=most, wait_s=self._wait_s)
                self._now[place] = got
                self._count()
                await self.clock.sleep_until(self.clock.monotonic() + piece_s)
            place.settle(size)
            async with self._parser:
                await self.clock.sleep_until(self.clock.monotonic() + self._parsing_s)
            self.parsed.append(domain)
        finally:
            self._now.pop(place, None)
            place.leave()

    def _count(self) -> None:
        of: Counter[str] = Counter()
        for place, size in self._now.items():
            if size > LARGE_BYTES:
                of[place.domain] += size
        self.most = max(self.most, sum(of.values()))
        for domain, size in of.items():
            self.most_of[domain] = max(self.most_of[domain], size)


async def test_the_bodies_of_one_domain_have_a_quarter_and_all_arrive() -> None:
    async with JumpClock() as clock:
        web = Received(clock)
        await asyncio.gather(*(web.receive("trap.test", PAGE) for _ in range(64)))
        assert len(web.parsed) == 64
        assert PAGE <= web.most <= DOMAIN_BYTES_MAX
        assert web.bodies.size_bytes == 0
        assert not web.waiting


async def test_many_domains_share_what_there_is_and_all_arrive() -> None:
    async with JumpClock() as clock:
        web = Received(clock)
        await asyncio.gather(*(web.receive(f"d{n % 32}.test", PAGE) for n in range(64)))
        assert len(web.parsed) == 64
        assert BYTES_MAX / 2 <= web.most <= BYTES_MAX


@pytest.mark.parametrize("seed", range(8))
async def test_bodies_of_any_size_and_pace_arrive_within_the_bounds(seed: int) -> None:
    """Also such whose limit is beyond what there is for all."""
    chance = random.Random(seed)
    async with JumpClock() as clock:
        web = Received(clock, parsing_s=chance.choice([0.0, 0.1, 3.0]))
        bodies = []
        for _ in range(60):
            most = chance.choice([400_000, 2_000_000, 10_000_000, 10_000_000, 30_000_000])
            bodies.append(
                web.receive(
                    f"d{chance.randrange(4)}.test",
                    chance.randint(1, most),
                    most=most,
                    piece_s=chance.choice([0.0, 0.01, 0.1]),
                )
            )
        tasks = [asyncio.create_task(body) for body in bodies]
        for gone in chance.sample(tasks, 10):
            await clock.sleep_until(clock.monotonic() + chance.random())
            gone.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or type(result) is asyncio.CancelledError for result in results)
        assert web.most <= BYTES_MAX
        assert all(size <= max(DOMAIN_BYTES_MAX, 30_000_000) for size in web.most_of.values())
        assert web.bodies.size_bytes == 0
        assert not web.waiting


async def test_a_body_beyond_what_there_is_arrives_alone() -> None:
    async with JumpClock() as clock:
        web = Received(clock)
        sizes = [2 * BYTES_MAX, 2 * BYTES_MAX, 1_000_000]
        await asyncio.gather(
            *(web.receive(f"d{n}.test", size, most=size) for n, size in enumerate(sizes))
        )
        assert len(web.parsed) == 3
        assert web.most <= 2 * BYTES_MAX + 2 * LARGE_BYTES


async def test_slow_bodies_leave_places_to_others() -> None:
    """One that has sent little has little, whatever it may send yet."""
    async with JumpClock() as clock:
        web = Received(clock)
        slow = [
            asyncio.create_task(web.receive(f"slow{n}.test", PAGE, piece_s=1_000.0))
            for n in range(32)
        ]
        await clock.sleep_until(clock.monotonic() + 9_000)
        await asyncio.wait_for(web.receive("v.test", 2_000_000), 60)
        assert web.parsed == ["v.test"]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert web.bodies.size_bytes == 0


async def test_the_domain_that_had_least_is_next() -> None:
    async with JumpClock() as clock:
        web = Received(clock)
        many = [web.receive(f"d{n % 8}.test", PAGE, most=PAGE) for n in range(64)]
        tasks = [asyncio.create_task(body) for body in many]
        await clock.sleep_until(clock.monotonic() + 1)
        await web.receive("v.test", PAGE, most=PAGE)
        assert len(web.parsed) < 32
        await asyncio.gather(*tasks)


async def test_a_wait_is_limited() -> None:
    async with JumpClock() as clock:
        web = Received(clock, parsing_s=100.0, wait_s=5.0)
        first = asyncio.create_task(web.receive("d.test", PAGE))
        await clock.sleep_until(clock.monotonic() + 1)
        began_s = clock.monotonic()
        with pytest.raises(NoPlaceError):
            await web.receive("d.test", PAGE)
        assert clock.monotonic() - began_s < 6
        assert not web.waiting
        await first
        assert web.parsed == ["d.test"]
        await web.receive("d.test", PAGE)
        assert web.parsed == ["d.test", "d.test"]
