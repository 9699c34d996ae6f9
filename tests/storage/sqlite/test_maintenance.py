"""What `courtly db` says of a file: how large it is, what is wrong with it, how it gets smaller."""

from __future__ import annotations

import re
import sqlite3

import pytest

from policies.robots_state import RobotsState
from storage.sqlite import file_store
from storage.sqlite.maintenance import check, info, vacuum
from storage.store import Link, StoreError, StoreRefused


async def filled(rig):
    """Two URLs in every state, and a redirect."""
    await rig.add("http://a.test/", seed=True, data='{"id":1}')
    lease = await rig.claim_one(1)
    names = ["f1", "f2", "b1", "b2", "q1", "q2", "r"]
    await rig.commit(
        lease,
        rig.visited(
            lease.prefetched.urls[0],
            title="Home",
            links=[f"http://a.test/{name}" for name in names],
        ),
    )
    hand = (await rig.commit(lease, want=20)).prefetched["a.test"].urls
    by = {queued.url.rpartition("/")[2]: queued for queued in hand}
    await rig.commit(
        lease, rig.failed(by["f1"]), rig.failed(by["f2"]), rig.blocked(by["b1"]),
        rig.blocked(by["b2"]), rig.redirect(by["r"], "http://a.test/q1", ungoverned=True),
        rig.retry(by["q2"], 60.0),
    )  # fmt: skip
    copy = RobotsState(status=200, body=b"", fetched_at=rig.wall_s, expires_at=rig.wall_s + 9)
    before = RobotsState(status=200, body=b"User-agent: *\n", copy_at=0.5, fetched_at=0.5)
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", before)
    await rig.store.robots_put(rig.session, "a.test", "http://a.test", copy)


async def test_info_tells_what_is_in_a_database(sqlite_rig):
    await filled(sqlite_rig)
    found = info(sqlite_rig.path)
    assert (found.urls, found.visited, found.blocked, found.failed, found.queued) == (8, 2, 2, 2, 2)
    assert (found.hosts, found.origins, found.robots_copies) == (1, 1, 1)
    assert found.bytes > 4096
    assert found.bytes_per_url == found.bytes / 8
    (session,) = found.sessions
    assert (session.id, session.name, session.ended_at) == (1, "test", None)
    assert session.began_at == found.last_at == sqlite_rig.wall_s
    await sqlite_rig.store.close()
    sqlite_rig.wall_s += 5
    await sqlite_rig.crash()
    newest, oldest = info(sqlite_rig.path).sessions
    assert (newest.id, newest.ended_at) == (2, None)
    assert oldest.ended_at == newest.began_at - 5


