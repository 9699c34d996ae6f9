"""A rest that passes from one worker to another: steps of the server's clock, of any size, neither
shorten it nor hide that it was kept."""

from __future__ import annotations

import time

import asyncpg
import pytest

from storage.postgres.server_time import ServerTime
from storage.records import Batch, HostClock, HostUpdate
from storage.store import Lease
from tests.storage.postgres.stores import link, store_at

REST_S = 2.0
BACKOFF_S = 3_600.0


def on_machine(name: str) -> ServerTime:
    """The time of a worker on a machine of its own."""
    server_time = ServerTime(time.time)
    server_time._boot = name
    return server_time


async def step(url: str, by_s: float) -> None:
    """For everyone who reads it, the server's clock is set."""
    db = await asyncpg.connect(url)
    await db.execute("UPDATE crawl SET shift_s = shift_s + $1", by_s)
    await db.execute("UPDATE slots SET ready_at = 0.0")  # so that they are claimed, early or not
    await db.close()


def release(lease: Lease) -> Batch:
    clock = HostClock(
        next_in_s=REST_S, rested_s=0.0, delay_s=REST_S, backoff_in_s=BACKOFF_S, contacts=1
    )
    update = HostUpdate(slot=lease.slot, epoch=lease.epoch, clock=clock, release=True)
    return Batch(hosts=[update])


@pytest.mark.parametrize("other", ["the same machine", "another"])
@pytest.mark.parametrize("by_s", [0.90, 0.95, -0.95, 5.0, -30 * 86_400.0, 30 * 86_400.0])
async def test_no_step_shortens_a_rest_or_lengthens_it_by_more_than_a_look(
    crawl_url: str, by_s: float, other: str
) -> None:
    first = store_at(crawl_url, time=on_machine("the same machine"))
    second = store_at(crawl_url, time=on_machine(other))
    one, two = await first.open_session("one"), await second.open_session("two")
    await first.add([link("http://a.test/")])
    (lease,) = await first.claim(one, hosts=1, urls_per_host=1)
    began_s = time.monotonic()
    await first.complete(one, release(lease))
    await second.acquire(two, ["b.test"])  # any transaction sees the newest tick
    looked_s = time.monotonic()
    await step(crawl_url, by_s)
    asked_s = time.monotonic()
    (lease,) = await second.claim(two, hosts=1, urls_per_host=1)
    passed_s = time.monotonic() - began_s
    clock = lease.clock
    assert lease.clean
    assert REST_S - passed_s <= clock.next_in_s <= REST_S - (asked_s - looked_s)
    assert BACKOFF_S - passed_s <= clock.backoff_in_s <= BACKOFF_S - (asked_s - looked_s)
    assert clock.rested_s is not None
    assert asked_s - looked_s <= clock.rested_s <= passed_s
    await first.close(one)
    await second.close(two)
