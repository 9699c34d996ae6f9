"""Every JSON route over a real socket: its response, and the requests it refuses."""

from __future__ import annotations

import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.http.routes import ROUTES
from crawler.daemon.responses import HostRow
from crawler.documents import page_reader
from crawler.testing import LocalWeb, hang_up, html, text
from storage.columns import VIEWS


def shape_of(path: str, method: str = "GET") -> Any:
    return next(r.answer for r in ROUTES if (r.method, r.path) == (method, path))


def checked(body: Any, path: str, method: str = "GET") -> Any:
    """The body, validated against the declared type of the response."""
    msgspec.convert(body, shape_of(path, method))
    return body


async def test_status(daemon: Any) -> None:
    answer = await daemon.client.get("/api/status")
    status = checked(answer.body, "/api/status")
    assert answer.status == 200
    assert status["state"] == "idle"
    assert status["visited"] == 6
    assert status["blocked"] == 3
    assert status["hosts"] == 3
    assert status["in_flight"] == 0
    assert status["uptime_s"] > 0
    assert status["hosts_held"] == sum(status["hosts_by_state"].values())
    read = status["page_reader"]
    assert read["name"] == page_reader.name()
    assert (read["native"] + read["declined"] > 0) == (read["name"] == page_reader.NATIVE)


async def test_hosts(daemon: Any) -> None:
    answer = await daemon.client.get("/api/hosts?limit=2&sort=-visited")
    body = checked(answer.body, "/api/hosts")
    assert [row["host"] for row in body["hosts"]] == ["a.test", "b.test"]
    assert set(VIEWS["hosts"]) <= set(body["hosts"][0])
    assert body["hosts"][0]["paused"] is False
    more = await daemon.client.get(
        "/api/hosts", params={"limit": "2", "sort": "-visited", "after": body["after"]}
    )
    assert [row["host"] for row in more.body["hosts"]] == ["c.test"]
    assert more.body["after"] is None
    empty = await daemon.client.get("/api/hosts?search=&state=&sort=&limit=&after=")
    assert [row["host"] for row in empty.body["hosts"]] == ["a.test", "b.test", "c.test"]
    found = await daemon.client.get("/api/hosts?search=B.&state=done")
    assert [row["host"] for row in found.body["hosts"]] == ["b.test"]


async def test_hosts_by_pattern(daemon: Any) -> None:
    async def names(query: str) -> list[str]:
        answer = await daemon.client.get(f"/api/hosts?{query}")
        return [row["host"] for row in checked(answer.body, "/api/hosts")["hosts"]]

    assert await names("pattern=*.test") == ["a.test", "b.test", "c.test"]
    assert await names("pattern=*") == ["a.test", "b.test", "c.test"]
    assert await names("pattern=B.TEST") == ["b.test"]
    assert await names("pattern=*.example.org") == []
    assert (await daemon.client.get("/api/hosts?pattern=http://a/")).status == 422


async def test_host(daemon: Any) -> None:
    answer = await daemon.client.get("/api/host?host=A.test:8080")
    host = checked(answer.body, "/api/host")
    assert host["host"] == "a.test"
    assert host["contacts"] == 5
    kinds = [one["kind"] for one in host["recent_contacts"]]
    assert sorted(kinds) == ["page", "page", "page", "robots", "sitemap"]
    (robots,) = host["robots"]
    assert robots["state"] == "rules"
    assert any("5 contacts" in sentence for sentence in host["why"])


async def test_url(daemon: Any, town: LocalWeb) -> None:
    url = town.url("a.test", "/private/x.html")
    answer = await daemon.client.get("/api/url", params={"url": url})
    body = checked(answer.body, "/api/url")
    assert (body["url"], body["state"], body["host"]) == (url, "blocked", "a.test")
    assert body["row"]["rule"] == "Disallow: /private/"
    assert body["row"]["withdrawn"] is False
    assert any("line 2" in sentence for sentence in body["why"])
    unknown = await daemon.client.get("/api/url", params={"url": "http://nobody.test/"})
    assert checked(unknown.body, "/api/url")["state"] == "unknown"
    assert any("scope.follow" in sentence for sentence in unknown.body["why"])


async def test_blocked(daemon: Any, town: LocalWeb) -> None:
    answer = await daemon.client.get("/api/blocked?host=b.test&rule=private")
    body = checked(answer.body, "/api/blocked")
    (row,) = body["blocked"]
    assert row["url"] == town.url("b.test", "/private/x.html")
    assert (row["line"], row["withdrawn"]) == (2, False)
    pages = await daemon.client.get("/api/blocked?limit=2")
    rest = await daemon.client.get("/api/blocked", params={"after": pages.body["after"]})
    assert len({one["url"] for one in pages.body["blocked"] + rest.body["blocked"]}) == 3


