"""`courtly retry quarantined` affects only URLs that were in flight when the process died twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import CliRunner

from crawler.cli import main
from storage.sqlite import file_store
from storage.store import Link


async def _die(path: Path, *urls: str, times: int) -> None:
    for _ in range(times):
        store = file_store(path, wall=lambda: 1.8e9)
        await store.open_session("test")
        await store.add([Link(url=url, slot="a.test", host="a.test", depth=0) for url in urls])
        store.in_flight(1)
        beside = path.with_name(path.name + ".inflight")
        left = beside.read_bytes()
        await store.close()
        beside.write_bytes(left)


async def _open(path: Path) -> None:
    store = file_store(path, wall=lambda: 1.8e9)
    await store.open_session("test")
    await store.close()


def test_retry_quarantined(tmp_path: Path) -> None:
    path = tmp_path / "crawl.db"
    asyncio.run(_die(path, "http://a.test/1", "http://a.test/2", times=2))

    def said(*arguments: str) -> str:
        return CliRunner().invoke(main, [*arguments, "--db", str(path)]).output

    asyncio.run(_open(path))
    why = said("why", "http://a.test/1")
    assert "quarantined" in why
    assert "1 quarantined URL queued again" in said("retry", "quarantined")
    assert "no URL is quarantined" in said("retry", "quarantined")
