"""A small database in memory, for commands that read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from policies.robots_state import RobotsState
from storage.sqlite import memory_store
from storage.store import (
    Batch,
    Blocked,
    BlockReason,
    Contact,
    Failed,
    HostClock,
    HostUpdate,
    Link,
    Malformed,
    Outlink,
    Pointer,
    Prefetch,
    Retry,
    Store,
    Visited,
)

NOW_S = 1_800_000_000.0
ROBOTS = b"User-agent: *\nDisallow: /private/ # keep out\nAllow: /private/open\n"


def link(url: str, *, host: str = "a.test", seed: bool = False, anchor: str | None = None) -> Link:
    return Link(url=url, slot=host, host=host, depth=0 if seed else 1, seed=seed, anchor=anchor)


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """http://a.test/ is visited (with a hostile title); other pages are blocked, failed, queued."""
    store = memory_store(wall=lambda: NOW_S)
    session = await store.open_session("test")
    await store.add([link("http://a.test/", seed=True)])
    (lease,) = await store.claim(session, hosts=1, urls_per_host=9)
    update = HostUpdate(
        slot="a.test",
        epoch=lease.epoch,
        clock=HostClock(
            next_in_s=30,
            delay_s=2.5,
            delay_source="Crawl-delay",
            latency_s=0.125,
            contacts=2,
            smallest_rest_s=2.5,
        ),
        contacts=[Contact(start_at=NOW_S - 2, end_at=NOW_S - 1.5, kind="page", status=200)],
    )
    page = Visited(
        id=lease.prefetched.urls[0].id,
        slot="a.test",
        status=200,
        fetched_at=NOW_S,
        content_type="text/html",
        body_bytes=1500,
        elapsed_s=0.5,
        title='=cmd("x")\x1b[31m, 題名',
        followable=False,
        links=[
            link("http://a.test/private/x", anchor="keep\x9bout"),
            link("http://a.test/broken"),
            link("http://a.test/later"),
        ],
        outlinks=[Outlink("http://a.test/broken", "=broken()", None)],
        malformed=[Malformed("hhttp://\x1b[31m", "scheme")],
        pointers=[Pointer("http://a.test/broken", "=a\x1b", None)],
    )
    done = await store.complete(
        session,
        Batch(
            outcomes=[page],
            hosts=[update],
            skipped={"max_depth": 1200, "nofollow": 3},
            prefetch=[Prefetch(slot="a.test", count=9)],
        ),
    )
    ids = {
        queued.url.partition("a.test/")[2]: queued.id for queued in done.prefetched["a.test"].urls
    }
    outcomes = [
        Blocked(
            id=ids["private/x"],
            slot="a.test",
            reason=BlockReason.ROBOTS,
            dialect="slurp",
            rule="Disallow: /private/",
            line=2,
            robots_url="http://a.test/robots.txt",
            blocked_at=NOW_S,
        ),
        Failed(
            id=ids["broken"],
            slot="a.test",
            error="timeout: no answer in 30 s",
            attempts=3,
            last_at=NOW_S,
        ),
        Retry(
            id=ids["later"],
            slot="a.test",
            due_in_s=60,
            attempts=1,
            refusals=0,
            error="http: status 500",
        ),
    ]
    await store.complete(session, Batch(outcomes=outcomes, hosts=[update]))
    copy = RobotsState(
        status=200, body=ROBOTS, copy_at=NOW_S, fetched_at=NOW_S, expires_at=NOW_S + 86_400
    )
    await store.robots_put(session, "a.test", "http://a.test", copy)
    yield store
    await store.close(session)