async def test_blocked_urls_are_counted_by_rule(daemon: Any, town: LocalWeb) -> None:
    answer = await daemon.client.get("/api/blocked/rules")
    body = checked(answer.body, "/api/blocked/rules")
    assert [(one["host"], one["rule"], one["urls"]) for one in body["rules"]] == [
        (f"{name}.test", "Disallow: /private/", 1) for name in "abc"
    ]
    assert (body["more"], body["complete"]) == (False, True)
    assert body["rules"][0]["robots_url"] == town.url("a.test", "/robots.txt")
    (one,) = (await daemon.client.get("/api/blocked/rules?host=B.test&limit=1")).body["rules"]
    query = {"host": one["host"], "rule": one["rule"], "exact": "1", "reason": one["reason"]}
    rows = (await daemon.client.get("/api/blocked", params=query)).body["blocked"]
    assert [row["url"] for row in rows] == [town.url("b.test", "/private/x.html")]
    none = await daemon.client.get("/api/blocked?rule=private&exact=1")
    assert none.body["blocked"] == []
    for wrong in ("reason=x", "limit=0", "exact=maybe", "host=nobody.test"):
        for path in ("blocked", "blocked/rules"):
            assert (await daemon.client.get(f"/api/{path}?{wrong}")).status in (404, 422), wrong


async def test_robots_copy_marks_the_lines_that_blocked(daemon: Any, town: LocalWeb) -> None:
    origin = town.url("a.test").rstrip("/")
    answer = await daemon.client.get("/api/robots", params={"origin": origin})
    body = checked(answer.body, "/api/robots")
    assert [(one["line"], one["blocked"]) for one in body["lines"][:3]] == [(1, 0), (2, 1), (3, 0)]
    assert body["lines"][1]["text"] == "Disallow: /private/"


async def test_config_shows_what_counts_and_no_secret(start: Any) -> None:
    secrets = {
        "fetch": {"headers": {"X-Key": "s3cret"}, "proxy": "http://me:s3cret@127.0.0.1:1"},
        "daemon": {"token": "s3cret"},
        "site": {"a.test": {"delay": 7}},
    }
    async with start(config=secrets) as daemon:
        answer = await daemon.client.get("/api/config")
        settings = {one["key"]: one for one in checked(answer.body, "/api/config")["settings"]}
        assert "s3cret" not in json.dumps(answer.body)
        assert settings["fetch.headers"]["value"] == {"X-Key": "…"}
        assert settings["crawl.max_pages"]["value"] == "inf"
        assert settings["crawl.patience"]["source"] == "default"
        own = (await daemon.client.get("/api/config?host=a.test")).body["settings"]
        assert {one["key"]: one["value"] for one in own}["politeness.delay"] == 7


ONE_HOST = {"hosts": 1, "names": ["a.test"], "dry_run": False}


async def test_a_host_is_paused_slowed_and_resumed(daemon: Any) -> None:
    post = daemon.client.post
    paused = await post("/api/hosts/pause", {"host": "a.test"})
    assert checked(paused.body, "/api/hosts/pause", "POST") == {
        **ONE_HOST, "host": "a.test", "paused": True, "slow_s": None,
    }  # fmt: skip
    slowed = await post("/api/hosts/slow", {"host": "a.test", "delay_s": 2.5})
    assert slowed.body == {**ONE_HOST, "host": "a.test", "paused": True, "slow_s": 2.5}
    host = (await daemon.client.get("/api/host?host=a.test")).body
    assert (host["paused"], host["slow_s"]) == (True, 2.5)
    assert "paused by an operator" in host["wait_reason"]
    resumed = await post("/api/hosts/resume", {"host": "a.test"})
    assert resumed.body == {**ONE_HOST, "host": "a.test", "paused": False, "slow_s": None}


async def test_a_host_is_found_under_its_domain(start: Any, town: LocalWeb) -> None:
    """With `per = "domain"`, a host name finds the row of its domain."""
    town.sites["www.shop.test"] = {"/robots.txt": text(""), "/": html("Shop")}
    async with start("www.shop.test", config={"politeness": {"per": "domain"}}) as daemon:
        await daemon.idle()
        answer = await daemon.client.get("/api/host?host=www.shop.test")
        assert answer.body["host"] == "shop.test"
        paused = await daemon.client.post("/api/hosts/pause", {"host": "www.shop.test"})
        assert (paused.body["host"], paused.body["paused"]) == ("shop.test", True)


