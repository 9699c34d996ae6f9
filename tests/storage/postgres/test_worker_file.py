"""What a worker that dies leaves on its machine, for the next one there."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

import pytest

from storage.postgres.database import WorkerFile
from storage.store import SUSPECT_REST_S, Store
from tests.storage.postgres.stores import assert_sound, link, one, store_at

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"courtly-{os.getuid()}"


def test_each_worker_has_a_file_of_its_own() -> None:
    first, second, other = WorkerFile("a"), WorkerFile("a"), WorkerFile("b")
    paths = [first.take(), second.take(), other.take()]
    assert None not in paths
    assert len(set(paths)) == 3
    first.release()
    third = WorkerFile("a")
    assert third.take() == paths[0], "that of a worker that is gone is taken over"
    for file in (second, other, third):
        file.release()


def test_a_folder_of_somebody_else_is_not_used(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder.parent / "real").mkdir()
    folder.symlink_to(folder.parent / "real")
    with caplog.at_level(logging.WARNING, "courtly.store"):
        assert WorkerFile("a").take() is None
    assert "belongs to another user" in caplog.text


def files_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.inflight"))


async def die(store: Store) -> None:
    """As by `kill -9`, as far as the file is concerned."""
    database = store._calls.database
    database._file.release()  # type: ignore[attr-defined]
    database.in_flight._fd = -1
    await store.close()


async def test_a_url_in_flight_at_two_deaths_is_quarantined(crawl_url: str) -> None:
    store = store_at(crawl_url)
    session = await store.open_session("first")
    await store.add([link("http://a.test/bad"), link("http://a.test/good")])
    (lease,) = await store.claim(session, hosts=1, urls_per_host=5)
    bad = next(queued for queued in lease.prefetched.urls if queued.url.endswith("bad"))
    for deaths in (1, 2):
        store.in_flight(bad.id)
        store.robots_in_flight("a.test", "http://a.test")
        await die(store)
        store = store_at(crawl_url)
        await store.open_session("next")
        failed = await one(crawl_url, "SELECT count(*) FROM failed")
        assert failed == deaths - 1
        rest_s = await one(
            crawl_url,
            "SELECT max(due_at) - extract(epoch FROM clock_timestamp())::float8 FROM queued",
        )
        assert (rest_s > SUSPECT_REST_S - 5.0) == (deaths == 1)
    assert (await one(crawl_url, "SELECT error FROM failed")).startswith("quarantined: ")
    assert await one(crawl_url, "SELECT error FROM robots") is not None
    await store.close()
    await assert_sound(crawl_url)


async def test_an_orderly_end_leaves_nothing(folder: Path, crawl_url: str) -> None:
    store = store_at(crawl_url)
    await store.open_session("first")
    store.in_flight(5)
    assert files_in(folder)
    await store.close()
    assert not files_in(folder)
