"""Law 4: what was judged for lack of a robots.txt, or by one that has changed, is judged again by
the new one, whatever becomes of the run that learned it; a shared copy is no newer than it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.testing import Reply, html, not_found, redirect, text

if TYPE_CHECKING:
    from tests.conftest import Crawled, World

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
FORBIDS = text("User-agent: *\nDisallow: /p")


def late(file: Reply, pages: int = 1) -> Callable[[Request], Reply]:
    """a.test's robots.txt cannot be had at first, later it is `file`; b.test keeps it crawling."""
    asked: list[str] = []

    def answers(request: Request) -> Reply:
        if "//b.test" in request.url:
            links = (f"/{n}" for n in range(30))
            return not_found() if request.url.endswith("/robots.txt") else html("B", *links)
        if request.url.endswith("/robots.txt"):
            asked.append(request.url)
            return text("", status=503) if len(asked) == 1 else file
        links = (f"/p{n}" for n in range(1, pages + 1))
        return html("Home", *links) if request.url == "http://a.test/" else html("ParsedPage")

    return answers


A_AND_B = ("http://a.test/", "http://b.test/")
QUICK = {"delay": 0.2, "latency_factor": 0}


def of_a(crawled: Crawled, view: str) -> list[str]:
    return [url for url in crawled.urls(view) if "//a.test" in url]


async def test_an_answer_that_comes_after_stop_is_obeyed_by_the_next_run(world: World) -> None:
    """Law 4, at once or as soon as there is a crawl again: stop lets the request for robots.txt
    end, and what it says is not forgotten."""

    def answers(request: Request) -> Reply:
        reply = asked(request)
        if reply.body == slow.body:
            assert world.scheduler
            world.clock.call_at(world.clock.monotonic() + 0.5, world.scheduler.stop)
        return reply

    slow = Reply(body="User-agent: *\nDisallow: /p", content_type="text/plain", delay_s=1)
    asked = late(slow)
    stopped = await world.crawl(answers, *A_AND_B, politeness=QUICK)
    assert stopped.urls("queued")
    assert [row["state"] for row in stopped.rows["robots"]] == ["rules", "absent"]
    assert of_a(stopped, "visited") == ["http://a.test/", "http://a.test/p1"] or of_a(
        stopped, "blocked"
    )
    again = await world.crawl(answers, politeness=QUICK)
    assert of_a(again, "visited") == ["http://a.test/"]
    assert of_a(again, "blocked") == ["http://a.test/p1"]
    assert again.log.paths("a.test") == []


@pytest.mark.parametrize("method", ["robots_put", "ungoverned", "rejudge"])
async def test_killed_when_the_copy_is_kept_the_pages_are_withdrawn_all_the_same(
    world: World, method: str
) -> None:
    """Laws 4 and 5: that there is something to judge again is committed with the copy. The next run
    does it, though nothing of that host is queued and its copy is fresh."""

    async def kill(*args: object, **_: object) -> None:
        if method != "robots_put" or b"Disallow" in (getattr(args[3], "body", None) or b""):
            world.kill()

    hooks = world.medium.after if method == "robots_put" else world.medium.before
    hooks[method] = kill
    answers = late(FORBIDS)
    killed = await world.crawl(answers, *A_AND_B, politeness=QUICK)
    assert of_a(killed, "visited") == ["http://a.test/", "http://a.test/p1"]
    again = await world.crawl(answers)
    assert of_a(again, "visited") == ["http://a.test/"]
    assert of_a(again, "blocked") == ["http://a.test/p1"]
    assert again.log.paths("a.test") == []


async def test_killed_in_the_middle_of_many_the_rest_is_judged_by_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 4, "in chunks, off the hot path": the mark stays until the last of them is through."""
    monkeypatch.setattr("crawler.scheduling.rejudging.CHUNK", 3)

    async def kill(*_: object, **__: object) -> None:
        if world.medium.calls["rejudge"] == 2:
            world.kill()

    world.medium.after["rejudge"] = kill
    answers = late(FORBIDS, pages=12)
    killed = await world.crawl(
        answers, "http://a.test/", "http://b.test/", politeness={"delay": 0.02, "latency_factor": 0}
    )
    assert 0 < len(of_a(killed, "blocked")) < 12
    again = await world.crawl(answers)
    assert of_a(again, "visited") == ["http://a.test/"]
    assert len(of_a(again, "blocked")) == 12


async def test_stopped_in_the_middle_of_many_the_rest_is_judged_by_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: a stop waits for those that are being judged, and no others."""
    monkeypatch.setattr("crawler.scheduling.rejudging.CHUNK", 3)

    async def stop(*_: object, **__: object) -> None:
        assert world.scheduler
        if world.medium.calls["rejudge"] == 1:
            world.scheduler.stop()

    world.medium.before["rejudge"] = stop
    answers = late(FORBIDS, pages=12)
    stopped = await world.crawl(
        answers, "http://a.test/", "http://b.test/", politeness={"delay": 0.02, "latency_factor": 0}
    )
    assert 0 < len(of_a(stopped, "blocked")) <= 6
    again = await world.crawl(answers)
    assert of_a(again, "visited") == ["http://a.test/"]
    assert len(of_a(again, "blocked")) == 12


async def test_killed_when_a_changed_file_is_kept_what_it_allows_is_freed_all_the_same(
    world: World,
) -> None:
    """Law 4: verdicts follow the file. A URL that was blocked comes back to the queue, also after a
    crash just then."""
    files = [FORBIDS, text("User-agent: *\nDisallow: /q")]

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return files[0]
        return html("Home", "/p1", "/q1") if request.url == "http://a.test/" else html("ParsedPage")

    first = await world.crawl(answers, "http://a.test/")
    assert first.urls("blocked") == ["http://a.test/p1"]
    await world.wait(DAY_S + HOUR_S)
    del files[0]

    async def kill(*_: object, **__: object) -> None:
        world.kill()

    world.medium.after["robots_put"] = kill
    killed = await world.crawl(answers)
    assert killed.urls("blocked") == ["http://a.test/p1"]
    again = await world.crawl(answers)
    assert again.log.paths() == ["/p1"]
    assert again.urls("visited") == ["http://a.test/", "http://a.test/p1", "http://a.test/q1"]