async def test_seeds(daemon: Any, town: LocalWeb) -> None:
    new, known = town.url("a.test", "/new.html"), town.url("a.test")
    answer = await daemon.client.post(
        "/api/seeds", {"urls": [new, known, "mailto:x@a.test"], "priority": 2}
    )
    body = checked(answer.body, "/api/seeds", "POST")
    assert (body["added"], body["known"]) == (1, 1)
    assert [one["url"] for one in body["refused"]] == ["mailto:x@a.test"]
    assert body["refused"][0]["reason"]
    await daemon.until(lambda status: status["visited"] == 7 and status["state"] == "idle")


async def test_failed_urls_are_queued_again(start: Any, town: LocalWeb) -> None:
    town.sites["e.test"] = {"/robots.txt": text(""), "/": hang_up()}
    async with start("a.test", "e.test", config={"fetch": {"max_attempts": 1}}) as daemon:
        await daemon.until(lambda status: status["failed"] == 1 and status["state"] == "idle")
        town.sites["e.test"] = {"/robots.txt": text(""), "/": html("Well again")}
        none = await daemon.client.post("/api/retry", {"host": "a.test"})
        assert checked(none.body, "/api/retry", "POST") == {"retried": 0, "dry_run": False}
        some = await daemon.client.post("/api/retry", {"host": "e.test"})
        assert some.body["retried"] == 1
        await daemon.until(lambda status: (status["visited"], status["failed"]) == (4, 0))
        assert (await daemon.client.post("/api/retry")).body == {"retried": 0, "dry_run": False}


async def test_the_crawl_is_paused_and_resumed(daemon: Any, town: LocalWeb) -> None:
    assert (await daemon.client.post("/api/pause")).body == {
        "state": "paused", "changed": True, "dry_run": False,
    }  # fmt: skip
    await daemon.client.post("/api/seeds", {"urls": [town.url("b.test", "/later")]})
    assert (await daemon.client.get("/api/status")).body["state"] == "paused"
    answer = await daemon.client.post("/api/resume", {})
    assert checked(answer.body, "/api/resume", "POST")["state"] in ("running", "idle")
    await daemon.until(lambda status: status["visited"] == 7)


async def test_robots_check_uses_a_file_in_the_request(daemon: Any) -> None:
    body = {
        "robots": "User-agent: *\nDisallow: /a\nAllow: /a/b\n",
        "agent": "examplebot",
        "urls": ["http://x.test/a/b/c", "/a", "/c"],
        "dialect": "rfc9309",
    }
    answer = await daemon.client.post("/api/robots/check", body)
    verdicts = checked(answer.body, "/api/robots/check", "POST")["verdicts"]
    assert [(one["allowed"], one["line"]) for one in verdicts] == [
        (True, 3), (False, 2), (True, None),
    ]  # fmt: skip
    assert verdicts[1]["rule"] == "Disallow: /a"
    assert "Disallow: /a" in verdicts[1]["reason"]
    every = await daemon.client.post("/api/robots/check", {**body, "dialect": "all"})
    assert (
        len({one["dialect"] for one in every.body["verdicts"]}) == len(every.body["verdicts"]) / 3
    )
    strict = await daemon.client.post(
        "/api/robots/check", {**body, "dialect": ["rfc9309", "res1994"]}
    )
    assert [one["allowed"] for one in strict.body["verdicts"]] == [False, False, True]


async def test_robots_check_uses_the_stored_copy(daemon: Any, town: LocalWeb) -> None:
    body = {"url": town.url("b.test", "/x"), "urls": ["/private/", "/"]}
    answer = await daemon.client.post("/api/robots/check", body)
    assert [one["allowed"] for one in answer.body["verdicts"]] == [False, True]
    assert answer.body["robots_url"] == town.url("b.test", "/robots.txt")
    assert town.log.paths("b.test").count("/robots.txt") == 1


async def test_robots_check_fetches_a_robots_txt_once_and_politely(
    daemon: Any, town: LocalWeb
) -> None:
    town.sites["d.test"] = {"/robots.txt": text("User-agent: *\nDisallow: /d\n")}
    body = {"url": town.url("d.test", "/x"), "urls": ["/d", "/"]}
    for _ in range(2):
        answer = await daemon.client.post("/api/robots/check", body)
        assert [one["allowed"] for one in answer.body["verdicts"]] == [False, True]
    assert town.log.paths("d.test").count("/robots.txt") == 1
    host = (await daemon.client.get("/api/host?host=d.test")).body
    assert host["contacts"] == 1  # it was a contact of the crawl, with a rest after it


