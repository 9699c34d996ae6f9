"""What takes long waits until the network has been looked at; nobody is passed over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crawler.network_first import AT_ONCE_MAX, WAITING_BYTES_MAX, NetworkFirst
from crawler.testing import Reply, html

if TYPE_CHECKING:
    from crawler.request import Request
    from storage.base import Outcome
    from tests.conftest import World

HOSTS = 30


class Passes:
    """Numbers the passes of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._turn()

    def _turn(self) -> None:
        self.number += 1
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    def stop(self) -> None:
        self._handle.cancel()


async def test_what_is_ready_to_run_runs_before() -> None:
    first = NetworkFirst()
    done: list[str] = []

    async def compute(name: str) -> None:
        await first.wait(1)
        done.append(name)

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(compute(name))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(done.append, "contact")
    assert done == ["contact", "a", "b"]


async def test_all_go_in_order_and_few_in_one_pass() -> None:
    first, passes = NetworkFirst(), Passes()
    went: list[tuple[int, int]] = []

    async def compute(number: int) -> None:
        await first.wait(1)
        went.append((number, passes.number))

    async with asyncio.TaskGroup() as group:
        for number in range(200):
            group.create_task(compute(number))
    passes.stop()
    assert [number for number, _ in went] == list(range(200))
    in_one = [sum(at == one for _, at in went) for one in {at for _, at in went}]
    assert max(in_one) <= AT_ONCE_MAX


async def test_one_that_is_cancelled_holds_nobody_up() -> None:
    first = NetworkFirst()
    waiting = [asyncio.create_task(first.wait(1)) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[2].cancel()
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, False, True, False]
    await first.wait(1)


async def test_too_much_to_be_read_is_waited_for() -> None:
    first = NetworkFirst()
    half = WAITING_BYTES_MAX // 2 + 1
    await asyncio.wait_for(first.room(), 1)
    pages = [asyncio.create_task(first.wait(half)) for _ in range(2)]
    await asyncio.sleep(0)
    outside = [asyncio.create_task(first.room()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in outside)
    outside[0].cancel()
    await asyncio.gather(*pages)
    await asyncio.wait_for(outside[1], 1)
    await asyncio.wait_for(first.room(), 1)


class Order:
    """An Observer and a web that note when pages were read and when they were asked for."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def __call__(self, request: Request) -> Reply:
        url = request.url
        self.events.append(("asked", url))
        if url.endswith("/robots.txt"):
            return html("no robots.txt")
        return html("Page")

    def contacted(self, seen: object) -> None: ...

    def settled(self, url: str, outcome: Outcome) -> None:
        self.events.append(("read", url))

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None: ...


async def test_the_next_requests_go_out_before_the_pages_of_the_last_are_read(world: World) -> None:
    """All hosts answer at once: none waits for the pages of the others."""
    order = Order()
    seeds = [f"http://h{n}.test/{page}" for n in range(HOSTS) for page in (0, 1)]
    crawled = await world.crawl(
        order, *seeds, observer=order, politeness={"delay": 0, "latency_factor": 0}
    )
    assert len(crawled.urls("visited")) == len(seeds)
    pages = [event for event in order.events if not event[1].endswith("robots.txt")]
    first_waves = [kind for kind, _ in pages[: 2 * HOSTS]]
    assert first_waves.count("asked") == 2 * HOSTS


async def test_max_pages_per_host_counts_pages_that_wait_to_be_read(world: World) -> None:
    order = Order()
    seeds = [f"http://h{n}.test/{page}" for n in range(HOSTS) for page in range(4)]
    crawled = await world.crawl(
        order,
        *seeds,
        politeness={"delay": 0, "latency_factor": 0},
        scope={"max_pages_per_host": 2},
    )
    assert len(crawled.urls("visited")) == 2 * HOSTS
    asked = [url for kind, url in order.events if kind == "asked" and url[-1] != "t"]
    assert len(asked) == 2 * HOSTS
