"""Any value in any argument of any method of the store: it costs what has it, and the store goes
on. Outcomes, links and copies are in `test_any_value`."""

from __future__ import annotations

import inspect
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from policies.robots_state import RobotsState
from storage.history import Mark, MarkKind
from storage.sqlite.maintenance import check
from storage.store import Batch, Blocked, Contact, HostClock, HostUpdate, Plan, Prefetch, Store
from tests.storage.conftest import Rig

NUMBERS = [2**63, -(2**63) - 1, 2**62, 2**53, 10**400, -1, math.nan, math.inf, -math.inf, 1e308]
TEXTS = ["\ud800", "a\udfffb", "\0", "a\0b", "x" * 1_000_000, "\x1b[2J", "", "http://\ud800.test"]
VALUES = st.sampled_from([*NUMBERS, *TEXTS])
GOOD = ["http://a.test/0", "http://a.test/1", "http://a.test/2"]
COPY = RobotsState(status=200, body=b"", fetched_at=1.8e9, expires_at=1.8e9 + 9)
# By their types these arguments are ours alone: flags, limits, sessions; or other tests have them.
ROOM = {
    "plan": ["id", *Plan.__struct_fields__],
    "rejudge": ["kept", "freed", *(n for n in Blocked.__struct_fields__ if n != "slot")],
    "fail_host": ["error", "attempts", "last_at", "origin", *HostClock.__struct_fields__],
    "complete": [
        "skipped", "count", "in_memory", "closed", *HostClock.__struct_fields__,
        *Contact.__struct_fields__,
    ],
    "robots_put": ["origin", *HostClock.__struct_fields__],
    "robots_get": ["origin"],
    "rejudge_done": ["origin"],
    "ungoverned": ["origin"],
    "blocked_by_robots": ["origin"],
    "acquire": ["slot"],
    "glance": ["slot"],
    "address_delay_s": ["address"],
    "retry_failed": ["host", "code"],
    "drop_failed": ["host", "code"],
    "put_history": ["reason", "sentence", "actor", "via"],  # the numbers are ours
    "set_controls": ["slot"],
    "name_session": ["name"],
    "open_session": ["name"],
    "in_flight": ["slot", "origin"],
}  # fmt: skip
CASES = st.sampled_from([(method, field) for method, fields in ROOM.items() for field in fields])


def test_every_method_is_looked_at() -> None:
    """A method that is new takes values, or is named here as one that takes none of others'."""
    ours = {
        "faults", "set_patience", "not_in_flight", "robots_in_flight", "robots_not_in_flight",
        "close", "add", "seeds", "claim", "robots_due", "revisits_due", "unplanned", "rejudge_due",
        "rejudge_all", "recheck_delays", "set_paused", "paused", "forget",
        "outlook", "stats", "shared", "pulse", "publish", "telemetry",
    }  # fmt: skip
    methods = {name for name, _ in inspect.getmembers(Store) if not name.startswith("_")}
    assert methods == ours | {*ROOM}


def update_with(slot: str, epoch: int, fields: Mapping[str, Any]) -> HostUpdate:
    clock = {k: v for k, v in fields.items() if k in HostClock.__struct_fields__}
    contact = {k: v for k, v in fields.items() if k in Contact.__struct_fields__}
    given: dict[str, Any] = {"start_at": 1.8e9, "end_at": 1.8e9 + 1, "kind": "page", "status": 200}
    return HostUpdate(
        slot=slot,
        epoch=epoch,
        clock=HostClock(**{"next_in_s": 5.0, "contacts": 4, **clock}),
        contacts=[Contact(**(given | contact))],
    )


