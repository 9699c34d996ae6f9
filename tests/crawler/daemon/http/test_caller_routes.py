"""Requests and permits for other programs: sent through the crawl, refused as problem documents."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import aiohttp
import pytest

from crawler.daemon.http.guards import HttpSettings
from crawler.testing import LocalWeb, ReceivedRequest, Reply, hang_up, redirect, text

SLOW = {"politeness": {"delay": 0.3, "latency_factor": 0, "concurrency_per_host": 1}}


def described(answer: Any) -> dict[str, Any]:
    described = json.loads(answer.headers["Courtly-Response"])
    assert isinstance(described, dict)
    return described


def kind_of(answer: Any) -> str:
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert answer.body["status"] == answer.status
    return str(answer.body["type"]).rsplit("/", 1)[-1]


async def test_a_response_is_returned_whatever_its_status(daemon: Any, town: LocalWeb) -> None:
    url = town.url("a.test", "/one.html")
    answer = await daemon.client.post("/api/fetch", {"url": url})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/octet-stream")
    assert "<h1>/one.html</h1>" in answer.body
    found = described(answer)
    assert (found["url"], found["status"], found["redirects"]) == (url, 200, [])
    assert ["Content-Type", "text/html; charset=utf-8"] in found["headers"]
    assert found["elapsed_s"] > 0
    answer = await daemon.client.post("/api/fetch", {"url": town.url("a.test", "/none")})
    assert (answer.status, described(answer)["status"]) == (200, 404)


async def test_method_headers_and_bodies_are_sent(daemon: Any, town: LocalWeb) -> None:
    town.keep_alive = False  # it does not read bodies
    seen: list[ReceivedRequest] = []

    def receive(request: ReceivedRequest) -> Reply:
        seen.append(request)
        return redirect("/one.html", status=303)

    town.sites["a.test"] = {**town.sites["a.test"], "/in": receive}  # type: ignore[dict-item]
    url = town.url("a.test", "/in")
    bodies: list[dict[str, object]] = [
        {"json": {"a": 1}},
        {"text": "a"},
        {"body": base64.b64encode(b"\0\xff").decode()},
    ]
    for body in bodies:
        sent = {"url": url, "method": "post", "headers": {"X-Mine": "1"}, "follow": False, **body}
        answer = await daemon.client.post("/api/fetch", sent)
        assert described(answer)["status"] == 303
    assert [one.method for one in seen] == ["POST"] * 3
    assert [one.headers["Content-Length"] for one in seen] == ["7", "1", "2"]
    assert seen[0].headers["Content-Type"] == "application/json"
    assert all(one.headers["X-Mine"] == "1" for one in seen)
    answer = await daemon.client.post("/api/fetch", {"url": url, "method": "POST"})
    found = described(answer)
    assert (found["url"], found["status"]) == (town.url("a.test", "/one.html"), 200)
    assert [(one["url"], one["status"]) for one in found["redirects"]] == [(url, 303)]


async def test_the_crawl_and_the_api_share_one_clock(start: Any, town: LocalWeb) -> None:
    async with start("a.test", config=SLOW) as made:
        urls = [town.url("a.test", f"/{name}.html?{n}") for n in range(3) for name in ("one",)]
        answers = await asyncio.gather(
            *(made.client.post("/api/fetch", {"url": url}) for url in urls)
        )
        await made.idle()
        assert [answer.status for answer in answers] == [200] * 3
    paths = town.log.paths("a.test")
    assert paths.count("/robots.txt") == 1
    assert {"/", "/one.html", "/two.html"} <= set(paths)
    assert town.log.peak_concurrency("a.test") == 1
    assert min(town.log.gaps("a.test")) >= 0.29


async def test_refusals_are_problem_documents(start: Any, town: LocalWeb) -> None:
    async with start("a.test", config={"robots": {"dialect": "google"}}) as daemon:
        await daemon.idle()
        await check_refusals(daemon, town)


async def check_refusals(daemon: Any, town: LocalWeb) -> None:
    town.sites["down.test"] = {"/robots.txt": text("", status=503)}
    town.sites["loop.test"] = {"/robots.txt": text(""), "/": redirect("/")}
    town.sites["mute.test"] = {"/robots.txt": text(""), "/": hang_up()}

    async def refused(path: str, host: str = "a.test", **more: object) -> Any:
        sent = {"url": town.url(host, path), **more}
        return await daemon.client.post("/api/fetch", sent)

    answer = await refused("/private/x.html")
    assert (answer.status, kind_of(answer)) == (403, "robots-disallowed")
    assert answer.body["url"] == town.url("a.test", "/private/x.html")
    assert (answer.body["verdict"]["line"], answer.body["verdict"]["allowed"]) == (2, False)
    answer = await refused("/", "down.test")
    assert (answer.status, kind_of(answer)) == (503, "robots-unreachable")
    assert answer.body["reason"]
    assert answer.body["until"] > 0
    assert int(answer.headers["Retry-After"]) > 0
    answer = await refused("/", "loop.test")
    assert (answer.status, kind_of(answer)) == (502, "too-many-redirects")
    assert len(answer.body["urls"]) == 12
    answer = await refused("/", "mute.test", retry=False)
    assert (answer.status, kind_of(answer)) == (502, "fetch-failed")
    assert answer.body["failure"]["code"] == "protocol"
    answer = await daemon.client.post("/api/fetch", {"url": "a.test/x"})
    assert (answer.status, kind_of(answer)) == (400, "invalid-url")
    answer = await refused("/", method="GE T")
    assert (answer.status, kind_of(answer)) == (400, "invalid-request")
    assert answer.body["argument"] == "method"
    answer = await refused("/", body="*")
    assert (answer.status, answer.body["field"]) == (422, "body")
    assert answer.body["detail"] == "body: must be base64; use text or json for text"
    answer = await refused("/", text="a", json=1)
    assert (answer.status, answer.body["argument"]) == (400, "data")
    answer = await refused("/", headers={"Host": "b.test"})
    assert (answer.status, answer.body["argument"]) == (400, "headers")
    answer = await refused("/", metod="GET")
    assert (answer.status, answer.body["field"]) == (422, "metod")
    answer = await daemon.client.post("/api/fetch", {"url": "http://192.168.1.1/"})
    assert (answer.status, kind_of(answer)) == (400, "invalid-config")
    await daemon.client.post("/api/hosts/slow", {"host": "a.test", "delay_s": 60})
    answer = await refused("/one.html", "a.test", max_wait_s=1)
    assert (answer.status, kind_of(answer)) == (503, "wait-too-long")
    assert answer.body["until"] > 0
    assert "delay" in answer.body["reason"]
    assert int(answer.headers["Retry-After"]) > 50


async def test_long_headers_are_left_out(daemon: Any, town: LocalWeb) -> None:
    many = [("Location", "/one.html"), *((f"X-{n}", "é" * 500) for n in range(6))]
    town.sites["a.test"] = {
        **town.sites["a.test"],  # type: ignore[dict-item]
        "/long": Reply(status=302, headers=many),
        "/huge": Reply(headers=[(f"X-{n}", "x" * 3_000) for n in range(2)] * 4),
    }
    answer = await daemon.client.post("/api/fetch", {"url": town.url("a.test", "/long")})
    found = described(answer)
    assert found["shortened"]
    assert found["redirects"][0]["headers"] == [["Location", "/one.html"]]
    answer = await daemon.client.post("/api/fetch", {"url": town.url("a.test", "/huge")})
    assert len(answer.headers["Courtly-Response"]) <= 8_000
    assert ["Content-Type", "text/html; charset=utf-8"] in described(answer)["headers"]
    sent = {"url": town.url("a.test", "/long"), "description_bytes": 100_000}
    async with aiohttp.ClientSession(max_field_size=100_000, max_line_size=100_000) as session:
        made = session.post(f"{daemon.client.base}/api/fetch", json=sent)
        async with made as response:
            found = json.loads(response.headers["Courtly-Response"])
    assert "shortened" not in found
    assert len(found["redirects"][0]["headers"]) >= 7


async def test_a_client_that_leaves_gives_up_its_place(start: Any, town: LocalWeb) -> None:
    async with start("a.test", config=SLOW) as made:
        await made.idle()
        await made.client.post("/api/hosts/pause", {"host": "a.test"})
        url = town.url("a.test", "/never.html")
        waiting = asyncio.create_task(made.client.post("/api/fetch", {"url": url}))
        frontier = made.opened.scheduler.frontier
        async with asyncio.timeout(5):
            while not frontier.callers:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            waiting.cancel()
            while frontier.callers:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await made.client.post("/api/hosts/resume", {"host": "a.test"})
        url = town.url("a.test", "/one.html")
        assert (await made.client.post("/api/fetch", {"url": url})).status == 200
    assert "/never.html" not in town.log.paths("a.test")


async def test_inspections(daemon: Any, town: LocalWeb) -> None:
    allowed = await daemon.client.post("/api/may-fetch", {"url": town.url("a.test", "/x")})
    assert allowed.body == {"allowed": True}
    private = town.url("a.test", "/private/x")
    assert (await daemon.client.post("/api/may-fetch", {"url": private})).body["allowed"] is False
    turn = await daemon.client.post("/api/next-turn", {"url": private})
    assert set(turn.body) == {"in_s", "reason", "ahead"}
    state = await daemon.client.post("/api/robots/state", {"url": private})
    assert b"Disallow: /private/" in base64.b64decode(state.body["body"])


# ---------------------------------------------------------------- permits


async def test_a_permit_is_a_contact_until_it_ends(start: Any, town: LocalWeb) -> None:
    async with start("a.test", config=SLOW) as made:
        await made.idle()
        url = town.url("a.test", "/one.html")
        lent = await made.client.post("/api/permit", {"url": url})
        assert (lent.status, lent.body["url"], lent.body["expires_in_s"]) == (201, url, 60.0)
        name = lent.body["id"]
        waiting = asyncio.create_task(made.client.post("/api/fetch", {"url": url}))
        await asyncio.sleep(0.6)
        assert not waiting.done(), "the contact lasts until the permit ends"
        assert (await made.client.post(f"/api/permit/{name}", {})).body["id"] == name
        sent = {"status": 429, "headers": {"Retry-After": "1"}}
        began_s = asyncio.get_running_loop().time()
        ended = await made.client.ask("DELETE", f"/api/permit/{name}", json=sent)
        assert (ended.status, ended.body) == (200, {"id": name})
        assert (await waiting).status == 200
        assert asyncio.get_running_loop().time() - began_s >= 1, "the host learned of it"
        again = await made.client.ask("DELETE", f"/api/permit/{name}")
        assert (again.status, kind_of(again)) == (404, "permit-ended")


async def test_a_permit_that_is_not_ended_expires(start: Any, town: LocalWeb) -> None:
    async with start("a.test", config=SLOW) as made:
        await made.idle()
        url = town.url("a.test", "/one.html")
        lent = await made.client.post("/api/permit", {"url": url, "expires_in_s": 0.2})
        assert (await made.client.post("/api/fetch", {"url": url})).status == 200
        again = await made.client.post(f"/api/permit/{lent.body['id']}", {})
        assert (again.status, kind_of(again)) == (404, "permit-ended")


async def test_a_permit_is_refused_as_a_request_is(daemon: Any, town: LocalWeb) -> None:
    answer = await daemon.client.post("/api/permit", {"url": town.url("a.test", "/private/x.html")})
    assert (answer.status, kind_of(answer)) == (403, "robots-disallowed")
    answer = await daemon.client.post("/api/permit", {"url": "a", "method": "GET"})
    assert (answer.status, kind_of(answer)) == (400, "invalid-url")
    url = town.url("a.test", "/one.html")
    lent = await daemon.client.post("/api/permit", {"url": url})
    path = f"/api/permit/{lent.body['id']}"
    answer = await daemon.client.ask("DELETE", path, json={"status": 99})
    assert (answer.status, answer.body["argument"]) == (400, "status")
    assert (await daemon.client.ask("DELETE", path)).status == 200


@pytest.mark.parametrize("path", ["/api/fetch", "/api/permit", "/api/may-fetch"])
async def test_the_token_and_the_origin_are_checked(start: Any, town: LocalWeb, path: str) -> None:
    async with start("a.test", settings=HttpSettings(token="secret")) as made:
        sent = {"url": town.url("a.test", "/one.html")}
        assert (await made.client.post(path, sent)).status == 401
        known = {"Authorization": "Bearer secret"}
        foreign = {**known, "Origin": "http://evil.test"}
        assert (await made.client.post(path, sent, headers=foreign)).status == 403
        if path == "/api/permit":
            sent["expires_in_s"] = 0.1  # type: ignore[assignment]
        assert (await made.client.post(path, sent, headers=known)).status in (200, 201)
        assert (await made.local.post(path, sent)).status in (200, 201)


async def test_every_route_is_described(daemon: Any) -> None:
    document = (await daemon.client.get("/api/openapi.json")).body
    fetch = document["paths"]["/api/fetch"]["post"]
    schema = fetch["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    fields = document["components"]["schemas"][schema.rsplit("/", 1)[-1]]["properties"]
    assert {"url", "method", "headers", "body", "json", "text", "follow", "retry"} <= set(fields)
    assert set(document["paths"]["/api/permit/{id}"]) == {"post", "delete"}


async def test_a_refused_address_counts_as_no_request(start: Any, town: LocalWeb) -> None:
    """Nothing was sent: it is no request of a host, and no fault of the network."""
    names = {"*.test": "127.0.0.1", "*.inside.test": "192.168.77.1"}
    config = {
        "crawl": {"user_agent": "pagebot/1.0 (+https://example.com/bot)"},
        "network": {"allow": ["127.0.0.0/8"], "resolve": names},
    }
    async with start("a.test", config=config) as daemon:
        await daemon.idle()
        for number in range(12):
            url = f"http://h{number}.inside.test/"
            answer = await daemon.client.post("/api/fetch", {"url": url})
            assert kind_of(answer) == "fetch-failed"
            assert "network.allow" in answer.body["detail"]
        status = (await daemon.client.get("/api/status")).body
        metrics = (await daemon.client.get("/metrics")).body
        asked = (await daemon.client.get("/api/host?host=h1.inside.test")).body
        page = (await daemon.client.get("/host?host=h1.inside.test")).body
    states = {one["check"]: (one["state"], one["sentence"]) for one in status["health"]["checks"]}
    for check in ("robots.txt", "urls"):
        assert states[check][0] == "ok", states
    assert states["robots.txt"][1].startswith("Every robots.txt was fetched")
    assert 'courtly_robots_fetches_total{result="unreachable"} 0.0' in metrics
    assert 'courtly_fetches_total{kind="robots",outcome="address"}' not in metrics
    assert "courtly_given_up_hosts_total 0.0" in metrics
    assert (asked["contacts"], asked["recent_contacts"]) == (0, [])
    assert "Not fetched, because the config does not allow its address" in page
    assert "192.168.77.1 is a private address" in page