async def test_a_new_database_has_nothing_in_it(sqlite_rig):
    found = info(sqlite_rig.path)
    assert found.urls == 0
    assert found.bytes_per_url is None
    assert check(sqlite_rig.path) == []


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        ("UPDATE urls SET state = 1 WHERE state = 3", "2 URLs are visited without a page"),
        ("UPDATE urls SET state = 0 WHERE state = 1", "have a page without being visited"),
        ("DELETE FROM pages", "2 URLs are visited without a page"),
        (
            "INSERT INTO pages VALUES (99, 1, 0, 0, 0, NULL, NULL, NULL)",
            "1 pages belong to no URL",
        ),
        ("DELETE FROM blocks", "2 URLs are blocked without a verdict"),
        ("DELETE FROM failures", "2 URLs failed without an error"),
        ("DELETE FROM tries", "marked as tried without a count of tries"),
        ("UPDATE urls SET due_at = 1.0 WHERE state = 3", "2 URLs wait for a retry"),
        ("UPDATE origins SET visited = 5", "origin http://a.test: visited is 5, but counted 2"),
        ("UPDATE origins SET judged = 1", "origin http://a.test: judged is 1, but counted 2"),
        ("UPDATE origins SET ungoverned = 0", "ungoverned is 0, but counted 1"),
        ("UPDATE slots SET queued = 1", "host a.test: queued is 1, but its origins say 2"),
        ("UPDATE slots SET body_bytes = 1", "host a.test: body_bytes is 1, but"),
        ("UPDATE slots SET pending = 0", "1 hosts are marked as having queued URLs"),
        ("UPDATE origins SET governs = 0", "1 origins are marked as having work"),
        ("DELETE FROM known WHERE id = 1", "1 URLs cannot be found by their fingerprint"),
        ("UPDATE known SET id = -id WHERE id = 2", "1 fingerprints lead to the wrong URL"),
        ("UPDATE redirects SET target = 99", "1 redirects lead to no URL"),
        ("UPDATE pages SET kind = 99", "table pages: row .* refers to a row of kinds"),
        ("UPDATE failures SET error = 99", "table failures: row .* refers to a row of texts"),
        ("UPDATE urls SET referrer = 99 WHERE id = 3", "1 URLs were found on pages that are not"),
        ("INSERT INTO seeds VALUES (99)", "1 seeds are no URLs"),
        ("INSERT INTO edges VALUES (1, 99, NULL, NULL)", "1 links belong to no page, or lead"),
        ("UPDATE pages SET canonical = 99 WHERE id = 1", "1 pages call no URL canonical"),
    ],
)
async def test_check_finds_what_is_wrong(sqlite_rig, harm, sentence):
    await filled(sqlite_rig)
    assert check(sqlite_rig.path) == []
    db = sqlite3.connect(sqlite_rig.path)
    db.execute("SAVEPOINT harmed")
    db.execute(harm)
    db.execute("COMMIT")
    found = check(sqlite_rig.path)
    assert any(re.search(sentence, each) for each in found), found
    db.close()
    await sqlite_rig.store.close()
    for part in sqlite_rig.path.parent.iterdir():  # the rig looks after what a test leaves
        part.unlink()
    await sqlite_rig.crash()


async def test_check_finds_damage(tmp_path):
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: 1.0)
    await store.open_session("test")
    await store.close()
    with path.open("r+b") as file:
        file.seek(5 * 4096)
        file.write(b"\xa5" * 8 * 4096)
    assert any("SQLite" in each or "damaged" in each for each in check(path))


async def test_vacuum_gives_room_back_and_changes_nothing(tmp_path):
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: 1.0)
    await store.open_session("test")
    await store.add(
        [Link(url=f"http://a.test/{n}", slot="a.test", host="a.test", depth=0) for n in range(9000)]
    )
    with pytest.raises(StoreRefused, match="in use by process"):
        vacuum(path)
    await store.close()
    db = sqlite3.connect(path)
    db.executescript("CREATE TABLE junk (x); INSERT INTO junk VALUES (zeroblob(500000));")
    db.executescript("DROP TABLE junk;")
    db.close()
    assert info(path).free_bytes >= 500_000

    before, after = vacuum(path)
    assert before - after >= 500_000
    assert after == path.stat().st_size
    assert info(path).free_bytes == 0
    assert info(path).queued == 9000
    assert check(path) == []
    assert not path.with_name("crawl.db.lock").exists()


async def test_vacuum_gives_up_while_others_read(tmp_path, monkeypatch):
    monkeypatch.setattr("storage.sqlite.maintenance.LOCK_WAIT_S_MAX", 1.0)
    path = tmp_path / "crawl.db"
    store = file_store(path, wall=lambda: 1.0)
    await store.open_session("test")
    await store.close()
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM urls").fetchone()
    store = file_store(path, wall=lambda: 2.0)
    await store.open_session("test")  # writes, so that the reader's WAL frames count
    await store.close()
    with pytest.raises(StoreError, match="in use by another program"):
        vacuum(path)
    reader.execute("COMMIT")
    reader.close()
    vacuum(path)


def test_what_is_not_ours_is_refused(tmp_path):
    path = tmp_path / "other.db"
    path.write_bytes(b"no database " * 50)
    for work in (info, check, vacuum):
        with pytest.raises(StoreRefused, match="not an SQLite database"):
            work(path)
    assert [one.name for one in tmp_path.iterdir()] == ["other.db"]
