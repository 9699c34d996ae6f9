"""What was in flight when a process died: suspect once, quarantined twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from policies.quarantine import is_quarantined, is_suspect
from policies.robots_state import QUARANTINE_S, UNKNOWN, RobotsState
from storage.engine.in_flight import NOTHING_LEFT, InFlight
from storage.store import Revisited

if TYPE_CHECKING:
    from tests.storage.conftest import Rig

ORIGIN = "http://a.test"
URL, OTHER = "http://a.test/", "http://a.test/other"


def place(rig: Rig) -> Path:
    return rig.path.with_name(rig.path.name + ".inflight")


async def die(rig: Rig, *ids: int) -> None:
    """As a killed process: nothing is closed, the file stays."""
    for id_ in ids:
        rig.store.in_flight(id_)
    left = place(rig).read_bytes()
    await rig.close()
    place(rig).write_bytes(left)


async def reopened(rig: Rig, after_s: float = 3.5) -> list[tuple[str, bool]]:
    await rig.open()
    rig.wall_s += after_s
    return [(q.url, q.suspect) for lease in await rig.claim() for q in lease.prefetched.urls]


async def test_a_url_in_flight_at_two_deaths_is_quarantined(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL, OTHER)
    (lease,) = await rig.claim()
    ids = {queued.url: queued.id for queued in lease.prefetched.urls}
    await die(rig, ids[URL])
    assert await reopened(rig, 0.0) == [(OTHER, False)]  # it rests, as after a failure
    await die(rig)
    assert await reopened(rig) == [(URL, True), (OTHER, False)]
    await die(rig, ids[URL], ids[OTHER])
    assert await reopened(rig) == [(OTHER, True)]
    (failed,) = await rig.rows("failed")
    assert failed["url"] == URL
    assert str(failed["error"]).startswith("quarantined: ")
    assert await rig.store.retry_failed(code="http") == 0
    assert await rig.store.retry_failed(code="quarantined") == 1
    await die(rig)
    assert sorted(await reopened(rig)) == [(URL, False), (OTHER, True)]


async def test_an_outcome_ends_a_flight_and_all_suspicion(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL)
    (lease,) = await rig.claim()
    (queued,) = lease.prefetched.urls
    await die(rig, queued.id)
    await rig.open()
    rig.wall_s += 4
    (lease,) = await rig.claim()
    (queued,) = lease.prefetched.urls
    rig.store.in_flight(queued.id)
    await rig.commit(lease, rig.visited(queued, plan=rig.plan(1.0)), release=True)
    await die(rig)
    await rig.open()
    rig.wall_s += 5
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    done = await rig.commit(lease, want=5, revisits=True)
    (again,) = done.prefetched["a.test"].urls
    assert again.before is not None
    assert not again.suspect


async def test_a_visit_again_can_be_quarantined_as_well(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL)
    (lease,) = await rig.claim()
    (queued,) = lease.prefetched.urls
    await rig.commit(lease, rig.visited(queued, plan=rig.plan(1.0)), release=True)
    await die(rig, queued.id)
    await rig.open()
    rig.wall_s += 5
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    (again,) = (await rig.commit(lease, want=5, revisits=True)).prefetched["a.test"].urls
    assert again.suspect
    plan = rig.plan(1.0)
    waits = Revisited(id=again.id, slot="a.test", plan=plan, deferred=True)
    await rig.commit(lease, waits, release=True)
    await die(rig, again.id)
    await rig.open()
    assert await rig.urls("visited") == []
    assert await rig.urls("failed") == [URL]
    await rig.store.retry_failed()
    assert await rig.urls("queued") == [URL]


async def test_a_clean_end_leaves_nothing(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL)
    rig.store.in_flight(1)
    assert place(rig).exists()
    await rig.close()
    assert not place(rig).exists()
    assert await reopened(rig) == [(URL, False)]


async def robots(rig: Rig, origin: str = ORIGIN) -> RobotsState:
    found = await rig.store.robots_get(origin)
    assert found is not None
    return found


async def die_reading(rig: Rig, slot: str, *origins: str) -> None:
    for origin in origins:
        rig.store.robots_in_flight(slot, origin)
    await die(rig)
    await rig.open()


@pytest.mark.parametrize("known", [True, False])
async def test_a_robots_txt_in_flight_at_two_deaths_is_quarantined(
    sqlite_rig: Rig, known: bool
) -> None:
    rig = sqlite_rig
    await rig.add(URL)
    copy = RobotsState(status=200, body=b"Allow: /", copy_at=rig.wall_s, fetched_at=rig.wall_s)
    if known:
        await rig.store.robots_put(rig.session, "a.test", ORIGIN, copy)
    await die_reading(rig, "a.test", ORIGIN)
    suspect = await robots(rig)
    assert is_suspect(suspect)
    assert not is_quarantined(suspect)
    assert suspect == structs.replace(copy if known else UNKNOWN, error=suspect.error)
    await die_reading(rig, "a.test", ORIGIN)
    closed = await robots(rig)
    assert is_quarantined(closed)
    assert closed.body is None
    (row,) = await rig.rows("robots")
    assert row["state"] == "unreachable"
    assert str(row["error"]).startswith("quarantined: the process ended twice")

    assert await rig.store.robots_due(rig.session, limit=9) == []
    rig.wall_s += QUARANTINE_S + 1
    assert [due.origin for due in await rig.store.robots_due(rig.session, limit=9)] == [ORIGIN]
    await die_reading(rig, "a.test", ORIGIN)  # its time has passed, and it did it again
    assert is_quarantined(await robots(rig))
    assert await rig.store.robots_due(rig.session, limit=9) == []

    assert await rig.store.retry_failed(code="http") == 0
    assert await rig.store.retry_failed("b.test", "quarantined") == 0
    assert await rig.store.retry_failed("a.test", "quarantined") == 1
    assert await rig.store.retry_failed(code="quarantined") == 0
    assert not is_suspect(await robots(rig))
    assert [due.origin for due in await rig.store.robots_due(rig.session, limit=9)] == [ORIGIN]


async def test_a_robots_txt_that_was_done_with_is_no_suspect(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    rig.store.robots_in_flight("a.test", ORIGIN)
    rig.store.robots_not_in_flight("a.test", ORIGIN)
    await die(rig)
    await rig.open()
    assert await rig.store.robots_get(ORIGIN) is None


async def test_an_origin_that_is_new_gets_the_slot_it_was_noted_with(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    origin = "https://sub.example.test:8443"
    await die_reading(rig, "example.test", origin)
    lease = (await rig.store.acquire(rig.session, ["example.test"]))["example.test"]
    assert is_suspect(lease.robots[origin])


@pytest.mark.parametrize(
    "noted", ["a.test", "a.test ", " http://a.test", "a.test nonsense", "a.test http://A.test",
              "a.test http://a.test/x", "a.test \0", "\x1b[2J http://[::1", "x" * 600 + " http://a"],
)  # fmt: skip
async def test_nothing_that_is_noted_ends_a_start(sqlite_rig: Rig, noted: str) -> None:
    rig = sqlite_rig
    slot, _, origin = noted.partition(" ")
    await die_reading(rig, slot, origin)
    assert await rig.rows("robots") == []


async def test_a_death_is_counted_once(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL)
    rig.store.in_flight(1)
    left = place(rig).read_bytes()
    for _ in range(3):  # the file of the first session, whatever comes later
        await rig.close()
        place(rig).write_bytes(left)
        await rig.open()
    assert await rig.urls("failed") == []


@pytest.mark.parametrize("content", [b"", b"courtly1", b"courtly1" + b"\xff" * 100, b"x" * 9])
def test_any_content_is_survived(tmp_path: Path, content: bytes) -> None:
    database = tmp_path / "crawl.db"
    beside = tmp_path / "crawl.db.inflight"
    beside.write_bytes(content)
    flight = InFlight(database)
    flight.left()
    flight.begin(7)
    flight.add(1)
    flight.remove(1)
    flight.remove(2)
    flight.close()
    assert beside.exists() == (content == b"x" * 9)  # that one is not ours


def test_more_than_there_is_room_for(tmp_path: Path) -> None:
    flight = InFlight(tmp_path / "crawl.db")
    flight.left()
    flight.begin(7)
    for id_ in range(1, 10_000):
        flight.add(id_)
        flight.add(("a.test", f"http://a.test:{id_}"))
    again = InFlight(tmp_path / "crawl.db")
    left = again.left()
    assert left.session == 7
    assert len(left.urls) == 4_096
    assert len(left.robots) == 512
    for id_ in range(1, 10_000):
        flight.remove(id_)
        flight.remove(("a.test", f"http://a.test:{id_}"))
    assert again.left() == (7, (), ())
    again.close()
    flight.close()


def test_a_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "crawl.db.inflight").symlink_to(precious)
    flight = InFlight(tmp_path / "crawl.db")
    assert flight.left() == NOTHING_LEFT
    flight.begin(1)
    flight.add(1)
    flight.close()
    assert precious.read_text() == "precious"
    assert "will not be recognised" in caplog.text


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    os.umask(os.umask(0o022))
    flight = InFlight(tmp_path / "crawl.db")
    flight.left()
    assert (tmp_path / "crawl.db.inflight").stat().st_mode & 0o077 == 0
    flight.close()
