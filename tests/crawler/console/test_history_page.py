"""The page History and its download, from a daemon with an older history in its database."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from storage.history import HOUR_S, HistoryCounts, Mark, MarkKind
from tests.crawler.daemon.conftest import Daemon

SESSION = 99


def minute(at: int, step_s: int = 60, **values: Any) -> HistoryCounts:
    return HistoryCounts(
        at=at,
        step_s=step_s,
        session=SESSION,
        observed_s=float(step_s),
        counts={"success": 2 * step_s},
        durations={"latency": {27: 50, 40: 5}, "lateness": {4: 55}},
        **values,
    )


async def filled(daemon: Daemon) -> int:
    """Write an older history. Return the minute that it is counted from."""
    now = int(daemon.opened.clock.wall()) // HOUR_S * HOUR_S - HOUR_S
    hours = [minute(now - 80 * 86_400 + n * HOUR_S, HOUR_S) for n in range(77 * 24)]
    minutes = [minute(now - 40 * 3_600 + n * 60) for n in range(40 * 60) if not 600 < n < 700]
    marks = [
        Mark(session=SESSION, number=1, kind=MarkKind.START, at=now - 9e4, until=now, lasting=True),
        Mark(
            session=SESSION,
            number=2,
            kind=MarkKind.HOLD,
            at=now - 7_200.0,
            until=now - 6_000.0,
            reason="network",
            sentence="no host <b>can</b> be reached",
        ),
        Mark(
            session=SESSION,
            number=3,
            kind=MarkKind.RELOAD,
            at=now - 5_000.0,
            until=now - 5_000.0,
            sentence="politeness.delay 1 s to 4 s",
            actor="alice",
            via="page",
        ),
    ]
    for each in (hours, minutes):
        for start in range(0, len(each), 500):
            await daemon.opened.control.put_history(each[start : start + 500], [])
    await daemon.opened.control.put_history([], marks)
    return now


async def page(daemon: Daemon, query: str = "") -> str:
    answer = await daemon.client.get(f"/history{query}", headers={"Accept": "text/html"})
    assert answer.status == 200
    body: str = answer.body
    return body


async def test_every_span_has_its_charts(daemon: Daemon) -> None:
    await filled(daemon)
    hrefs = set()
    for span in ("", "1h", "6h", "24h", "7d", "90d"):
        body = await page(daemon, f"?span={span}")
        summaries = re.findall(r'<figure[^>]*>.*?<svg [^>]*aria-label="([^"]*)"', body, re.DOTALL)
        assert body.count("<figure") == len(summaries) == 5, span
        assert all(" UTC: " in one for one in summaries), span
        assert len(body) < 300_000, span
        assert "style=" not in body, span
        hrefs |= set(re.findall(r'href="(/history[^"]*|/api/history[^"]*)"', body))
    for href in hrefs:
        answer = await daemon.client.get(href.replace("&amp;", "&"))
        assert answer.status == 200, href


async def test_a_wrong_span_is_refused(daemon: Daemon) -> None:
    for query, words in (
        ("span=no-such", "span: must be one of 1h, 6h, 24h, 7d, 90d"),
        ("to=abc", "to: must be a time in Unix seconds"),
        ("to=9e99", "to: must be a time in Unix seconds"),
        ("to=nan", "to: must be a time in Unix seconds"),
        ("to=-5", "to: must be a time in Unix seconds"),
        ("from=abc", "from: this page takes `span` and `to`"),
        ("from=9e99&to=5", "from: this page takes `span` and `to`"),
    ):
        answer = await daemon.client.get(f"/history?{query}", headers={"Accept": "text/html"})
        assert answer.status == 422, query
        assert words.lower() in answer.body.lower(), query


async def test_it_says_what_happened(daemon: Daemon) -> None:
    now = await filled(daemon)
    body = await page(daemon, f"?span=24h&to={now}")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))
    assert "hold 20 min no host &lt;b&gt;can&lt;/b&gt; be reached" in text
    assert "reload – politeness.delay 1 s to 4 s alice page" in text
    assert body.count('class="band-hold"') == 5
    assert body.count('class="at-reload"') == 5
    assert 'rel="next"' in body
    body = await page(daemon, f"?span=7d&to={now + 60}")
    assert "This process ended without a stop" in body
    body = await page(daemon, f"?span=7d&to={now}")
    assert "no crawl ran for" in body
    body = await page(daemon, "?span=1h&to=1000000")
    assert "No crawl ran in this span of time" in body
    assert "Nothing happened to the crawl" in body


async def test_the_run_that_goes_on_is_in_it(daemon: Daemon) -> None:
    await daemon.client.post("/api/pause")
    body = await page(daemon)
    assert body.count('class="band-pause"') == 5
    assert "anyone <small>api</small>" in re.sub(r"</?bdi>", "", body)
    assert "so far" in body


async def test_many_marks_are_cut_in_the_table(daemon: Daemon) -> None:
    now_s = daemon.opened.clock.wall()
    marks = [
        Mark(session=SESSION, number=n, kind=MarkKind.RELOAD, at=now_s - n, until=now_s - n)
        for n in range(1, 151)
    ]
    await daemon.opened.control.put_history([], marks)
    body = await page(daemon)
    assert body.count('<th scope="row">') == 100
    assert "51 earlier ones are in the JSON" in body


async def test_the_points_as_csv(daemon: Daemon) -> None:
    now = await filled(daemon)
    query = f"?from={now - 86_400}&to={now}&step=3600"
    answer = await daemon.client.get(f"/history.csv{query}")
    assert answer.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.body)))
    points = (await daemon.client.get(f"/api/history{query}")).body["points"]
    assert len(rows) == len(points) == 24
    assert [int(row["success"]) for row in rows] == [point["success"] for point in points]
    assert float(rows[0]["latency_p50_s"]) == points[0]["latency_p50_s"]
    assert (await daemon.client.get("/history.csv?step=1")).status == 422
