"""Lists of URLs and seeds of a real crawl, and commands about failed ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from crawler.daemon.http.routes import ROUTES
from crawler.testing import LocalWeb, hang_up, html, text
from storage.columns import VIEWS


def checked(answer: Any, path: str, method: str = "GET") -> Any:
    """The body, validated against the declared type of the response."""
    assert answer.status == 200, answer.body
    shape = next(one.answer for one in ROUTES if (one.method, one.path) == (method, path))
    msgspec.convert(answer.body, shape)
    return answer.body


@pytest.fixture
async def crawl(start: Any, town: LocalWeb) -> Any:
    """Pages of two hosts, of which one hangs up on two of its pages."""
    town.sites["a.test"] = {
        "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
        "/": html("Home", "/one", "/two", "/three", "/private/x"),
        "/one": html("One"),
        "/two": hang_up(),
        "/three": hang_up(),
    }
    options = {"fetch": {"max_attempts": 1}}
    async with start("a.test", "b.test", config=options) as daemon:
        await daemon.idle()
        yield daemon


async def urls(daemon: Any, query: str) -> list[str]:
    body = checked(await daemon.client.get(f"/api/urls?{query}"), "/api/urls")
    return sorted(row["url"].partition(".test")[2].partition("/")[2] for row in body["urls"])


async def test_urls_by_state_and_filter(crawl: Any) -> None:
    assert await urls(crawl, "state=failed") == ["three", "two"]
    assert await urls(crawl, "state=failed&text=TWO") == ["two"]
    assert await urls(crawl, "state=visited&host=a.test") == ["", "one"]
    assert await urls(crawl, "state=visited&status=404") == []
    assert await urls(crawl, "state=queued") == []
    body = checked(await crawl.client.get("/api/urls?state=visited&limit=1"), "/api/urls")
    assert set(body["urls"][0]) == set(VIEWS["visited"])
    assert body["urls"][0]["indexable"] is True
    query = {"state": "visited", "limit": "1", "after": body["after"]}
    more = checked(await crawl.client.get("/api/urls", params=query), "/api/urls")
    assert more["urls"][0]["url"] != body["urls"][0]["url"]


async def test_failures_are_counted_retried_and_dropped(crawl: Any, town: LocalWeb) -> None:
    (count,) = checked(await crawl.client.get("/api/failures"), "/api/failures")["codes"]
    assert count["urls"] == 2
    code = count["code"]
    none = await crawl.client.post("/api/drop", {"host": "b.test", "code": code})
    assert checked(none, "/api/drop", "POST") == {"dropped": 0, "dry_run": False}
    done = await crawl.client.post("/api/drop", {"host": "a.test", "code": code})
    assert checked(done, "/api/drop", "POST") == {"dropped": 2, "dry_run": False}
    assert await urls(crawl, "state=failed") == []
    skipped = checked(await crawl.client.get("/api/skipped"), "/api/skipped")["skipped"]
    assert {"reason": "dropped", "count": 2}.items() <= skipped[0].items()
    why = await crawl.client.get("/api/url", params={"url": town.url("a.test", "/two")})
    assert "skipped: it had failed, and an operator dropped it" in why.body["why"]


async def test_failures_are_retried_by_code(crawl: Any, town: LocalWeb) -> None:
    town.sites["a.test"] = {"/robots.txt": text(""), "/two": html("2"), "/three": html("3")}
    (count,) = (await crawl.client.get("/api/failures")).body["codes"]
    assert (await crawl.client.post("/api/retry", {"code": "no-such"})).body["retried"] == 0
    assert (await crawl.client.post("/api/retry", {"code": count["code"]})).body["retried"] == 2
    await crawl.until(lambda status: status["visited"] >= 6 and status["failed"] == 0)


async def test_seeds_have_their_states(crawl: Any, town: LocalWeb) -> None:
    body = checked(await crawl.client.get("/api/seeds"), "/api/seeds")
    assert [(row["url"], row["state"], row["status"]) for row in body["seeds"]] == [
        (town.url("b.test"), "visited", 200),
        (town.url("a.test"), "visited", 200),
    ]
    assert (await crawl.client.get("/api/seeds?state=failed")).body["seeds"] == []


async def test_bad_queries_are_refused_by_field(daemon: Any) -> None:
    for path, status, field in [
        ("/api/urls", 422, "state"),
        ("/api/urls?state=blocked", 422, "state"),
        ("/api/urls?state=queued&code=dns", 422, "code"),
        ("/api/urls?state=failed&status=404", 422, "status"),
        ("/api/urls?state=visited&status=4", 422, "status"),
        ("/api/urls?state=visited&after=x", 422, "after"),
        ("/api/urls?state=visited&limit=0", 422, "limit"),
        ("/api/urls?state=failed&host=nobody.test", 404, "host"),
        ("/api/seeds?state=asleep", 422, "state"),
        ("/api/seeds?after=x", 422, "after"),
    ]:
        answer = await daemon.client.get(path)
        assert (answer.status, answer.body["field"]) == (status, field), answer.body