async def test_robots_check_of_an_unreachable_site(daemon: Any, town: LocalWeb) -> None:
    body = {"url": f"http://dead.test:{town.dead_port}/", "urls": ["/"]}
    answer = await daemon.client.post("/api/robots/check", body)
    assert is_problem(answer, 502, "url")


async def test_robots_check_sends_no_request_after_the_end_of_the_crawl(
    daemon: Any, town: LocalWeb
) -> None:
    daemon.opened.control.stop()
    body = {"url": town.url("new.test"), "urls": ["/"]}
    assert is_problem(await daemon.client.post("/api/robots/check", body), 503, None)
    assert "new.test" not in {exchange.host for exchange in town.log.requests()}


async def test_robots_check_reaches_no_private_address(start: Any, town: LocalWeb) -> None:
    """The tester does not connect to addresses that are forbidden to the crawl."""
    network = {"network": {"allow": [], "resolve": {"*.test": "127.0.0.1"}}}
    async with start(config=network) as daemon:
        before = town.connections
        body = {"url": town.url("a.test"), "urls": ["/"]}
        assert is_problem(await daemon.client.post("/api/robots/check", body), 502, "url")
        for beyond in ("http://10.0.0.1/", "http://169.254.169.254/", "http://[::1]:1/"):
            answer = await daemon.client.post("/api/robots/check", {"url": beyond, "urls": ["/"]})
            assert answer.status in (422, 502)  # law 10, or the guard
        assert town.connections == before


MALFORMED: list[tuple[str, object, int, str | None]] = [
    ("/api/hosts/pause", {}, 422, "host"),
    ("/api/hosts/pause", {"host": 1}, 422, "host"),
    ("/api/hosts/pause", {"host": "a.test", "why": 1}, 422, "why"),
    ("/api/hosts/pause", {"host": ""}, 422, "host"),
    ("/api/hosts/pause", {"host": "\x00"}, 422, "host"),
    ("/api/hosts/pause", {"host": "x" * 2000}, 422, "host"),
    ("/api/hosts/pause", {"host": "nobody.test"}, 404, "host"),
    ("/api/hosts/pause", ["a.test"], 422, None),
    ("/api/hosts/resume", {"host": "nobody.test"}, 404, "host"),
    ("/api/hosts/slow", {"host": "nobody.test", "delay_s": 1}, 404, "host"),
    ("/api/hosts/slow", {"host": "a.test"}, 422, "delay_s"),
    ("/api/hosts/slow", {"host": "a.test", "delay_s": -1}, 422, "delay_s"),
    ("/api/hosts/slow", {"host": "a.test", "delay_s": 1e300}, 422, "delay_s"),
    ("/api/hosts/slow", {"host": "a.test", "delay_s": "2"}, 422, "delay_s"),
    ("/api/hosts/slow", {"host": "a.test", "delay_s": True}, 422, "delay_s"),
    ("/api/hosts/slow", {"host": "a.test", "delay_s": None}, 422, "delay_s"),
    ("/api/seeds", {"urls": "http://a.test/"}, 422, "urls"),
    ("/api/seeds", {"urls": []}, 422, "urls"),
    ("/api/seeds", {"urls": [1]}, 422, "urls[0]"),
    ("/api/seeds", {"urls": ["http://a.test/x"], "priority": "high"}, 422, "priority"),
    ("/api/seeds", {"urls": ["http://a.test/x"], "depth": 1}, 422, "depth"),
    ("/api/seeds", {"urls": ["http://a.test/" + "x" * 70_000]}, 413, "urls[0]"),
    ("/api/seeds", {"urls": ["http://a.test/x"] * 10_001}, 413, "urls"),
    ("/api/seeds", {"urls": ["x" * 5_000_000]}, 413, "body"),
    ("/api/pause", {"now": True}, 422, "now"),
    ("/api/retry", {"host": "nobody.test"}, 404, "host"),
    ("/api/retry", {"hots": "a.test"}, 422, "hots"),
    ("/api/robots/check", {"urls": ["/a"]}, 422, "robots"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "", "url": "http://a.test/"}, 422, "robots"),
    ("/api/robots/check", {"urls": [], "robots": ""}, 422, "urls"),
    ("/api/robots/check", {"urls": ["a"], "robots": ""}, 422, "urls[0]"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "", "dialect": "klingon"}, 422, "dialect"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "", "dialect": 5}, 422, "dialect"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "", "dialect": []}, 422, "dialect"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "", "dialect": ""}, 422, "dialect"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "", "agent": [""]}, 422, "agent"),
    ("/api/robots/check", {"urls": ["/a"], "robots": "x" * 600_000}, 413, "robots"),
    ("/api/robots/check", {"urls": ["/a"] * 2000, "robots": "", "dialect": "all"}, 413, "urls"),
    ("/api/robots/check", {"urls": ["/a"], "url": "a.test"}, 422, "url"),
    ("/api/robots/check", {"urls": ["/a"], "url": "ftp://a.test/"}, 422, "url"),
]  # fmt: skip


