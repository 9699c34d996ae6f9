"""Commands about several hosts: by name, by pattern, by state; as dry runs; and refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

HOSTS = ("a.test", "b.test", "c.test")


async def paused_of(daemon: Any) -> set[str]:
    found = (await daemon.client.get("/api/hosts?state=paused")).body["hosts"]
    return {row["host"] for row in found}


@pytest.fixture
async def stream(daemon: Any) -> AsyncIterator[Any]:
    """The events of commands."""
    with daemon.operations.stream.listening() as listener:
        yield listener


def commands(listener: Any) -> list[dict[str, Any]]:
    return [dict(event.data) for event in listener._waiting if event.kind == "change"]


async def test_several_hosts_by_name(daemon: Any, stream: Any) -> None:
    answer = await daemon.client.post("/api/hosts/pause", {"hosts": ["a.test", "C.test", "a.test"]})
    assert (answer.body["hosts"], answer.body["names"]) == (2, ["a.test", "c.test"])
    assert await paused_of(daemon) == {"a.test", "c.test"}
    assert daemon.operations._control.host_now("b.test").state != "paused"
    assert [dict(one) for one in commands(stream)] == [
        {"what": "host_pause", "hosts": 2, "names": ["a.test", "c.test"]}
    ]


async def test_all_that_match(daemon: Any, stream: Any) -> None:
    """A pattern, a part of the name and a state; several conditions must all hold."""
    post = daemon.client.post
    every = await post("/api/hosts/slow", {"pattern": "*.test", "delay_s": 9.0})
    assert (every.body["hosts"], every.body["host"]) == (3, None)
    assert {row["slow_s"] for row in (await daemon.client.get("/api/hosts")).body["hosts"]} == {9.0}
    assert (await post("/api/hosts/pause", {"search": "B"})).body["names"] == ["b.test"]
    slowed = await post("/api/hosts/pause", {"state": "slowed", "pattern": "c*"})
    assert slowed.body["names"] == ["c.test"]
    assert await paused_of(daemon) == {"b.test", "c.test"}
    resumed = await post("/api/hosts/resume", {"state": "paused"})
    assert resumed.body["hosts"] == 2
    assert await paused_of(daemon) == set()
    assert [(one["what"], one["hosts"], one["selection"]) for one in commands(stream)] == [
        ("host_slow", 3, 'hosts matching "*.test"'),
        ("host_pause", 1, 'hosts containing "b"'),
        ("host_pause", 1, 'hosts matching "c*" and in the state slowed'),
        ("host_resume", 2, "hosts in the state paused"),
    ]


async def test_all_that_wait_for_the_same(daemon: Any) -> None:
    """A reason is a condition like the others."""
    await daemon.client.post("/api/hosts/pause", {"host": "b.test"})
    nothing_queued = await daemon.client.post("/api/hosts/resume", {"reason": "paused"})
    assert nothing_queued.body["hosts"] == 0  # it has no queued URLs, so nothing holds them
    answer = await daemon.client.post("/api/hosts/pause", {"reason": "tired"})
    assert (answer.status, "must be one of ready" in answer.body["detail"]) == (422, True)


async def test_hosts_in_memory_obey_and_a_dry_run_changes_nothing(daemon: Any, stream: Any) -> None:
    would = await daemon.client.post("/api/hosts/pause", {"pattern": "*", "dry_run": True})
    assert (would.body["hosts"], would.body["dry_run"]) == (3, True)
    assert await paused_of(daemon) == set()
    assert commands(stream) == []
    await daemon.client.post("/api/hosts/pause", {"pattern": "*"})
    for host in HOSTS:
        now = daemon.operations._control.host_now(host)
        assert now is None or now.state == "paused"


async def test_nothing_matches(daemon: Any) -> None:
    answer = await daemon.client.post("/api/hosts/pause", {"pattern": "*.example.org"})
    assert (answer.status, answer.body["hosts"], answer.body["names"]) == (200, 0, [])


async def test_what_is_refused_changes_nothing(daemon: Any) -> None:
    for body, status, why in [
        ({}, 422, "name one host, several hosts, or conditions"),
        ({"hosts": []}, 422, "name one host, several hosts, or conditions"),
        ({"host": "a.test", "pattern": "*"}, 422, "use only one of"),
        ({"host": "a.test", "hosts": ["b.test"]}, 422, "use only one of"),
        ({"state": "all"}, 422, 'use the pattern "*"'),
        ({"state": "asleep"}, 422, "must be one of"),
        ({"pattern": "http://a.test/"}, 422, "without scheme and path"),
        ({"hosts": ["a.test", "nobody.test"]}, 404, 'unknown host "nobody.test"'),
        ({"hosts": ["a.test", "a/b"]}, 422, "must be a host"),
        ({"hosts": ["a.test"] * 1_001}, 413, "use a pattern"),
        ({"patern": "*"}, 422, "did you mean"),
    ]:
        answer = await daemon.client.post("/api/hosts/pause", body)
        assert (answer.status, why in answer.body["detail"]) == (status, True), answer.body
        assert await paused_of(daemon) == set(), (body, status, why)


async def test_the_list_is_downloaded(daemon: Any) -> None:
    answer = await daemon.client.get("/hosts.csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="hosts.csv"'
    head, *rows = answer.body.splitlines()
    assert head.startswith("host,queued,visited,")
    assert [row.split(",")[0] for row in rows] == list(HOSTS)
    line = (await daemon.client.get("/hosts.jsonl?search=b")).body  # one, so it is JSON itself
    assert line["host"] == "b.test"
    assert (await daemon.client.get("/hosts.csv?state=asleep")).status == 422


async def test_blocked_urls_are_downloaded(daemon: Any) -> None:
    answer = await daemon.client.get("/blocked.csv?host=b.test")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="blocked-urls.csv"'
    head, row = answer.body.splitlines()
    assert head.startswith("url,reason,dialect,rule,line,robots_url,")
    assert "/private/x.html,robots,slurp,Disallow: /private/,2," in row
    line = (await daemon.client.get("/blocked.jsonl?host=c.test&rule=private")).body
    assert line["url"].endswith("/private/x.html")
    assert (await daemon.client.get("/blocked.jsonl?host=c.test&rule=/no-such")).body is None
    assert (await daemon.client.get("/blocked.csv?host=nobody.test")).status == 404