async def test_what_a_changed_file_allows_is_visited_in_the_same_run(world: World) -> None:
    """Law 4: a host that was idle wakes up when its URLs are freed."""
    files = {"http://a.test/robots.txt": FORBIDS}

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return files[request.url]
        return html("Home", "/p1") if request.url == "http://a.test/" else html("ParsedPage")

    first = await world.crawl(answers, "http://a.test/")
    assert first.urls("blocked") == ["http://a.test/p1"]
    await world.wait(DAY_S + HOUR_S)
    files["http://a.test/robots.txt"] = text("")
    again = await world.crawl(answers)
    assert again.log.paths() == ["/robots.txt", "/p1"]
    assert again.urls("blocked") == []


@pytest.mark.parametrize("page_s", [1.9 + n * 0.01 for n in range(40)])
async def test_a_page_that_ends_while_its_origin_is_judged_again_is_judged_too(
    world: World, page_s: float
) -> None:
    """Law 4 on several lanes: asked for while the origin counted as open, it comes in at any moment
    of what follows from the late file, the clearing of its mark included, on a slow disk."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            asked.append(request.url)
            return text("", status=503) if len(asked) == 1 else FORBIDS
        return Reply(body=html("ParsedPage").body, delay_s=page_s)

    asked: list[str] = []
    world.medium.slow_s = 0.02
    crawled = await world.crawl(
        answers,
        "http://a.test/p1",
        politeness={"concurrency_per_host": 2, "delay": 0.05, "latency_factor": 0},
    )
    assert crawled.log.paths()[:2] == ["/robots.txt", "/p1"]
    assert crawled.urls("visited") == []
    assert crawled.urls("blocked") == ["http://a.test/p1"]


async def test_a_host_whose_robots_txt_is_being_kept_does_not_make_room(world: World) -> None:
    """Law 4 and law 7: it looks idle, but its pages are about to be judged again."""

    async def make_room(*args: object, **_: object) -> None:
        if b"Disallow" in (getattr(args[3], "body", None) or b""):
            await world.wait(0.2)
            assert world.scheduler
            world.scheduler.leases.make_room()
            made.append(args[2])

    made: list[object] = []
    world.medium.before["robots_put"] = make_room
    crawled = await world.crawl(late(FORBIDS), *A_AND_B, politeness=QUICK)
    assert made == ["http://a.test"]
    assert of_a(crawled, "visited") == ["http://a.test/"]
    assert of_a(crawled, "blocked") == ["http://a.test/p1"]


async def test_a_shared_copy_is_no_newer_than_it_is(world: World) -> None:
    """A robots.txt is kept for 24 h. One that a second origin takes over by a redirect,
    without a request of its own, runs out when the first one's does."""

    def answers(request: Request) -> Reply:
        at_s = world.clock.monotonic() - start_s
        match request.url:
            case "http://b.test/robots.txt":
                forbidden = "/secret" if at_s > HOUR_S else "/none"
                return text(f"User-agent: *\nDisallow: {forbidden}")
            case "http://a.test/robots.txt":
                return redirect("http://b.test/robots.txt")
        if "//a.test" in request.url:
            return html("A", *(f"/secret{n}" for n in range(12)))
        elsewhere = ("http://a.test/",) if at_s > 23 * HOUR_S else ()
        return html("B", *elsewhere, *(f"/{n}" for n in range(60)))

    start_s = world.clock.monotonic()
    crawled = await world.crawl(
        answers,
        "http://b.test/",
        scope={"follow": "any"},
        crawl={"patience": "3h"},
        politeness={"delay": 1800},
    )
    shared_s, asked_s = crawled.at("a.test", "/robots.txt")[:2]
    assert 23 * HOUR_S < shared_s < DAY_S < asked_s
    b_asked = crawled.at("b.test", "/robots.txt")
    assert not any(shared_s <= at_s < DAY_S for at_s in b_asked)  # it was taken over, not fetched
    late_secrets = [
        at_s
        for entry, at_s in zip(crawled.entries("a.test"), crawled.at("a.test"), strict=True)
        if entry.path.startswith("/secret") and at_s > asked_s
    ]
    assert late_secrets == []
    assert "http://a.test/secret11" in crawled.urls("blocked")


async def test_a_living_crawl_obeys_a_late_robots_txt_where_a_host_has_had_its_pages(
    world: World,
) -> None:
    """Law 4, for as long as it lives; nothing else is to be done there."""
    began_s = world.clock.monotonic()

    def answers(request: Request) -> Reply:
        if not request.url.endswith("robots.txt"):
            return html("ParsedPage", "/more")
        late = world.clock.monotonic() > began_s + 3 * 86_400
        return text("User-agent: *\nDisallow: /") if late else Reply(status=503)

    said: list[str] = []
    crawled = await world.crawl(
        answers,
        "http://a.test/",
        forever=True,
        at={
            3_600.0: lambda: said.append(world.control.wait_reason("a.test")),
            5 * 86_400.0: world.stop,
        },
        robots={"dialect": "slurp"},
        scope={"max_pages_per_host": 1},
    )
    assert crawled.urls("visited") == []
    assert "http://a.test/" in crawled.urls("blocked")
    assert said == ["scope.max_pages_per_host has been reached"]