async def test_a_misspelt_field_gets_a_suggestion(daemon: Any) -> None:
    answer = await daemon.client.post("/api/hosts/slow", {"host": "a.test", "delay": 1})
    assert answer.body["detail"] == 'delay: unknown field; did you mean "delay_s"?'
    assert answer.status == 422


def is_problem(answer: Any, status: int, field: str | None) -> bool:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    body = answer.body
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body.get("field") == field
    return True


async def rows(daemon: Any) -> list[HostRow]:
    """The hosts as the database has them."""
    page = await daemon.operations.hosts()
    return [replace(row, now=None, wait_reason="") for row in page.hosts]


async def test_bad_bodies_are_refused_by_field_and_change_nothing(daemon: Any) -> None:
    before = await rows(daemon)
    for path, body, status, field in MALFORMED:
        answer = await daemon.client.post(
            path,
            data=io.BytesIO(json.dumps(body).encode()),
            headers={"Content-Type": "application/json"},
        )
        assert is_problem(answer, status, field), (path, str(body)[:80])
    assert await rows(daemon) == before


NO_JSON = [
    (b"{", 400),
    (b"", 422),  # as {}: the host is missing
    (b"null", 422),
    (b'{"host": "a.test"} x', 400),
    (b'{"host": NaN}', 400),
    (b"\xff\xfe", 400),
    (b"[" * 100_000, 422),  # no object, whatever more is in it
    (b'{"host": ' * 100_000, 422),
    (b'{"host": "\\ud800"}', 400),
]


async def test_invalid_json_is_refused(daemon: Any) -> None:
    for raw, status in NO_JSON:
        answer = await daemon.client.post(
            "/api/hosts/pause",
            data=raw,
            headers={"Content-Type": "application/json"},
        )
        assert answer.status == status, (raw[:80], answer.body)
        assert answer.headers["Content-Type"].startswith("application/problem+json")


async def test_a_program_may_omit_the_content_type(daemon: Any) -> None:
    unsaid = {"data": b'{"host": "a.test"}', "skip_auto_headers": ["Content-Type"]}
    assert (await daemon.client.post("/api/hosts/pause", **unsaid)).status == 200
    own = {"origin": str(daemon.client.base)}  # a browser's
    answer = await daemon.client.post("/api/hosts/resume", **unsaid, headers=own)
    assert is_problem(answer, 415, "Content-Type")


async def test_other_content_types_are_refused(daemon: Any) -> None:
    """Content types that a form of another site can send are refused."""
    form = "application/x-www-form-urlencoded"
    for kind in ("text/plain", form, "multipart/form-data; boundary=x"):
        answer = await daemon.client.post(
            "/api/hosts/pause", data=b'{"host": "a.test"}', headers={"Content-Type": kind}
        )
        assert is_problem(answer, 415, "Content-Type")
    assert not (await daemon.client.get("/api/host?host=a.test")).body["paused"]


BAD_QUERIES: list[tuple[str, int, str | None]] = [
    ("/api/hosts?state=asleep", 422, "state"),
    ("/api/hosts?sort=colour", 422, "sort"),
    ("/api/hosts?limit=0", 422, "limit"),
    ("/api/hosts?limit=1001", 422, "limit"),
    ("/api/hosts?limit=ten", 422, "limit"),
    ("/api/hosts?limit=1&limit=2", 422, "limit"),
    ("/api/hosts?after=x", 422, "after"),
    ("/api/hosts?colour=red", 422, "colour"),
    ("/api/host", 422, "host"),
    ("/api/host?host=nobody.test", 404, "host"),
    ("/api/host?host=a/b", 422, "host"),
    ("/api/url", 422, "url"),
    ("/api/url?url=a.test/x", 422, "url"),
    ("/api/blocked?host=nobody.test", 404, "host"),
    ("/api/blocked?after=%00", 422, "after"),
    ("/api/robots?origin=nowhere", 422, "origin"),
    ("/api/robots?origin=http://nobody.test", 404, "origin"),
    ("/api/status?x=1", 422, "x"),
    ("/api/host?host=", 422, "host"),
    ("/api/nothing", 404, None),
]


