"""What was in flight when a process died: suspect once, quarantined twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage.base import Revisited
from storage.sqlite.in_flight import InFlight

if TYPE_CHECKING:
    from tests.storage.conftest import Rig

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
    return [(q.url, q.suspect) for lease in await rig.claim() for q in lease.hand.urls]


async def test_a_url_in_flight_at_two_deaths_is_quarantined(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL, OTHER)
    (lease,) = await rig.claim()
    ids = {queued.url: queued.id for queued in lease.hand.urls}
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
    (queued,) = lease.hand.urls
    await die(rig, queued.id)
    await rig.open()
    rig.wall_s += 4
    (lease,) = await rig.claim()
    (queued,) = lease.hand.urls
    rig.store.in_flight(queued.id)
    await rig.commit(lease, rig.visited(queued, plan=rig.plan(1.0)), release=True)
    await die(rig)
    await rig.open()
    rig.wall_s += 5
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    done = await rig.commit(lease, want=5, revisits=True)
    (again,) = done.hands["a.test"].urls
    assert again.before is not None
    assert not again.suspect


async def test_a_visit_again_can_be_quarantined_as_well(sqlite_rig: Rig) -> None:
    rig = sqlite_rig
    await rig.add(URL)
    (lease,) = await rig.claim()
    (queued,) = lease.hand.urls
    await rig.commit(lease, rig.visited(queued, plan=rig.plan(1.0)), release=True)
    await die(rig, queued.id)
    await rig.open()
    rig.wall_s += 5
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    (again,) = (await rig.commit(lease, want=5, revisits=True)).hands["a.test"].urls
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
    again = InFlight(tmp_path / "crawl.db")
    session, ids = again.left()
    assert session == 7
    assert len(ids) == 4_096
    for id_ in range(1, 10_000):
        flight.remove(id_)
    assert again.left()[1] == []
    again.close()
    flight.close()


def test_a_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "crawl.db.inflight").symlink_to(precious)
    flight = InFlight(tmp_path / "crawl.db")
    assert flight.left() == (0, ())
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
