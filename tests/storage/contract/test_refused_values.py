"""Values that no database takes cost the URL, link or robots.txt that has them, and no more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import structs

from policies.robots_state import RobotsState
from storage.store import HostClock, HostUpdate, Outlink
from tests.storage.conftest import Rig

if TYPE_CHECKING:
    from storage.store import Outcome

GOOD = [f"http://a.test/good-{n}" for n in range(3)]
BAD = "http://a.test/bad"


async def poisoned(rig: Rig, bad: Outcome) -> None:
    """Commit it between good outcomes; the host's clock, and what it wants next, count as well."""
    lease = await rig.claim_one()
    ids = {queued.url: queued for queued in lease.prefetched.urls}
    bad = structs.replace(bad, id=ids[BAD].id)
    good = [rig.visited(ids[url], links=[f"{url}/found"]) for url in GOOD]
    done = await rig.commit(
        lease, good[0], good[1], bad, good[2], clock=HostClock(contacts=4), want=10
    )
    assert {q.url for q in done.prefetched["a.test"].urls} >= {f"{url}/found" for url in GOOD}
    assert set(await rig.urls("visited")) >= set(GOOD)
    (host,) = await rig.rows("hosts")
    assert host["contacts"] == 4


BAD_OUTCOMES: dict[str, Any] = {
    "body-size": lambda rig: rig.visited(1, body_bytes=2**63),
    "title": lambda rig: rig.visited(1, title="a \ud800 b"),
    "time": lambda rig: rig.visited(1, fetched_at=math.inf),
    "type": lambda rig: rig.visited(1, content_type="text/\udc80"),
    "link": lambda rig: rig.visited(1, links=["http://a.test/\ud800", "http://a.test/fine"]),
    "anchor": lambda rig: rig.visited(1, outlinks=[Outlink("http://b.test/", "\ud800", None)]),
    "depth": lambda rig: rig.visited(1, links=[rig.link("http://a.test/x", depth=2**63)]),
    "error": lambda rig: rig.failed(msgspec.convert({"id": 1}, Key), error="http: \ud800"),
    "rule": lambda rig: rig.blocked(1, rule="Disallow: /\ud800"),
    "line": lambda rig: rig.blocked(1, line=2**63),
    "null": lambda rig: rig.visited(1, elapsed_s=math.nan),
    "not-text": lambda rig: rig.visited(1, title={"a": 1}),
}


class Key(msgspec.Struct):
    id: int


@pytest.mark.parametrize("which", BAD_OUTCOMES)
async def test_a_bad_outcome_costs_its_url_alone(
    rig: Rig, which: str, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.add(*GOOD, BAD)
    await poisoned(rig, BAD_OUTCOMES[which](rig))
    if rig.kind == "memory":
        return  # it takes everything
    (failed,) = await rig.rows("failed")
    assert failed["url"] == BAD
    assert str(failed["error"]).startswith("internal: ")
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert record.exc_info is not None
    await rig.crash()
    assert await rig.store.retry_failed(code="internal") == 1
    assert BAD in await rig.urls("queued")


async def test_a_visit_again_that_cannot_be_stored_leaves_the_page(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(BAD)
    lease = await rig.claim_one()
    (queued,) = lease.prefetched.urls
    await rig.commit(lease, rig.visited(queued, plan=rig.plan(1.0), title="first"))
    rig.wall_s += 5
    again = rig.visited(queued, again=True, plan=rig.plan(1.0), title="\ud800")
    done = await rig.commit(lease, again, want=5, revisits=True)
    assert done.prefetched["a.test"].urls == []
    (page,) = await rig.rows("visited")
    assert page["title"] == "first"


async def test_a_bad_link_is_left_out(rig: Rig) -> None:
    done = await rig.store.add(
        [
            rig.link(GOOD[0]),
            rig.link("http://a.test/\ud800"),
            rig.link(GOOD[1], depth=2**63),
            rig.link(GOOD[2]),
        ]
    )
    queued = await rig.urls("queued")
    assert {GOOD[0], GOOD[2]} <= set(queued)
    if rig.kind == "sqlite":
        assert queued == [GOOD[0], GOOD[2]]
        assert done.added == {"a.test": 2}


def answered(**values: Any) -> RobotsState:
    fields: dict[str, Any] = {
        "status": 200, "body": b"User-agent: *\n", "fetched_at": 1.8e9, "expires_at": 1.8e9 + 9,
    }  # fmt: skip
    return structs.replace(RobotsState(), **(fields | values))


@pytest.mark.parametrize(
    "bad", [{"validators_url": "http://a.test/\ud800"}, {"status": 2**63}, {"etag": "\udfff"}]
)
async def test_a_bad_robots_copy_is_refused(rig: Rig, bad: dict[str, Any]) -> None:
    await rig.add(*GOOD)
    lease = await rig.claim_one()
    update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(contacts=1))
    links = [rig.link("http://a.test/map", sitemap=True), rig.link("http://a.test/\ud800")]
    done = await rig.store.robots_put(
        rig.session, "a.test", "http://a.test", answered(**bad), also=update, links=links
    )
    assert "http://a.test/map" in await rig.urls("queued")
    if rig.kind == "sqlite":
        assert done.refused is not None
        assert await rig.store.robots_get("http://a.test") is None
    (host,) = await rig.rows("hosts")
    assert host["contacts"] == 1
    good = await rig.store.robots_put(rig.session, "a.test", "http://a.test", answered())
    assert good.refused is None
