"""A daemon on a database that it shares: it shows all workers, and measures the database."""

from __future__ import annotations

import asyncio
import re

import pytest

from crawler.console import overview_page
from crawler.testing import LocalWeb
from tests.crawler.daemon.conftest import Start
from tests.postgres_server import PostgresServer


async def test_the_workers_of_a_crawl(start: Start, town: LocalWeb, postgres_url: str) -> None:
    async with start("a.test", url=postgres_url) as one, start("b.test", url=postgres_url) as two:
        status = await one.until(lambda status: len(status["workers"]) == 2)
        first, second = status["workers"]
        assert first["here"]
        assert not second["here"]
        assert [one["here"] for one in (await two.client.get("/api/status")).body["workers"]] == [
            False, True,
        ]  # fmt: skip
        assert first["pid"] == second["pid"]
        await one.until(lambda status: sum(each["pages"] for each in status["workers"]) == 3 + 2)
        await one.until(lambda status: all(each["idle"] for each in status["workers"]))

        page = (await one.client.get("/")).body
        section = page[page.index('id="h-workers"') : page.index('id="h-time"')]
        assert len(re.findall(r"<th scope=\"row\">", section)) == 2
        assert section.count("this one") == 1
        assert "crawl as " in section
        assert "Memory, this worker" in page
        assert (await one.client.get("/api/openapi.json")).body["components"]["schemas"]["Worker"]

        metrics = (await one.client.get("/metrics")).body
        assert 'courtly_workers{state="idle"} 2.0' in metrics
        assert f'courtly_worker_pages_total{{worker="{first["id"]}"}}' in metrics
        assert 'courtly_table_bytes{table="urls"}' in metrics
        assert re.search(r"courtly_renewal_seconds_count [1-9]", metrics)
        assert "courtly_renewals_failed_total 0.0" in metrics


async def test_the_history_is_that_of_all_workers(start: Start, postgres_url: str) -> None:
    async with start("a.test", url=postgres_url) as one:
        await one.idle()
        async with start("b.test", url=postgres_url) as two:
            await two.idle()
            await two.client.post("/api/pause")
        found = (await one.client.get("/api/history")).body
        assert [mark["kind"] for mark in found["marks"]] == ["start", "start", "pause", "stop"]
        mine, other, pause, _ = found["marks"]
        assert mine["session"] != other["session"] == pause["session"]
        assert (mine["ended_at"], other["clean"], pause["ended_at"]) == (None, True, None)
        sent = sum(point["success"] + point["client_errors"] for point in found["points"])
        pages = (await one.client.get("/api/status")).body["visited"]
        assert sent >= pages == 5


async def test_a_file_has_no_workers(start: Start) -> None:
    async with start("a.test") as daemon:
        assert (await daemon.client.get("/api/status")).body["workers"] == []
        assert "h-workers" not in (await daemon.client.get("/")).body
        assert "courtly_worker" not in (await daemon.client.get("/metrics")).body


async def test_the_page_shows_that_the_server_cannot_be_reached(
    start: Start,
    postgres: PostgresServer,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(overview_page, "ATTENTION_KEPT_S", 0.0)
    async with start("a.test", url=postgres_url) as daemon:
        await daemon.until(lambda status: status["visited"] == 3)
        assert (await daemon.client.get("/")).status == 200
        await asyncio.to_thread(postgres.kill)
        try:
            status = await daemon.until(lambda status: status["held"])
            assert status["held"][0]["reason"] == "database-unreachable"
            assert status["workers"][0]["here"], "as it was last known"
            async with asyncio.timeout(10):
                page = await daemon.client.get("/")
                metrics = await daemon.client.get("/metrics")
                hosts = await daemon.client.get("/api/hosts")
                html = await daemon.client.get("/hosts", headers={"Accept": "text/html"})
            assert page.status == metrics.status == 200
            assert "On hold" in page.body
            assert re.search(r"courtly_renewals_failed_total [1-9]", metrics.body)
            assert hosts.status == html.status == 503
            assert "the server running" in hosts.body["detail"]
        finally:
            await asyncio.to_thread(postgres.start)
        await daemon.until(lambda status: not status["held"])
        assert (await daemon.client.get("/api/hosts")).status == 200