async def call(rig: Rig, method: str, field: str, value: Any) -> None:
    store, session = rig.store, rig.session
    epoch = (await store.acquire(session, ["a.test"]))["a.test"].epoch
    one = {field: value}
    match method:
        case "plan":
            plan = structs.replace(rig.plan(1.0), **({} if field == "id" else one))
            await store.plan(session, {1: rig.plan(1.0), value if field == "id" else 2: plan})
        case "rejudge":
            block = structs.replace(rig.blocked(2), **({} if field in ("kept", "freed") else one))
            await store.rejudge(
                session,
                kept=[1, *([value] if field == "kept" else [])],
                withdrawn=[block],
                freed=[value] if field == "freed" else [],
            )
        case "fail_host":
            update = update_with("a.test", epoch, one)
            given: dict[str, Any] = {"error": "http: 500", "attempts": 2, "last_at": 1.8e9}
            given |= one if field in (*given, "origin") else {}
            await store.fail_host(session, update, **given)
        case "complete":
            want: dict[str, Any] = {"slot": "a.test", "count": 5}
            skipped = {"x": value if field == "count" else 1}
            if field in ("in_memory", "closed"):
                want[field] = [value]
            batch = Batch(
                hosts=[update_with("a.test", epoch, one)],
                skipped={value: 1} if field == "skipped" else skipped,
                prefetch=[Prefetch(**want)],
            )
            await store.complete(session, batch)
        case "robots_put":
            update = update_with("a.test", epoch, one)
            origin = value if field == "origin" else "http://a.test"
            await store.robots_put(session, "a.test", origin, COPY, also=update)
        case "glance":
            assert await store.glance(session, value) is None
            assert "b.test" in await store.acquire(session, ["b.test"])
        case "address_delay_s":
            assert await store.address_delay_s(value) == 0.0
        case "acquire":
            assert "b.test" in await store.acquire(session, ["b.test", value])
        case "retry_failed":
            await store.retry_failed(**one)
        case "drop_failed":
            await store.drop_failed(**one)
        case "put_history":
            mark = Mark(session=session, number=1, kind=MarkKind.HOLD, at=1.8e9, until=1.8e9)
            await store.put_history(session, [], [structs.replace(mark, **one)])
        case "set_controls":
            await store.set_controls([value], paused=True)
        case "name_session":
            await store.name_session(session, value)
        case "open_session":
            rig.session = await store.open_session(value)
        case "in_flight":
            slot, origin = (value, "http://x.test") if field == "slot" else ("x.test", value)
            store.robots_in_flight(slot, origin)
            store.robots_not_in_flight(slot, origin)
        case "blocked_by_robots":
            await store.blocked_by_robots(value, after=0, limit=5)
        case "ungoverned":
            await store.ungoverned(value, limit=5)
        case "rejudge_done":
            await store.rejudge_done(session, value)
        case "robots_get":
            await store.robots_get(value)


def fits(method: str, field: str, value: object) -> bool:
    """Whether the value is of a type that the argument can have at all."""
    texts = {
        "error", "origin", "slot", "host", "code", "name", "etag", "last_modified", "dialect",
        "rule", "robots_url", "reason", "delay_source", "kind", "skipped", "closed",
        "sentence", "actor", "via", "address",
    }  # fmt: skip
    return isinstance(value, str) == (field in texts)


@settings(
    max_examples=21,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(cases=st.lists(st.tuples(CASES, VALUES), min_size=1, max_size=3))
async def test_no_argument_ends_the_store(cases: list[tuple[tuple[str, str], object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = await Rig("sqlite", Path(folder) / "crawl.db").open()
        for (method, field), value in cases:
            if not fits(method, field, value):
                continue
            await rig.add(f"{GOOD[0]}/{method}")  # there is work
            await call(rig, method, field, value)
            rig.wall_s += 1e9 if rig.wall_s < 5e9 else 1e4
            await rig.crash()
        lease = (await rig.store.acquire(rig.session, ["c.test"]))["c.test"]
        await rig.commit(lease, release=True)
        assert check(rig.path) == []
        for view in ("visited", "blocked", "failed", "queued", "hosts", "robots", "skipped"):
            await rig.rows(view)
        await rig.store.stats()
        await rig.close()


@pytest.mark.parametrize("bad", ["a \ud800", 2**70])
async def test_what_has_a_bad_value_is_blocked_and_fails_all_the_same(
    sqlite_rig: Rig, bad: Any
) -> None:
    rig = sqlite_rig
    await rig.add(*GOOD)
    lease = await rig.claim_one()
    ids = {queued.url: queued for queued in lease.prefetched.urls}
    pages = [rig.visited(ids[url], ungoverned=True) for url in GOOD[:2]]
    await rig.commit(lease, *pages)
    words = {"rule": bad} if isinstance(bad, str) else {"line": bad}
    block = rig.blocked(ids[GOOD[0]], **words)
    await rig.store.rejudge(rig.session, kept=[ids[GOOD[1]].id], withdrawn=[block], freed=[2**70])
    assert await rig.urls("visited") == [GOOD[1]]
    (row,) = await rig.rows("blocked")
    assert (row["url"], row["withdrawn"], row["rule"]) == (GOOD[0], 1, None)
    assert await rig.store.ungoverned("http://a.test", limit=9) == []

    update = HostUpdate(slot="a.test", epoch=lease.epoch, clock=HostClock(contacts=3))
    values = {"error": bad, "attempts": 1} if isinstance(bad, str) else {
        "error": "http: x", "attempts": bad,
    }  # fmt: skip
    assert await rig.store.fail_host(rig.session, update, last_at=1.8e9, **values) == 1
    (failed,) = await rig.rows("failed")
    assert failed["url"] == GOOD[2]
    assert str(failed["error"]).startswith("internal: ")
    (host,) = await rig.rows("hosts")
    assert host["contacts"] == 3


async def test_a_host_whose_wait_cannot_be_stored_is_not_hurried(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(*GOOD)
    lease = await rig.claim_one()
    clock = HostClock(next_in_s=60.0, contacts=2**70, delay_source="\ud800")
    await rig.commit(lease, clock=clock, release=True)
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    assert lease.clock.next_in_s == pytest.approx(60.0)