async def test_bad_queries_are_refused_by_field(daemon: Any) -> None:
    for path, status, field in BAD_QUERIES:
        assert is_problem(await daemon.client.get(path), status, field), path


async def test_methods_are_checked(daemon: Any) -> None:
    answer = await daemon.client.get("/api/pause")
    assert is_problem(answer, 405, None)
    assert answer.headers["Allow"] == "POST"
    assert (await daemon.client.ask("DELETE", "/api/status")).status == 405
    assert (await daemon.client.ask("HEAD", "/api/status")).status == 200


async def test_an_error_of_its_own_tells_nothing(
    daemon: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("/etc/secret/path token=abc")

    monkeypatch.setattr(daemon.operations, "_live", fail)
    answer = await daemon.client.get("/api/hosts")
    assert is_problem(answer, 500, None)
    assert "secret" not in json.dumps(answer.body)
    assert "/etc/secret/path" in caplog.text


async def test_the_description_lists_every_route(start: Any) -> None:
    async with start(settings=HttpSettings(token="t")) as daemon:
        described = (await daemon.local.get("/api/openapi.json")).body
    known = {
        (method.upper(), path) for path, methods in described["paths"].items() for method in methods
    }
    served = {
        (route.method, route.resource.canonical)
        for route in daemon.app.router.routes()
        if route.method != "HEAD"
        and route.resource.canonical.startswith(
            ("/api/", "/healthz", "/readyz", "/metrics", "/login", "/logout")
        )
    } - {("GET", "/login")}  # a page
    assert served <= known
    assert known <= served


async def test_the_description_is_consistent(daemon: Any) -> None:
    """Every reference resolves, and the names of operations are unique."""
    described = (await daemon.client.get("/api/openapi.json")).body
    text = json.dumps(described)
    names = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text)
    assert set(names) <= set(described["components"]["schemas"])
    operations = [one for methods in described["paths"].values() for one in methods.values()]
    ids = [one["operationId"] for one in operations]
    assert len(ids) == len(set(ids))
    assert all(one["summary"] for one in operations)
    (host,) = described["paths"]["/api/host"]["get"]["parameters"]
    assert (host["name"], host["in"], host["required"]) == ("host", "query", True)


async def test_a_body_that_does_not_arrive_times_out(
    daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.front_door.bodies.BODY_S", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    head = "POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
    async with asyncio.timeout(20):
        assert (await reader.readline()).split()[1] == b"408"
    writer.close()
    await writer.wait_closed()
    assert (await daemon.client.get("/api/status")).body["state"] == "idle"


def test_the_docs_list_exactly_the_routes() -> None:
    text = (Path(__file__).parents[4] / "docs" / "daemon.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| (`(?:GET|POST) .*?) \|", text, re.MULTILINE)
    told = {
        path.partition("?")[0]
        for row in table
        for path in re.findall(r"`(?:GET |POST )?([a-z][a-z/-]*[a-z](?:\?[^`]*)?)`", row)
    }
    served = {route.path.removeprefix("/api/") for route in ROUTES}
    served |= {"events", "fetch", "permit"}
    assert told - {"host", "delay_s"} | {"host"} == served
    for query in re.findall(r"\$api/([a-z/]+)", text):
        assert query.rstrip("/") in served


async def test_the_description_is_found_where_tools_look_for_it(daemon: Any) -> None:
    usual = await daemon.client.get("/openapi.json")
    assert usual.body == (await daemon.client.get("/api/openapi.json")).body


async def test_a_host_is_found_by_its_name_in_any_script(daemon: Any) -> None:
    await daemon.client.post("/api/seeds", {"urls": ["http://bücher.test/"]})
    found = await daemon.client.get("/api/hosts", params={"search": "Bücher"})
    assert [row["host"] for row in found.body["hosts"]] == ["xn--bcher-kva.test"]
    assert (await daemon.client.get("/api/hosts", params={"search": "ü b"})).body["hosts"] == []
