"""Any value in any field of what is stored: the good is stored, and all of it can be read again."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from policies.robots_state import RobotsState
from storage.sqlite.maintenance import check
from storage.store import Batch, HostClock, HostUpdate, Prefetch
from tests.storage.conftest import Rig

if TYPE_CHECKING:
    from storage.store import Outcome, Queued

GOOD = [f"http://a.test/good-{n}" for n in range(3)]
NUMBERS = [2**63, -(2**63) - 1, 2**62, 2**53, 10**400, -1, math.nan, math.inf, -math.inf, 1e308]
TEXTS = ["\ud800", "a\udfffb", "\0", "a\0b", "é" * 10, "x" * 10_000_000, "\x1b[2J", ""]
WRONG = [object(), [1], {"a": 1}, b"\xff"]


def answered() -> RobotsState:
    return RobotsState(status=200, body=b"User-agent: *\n", fetched_at=1.8e9, expires_at=1.8e9 + 9)


VALUES = st.sampled_from([*NUMBERS, *TEXTS, *WRONG, None, True])
FIELDS = {
    "visited": ["status", "fetched_at", "content_type", "body_bytes", "elapsed_s",
                "title", "canonical_url", "body_hash", "usage", "redirect_url", "links", "outlinks",
                "indexable", "plan"],
    "blocked": ["reason", "dialect", "rule", "line", "robots_url", "blocked_at"],
    "failed": ["error", "attempts", "last_at"],
    "retry": ["due_in_s", "attempts", "refusals", "error"],
    "read": ["status", "fetched_at", "kind", "body_bytes", "urls", "error"],
    "link": ["depth", "priority", "anchor", "hops", "requisite_depth", "again_before", "listing"],
    "plan": ["due_in_s", "interval_s", "checked_at", "changed_at", "visits", "failures", "etag",
             "last_modified"],
}  # fmt: skip
CASES = st.sampled_from([(kind, field) for kind, names in FIELDS.items() for field in names])


def outcome_with(rig: Rig, kind: str, field: str, value: object, queued: Queued) -> Outcome:
    if kind == "link":
        link = structs.replace(rig.link("http://a.test/linked", depth=1), **{field: value})
        return rig.visited(queued, links=[link])
    if kind == "plan":
        plan = structs.replace(rig.plan(1.0), **{field: value})
        return rig.visited(queued, plan=plan)
    make: dict[str, Any] = {
        "visited": rig.visited, "blocked": rig.blocked, "failed": rig.failed,
        "retry": lambda queued: rig.retry(queued, 1.0), "read": rig.read,
    }  # fmt: skip
    return structs.replace(make[kind](queued), **{field: value})


@settings(
    max_examples=12,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(cases=st.lists(st.tuples(CASES, VALUES), min_size=1, max_size=4))
async def test_no_value_in_any_field_ends_a_crawl(
    cases: list[tuple[tuple[str, str], object]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = await Rig("sqlite", Path(folder) / "crawl.db").open()
        bad = [f"http://a.test/bad-{n}" for n in range(len(cases))]
        await rig.add(GOOD[0], *bad, GOOD[1])
        lease = await rig.claim_one(20)
        ids = {queued.url: queued for queued in lease.prefetched.urls}
        outcomes: list[Outcome] = [
            outcome_with(rig, kind, field, value, ids[url])
            for url, ((kind, field), value) in zip(bad, cases, strict=True)
        ]
        await rig.commit(
            lease, rig.visited(ids[GOOD[0]]), *outcomes, rig.visited(ids[GOOD[1]]), want=5
        )
        assert set(await rig.urls("visited")) >= {GOOD[0], GOOD[1]}
        rig.wall_s += 1e6
        await rig.crash()  # whatever was stored can be read again
        assert check(rig.path) == []
        rig.wall_s += 1e6
        for again in await rig.claim(10, 20):
            update = HostUpdate(slot=again.slot, epoch=again.epoch, clock=HostClock())
            want = Prefetch(slot=again.slot, count=20, revisits=True)
            await rig.store.complete(rig.session, Batch(hosts=[update], prefetch=[want]))
        await rig.store.outlook(rig.session)
        await rig.store.revisits_due(rig.session, limit=9)
        await rig.store.stats()
        for view in ("visited", "blocked", "failed", "queued", "sitemaps", "links", "hosts"):
            await rig.rows(view)
        await rig.close()


@settings(
    max_examples=12,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(field=st.sampled_from(RobotsState.__struct_fields__), value=VALUES)
async def test_no_value_of_a_robots_copy_ends_a_crawl(field: str, value: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = await Rig("sqlite", Path(folder) / "crawl.db").open()
        await rig.add(*GOOD)
        copy = structs.replace(answered(), **{field: value})
        await rig.store.robots_put(rig.session, "a.test", "http://a.test", copy)
        rig.wall_s += 1e6
        await rig.crash()
        await rig.store.robots_get("http://a.test")
        await rig.store.robots_due(rig.session, limit=9)
        await rig.store.outlook(rig.session)
        (lease,) = await rig.claim()
        assert len(lease.prefetched.urls) == len(GOOD)
        await rig.rows("robots")
        await rig.close()
