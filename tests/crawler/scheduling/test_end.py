"""When a crawl ends: not before all that can move has moved, never later than its patience and its
budgets say, with however little room it has for hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from crawler.documents.page import ParsedPage
from crawler.fetching.request import Request
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.reasons import PAUSED
from crawler.frontier.waiting import NextMove, Waiting
from crawler.scheduling.host_leases import ROOM_SHARE
from crawler.testing import Answers, Reply, html, not_found, redirect, text
from policies.pacing import parse_window
from policies.retries import FailureCode
from storage.store import Link

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0


def held_at_most(monkeypatch: pytest.MonkeyPatch, hosts: int) -> None:
    monkeypatch.setattr("crawler.scheduling.host_leases.HOSTS_LEASED_MAX", hosts)
    monkeypatch.setattr("crawler.scheduling.host_leases.CLAIM_HOSTS", hosts)
    monkeypatch.setattr("crawler.scheduling.due_work.DUE_ORIGINS_MAX", hosts)


# ---------------------------------------------------------------- budgets


async def test_it_ends_at_max_pages_though_a_page_in_flight_finds_another_host(
    world: World,
) -> None:
    """What is left when `max_pages` is reached stays queued and holds nothing,
    a host met at the last moment included."""
    answers = {
        "http://a.test/": replace(html("A", "http://new.test/"), delay_s=5),
        "http://b.test/": html("B"),
        "http://b.test/2": html("B2"),
    }
    crawled = await world.crawl(
        answers,
        *("http://a.test/", "http://b.test/", "http://b.test/2"),
        crawl={"max_pages": 2},
        scope={"follow": "any"},
    )
    assert crawled.urls("visited") == ["http://a.test/", "http://b.test/"]
    assert crawled.urls("queued") == ["http://b.test/2", "http://new.test/"]
    assert crawled.elapsed_s < 7
    assert crawled.log.paths("new.test") == []


async def test_it_ends_at_max_pages_without_waiting_for_the_next_turn(world: World) -> None:
    """A URL beyond `max_pages` stays queued and does not hold the crawl; nor is any
    robots.txt asked for on its behalf."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nCrawl-delay: 500\n")
        return html("ParsedPage", "/1", "http://b.test/")

    crawled = await world.crawl(
        answers, "http://a.test/", crawl={"max_pages": 1}, scope={"follow": "any"}
    )
    assert crawled.log.paths() == ["/robots.txt", "/"]
    assert crawled.elapsed_s < 501
    assert crawled.waiting["a.test"] == (None, "crawl.max_pages has been reached")


@pytest.mark.parametrize("failure", [Reply(status=500), FailureCode.PROTOCOL])
async def test_a_page_that_fails_gives_its_place_in_max_pages_back(
    world: World, failure: Reply | FailureCode
) -> None:
    """`max_pages` counts pages visited in this run, not requests made."""
    answers = {"http://a.test/1": failure, "http://a.test/2": html("2")}
    crawled = await world.crawl(answers, *sorted(answers), crawl={"max_pages": 1})
    assert crawled.urls("visited") == ["http://a.test/2"]


async def test_a_page_in_flight_on_another_lane_does_not_fill_a_host(world: World) -> None:
    """`max_pages_per_host` counts pages visited. One that may yet fail is waited for,
    and when it does, the host goes on."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        return Reply(status=500, delay_s=20) if request.url.endswith("/0") else html("ParsedPage")

    crawled = await world.crawl(
        answers,
        *(f"http://a.test/{n}" for n in range(20)),
        scope={"max_pages_per_host": 5},
        politeness={"concurrency_per_host": 2},
    )
    assert len(crawled.urls("visited")) == 5
    assert crawled.waiting["a.test"] == (None, "scope.max_pages_per_host has been reached")


async def test_a_host_ends_with_its_bytes_and_others_go_on(world: World) -> None:
    """`max_bytes_per_host`: the decoded bodies of a host's visited pages, those of runs before
    included; the page that reaches it is kept."""
    page = html("x" * 1_000)
    size = len(page.body)
    answers = {f"http://a.test/{n}": page for n in range(9)} | {
        f"http://b.test/{n}": page for n in range(9)
    }
    scope = {"max_bytes_per_host": 3 * size + 1}
    site = {"b.test": {"max_bytes_per_host": "10MB"}}
    crawled = await world.crawl(answers, *answers, scope=scope, site=site)
    rows = {str(row["host"]): row for row in crawled.rows["hosts"]}
    assert {host: row["visited"] for host, row in rows.items()} == {"a.test": 4, "b.test": 9}
    assert rows["a.test"]["body_bytes"] == 4 * size
    assert crawled.waiting["a.test"] == (None, "scope.max_bytes_per_host has been reached")
    again = await world.crawl(answers, *answers, scope={"max_bytes_per_host": 6 * size})
    rows = {str(row["host"]): row for row in again.rows["hosts"]}
    assert {host: row["visited"] for host, row in rows.items()} == {"a.test": 6, "b.test": 9}


# ---------------------------------------------------------------- room


async def test_full_hosts_make_room_and_are_not_claimed_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 7 (docs/laws.md): hosts that have had their `max_pages_per_host` keep URLs queued, but
    neither a place nor the crawl: it ends, and does not lease them over and over."""
    held_at_most(monkeypatch, 2)
    hosts = [f"http://h{n}.test" for n in range(5)]
    answers: Answers = {f"{host}/": html("Home", "/1", "/2") for host in hosts}
    crawled = await world.crawl(
        answers, *(f"{host}/" for host in hosts), scope={"max_pages_per_host": 1}
    )
    assert crawled.urls("visited") == [f"{host}/" for host in hosts]
    assert len(crawled.urls("queued")) == 10
    assert crawled.elapsed_s < 10
    assert crawled.medium.calls["claim"] < 100
    reasons = {crawled.waiting[f"h{n}.test"] for n in range(5)}
    assert reasons == {(None, "scope.max_pages_per_host has been reached")}


async def test_closed_hosts_do_not_keep_the_places_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 7: when as many hosts as may be held are closed, they make place for those that can
    move; and the crawl ends at its patience."""
    held_at_most(monkeypatch, 4)
    hosts = [f"http://{kind}{n}.test" for kind in ("bad", "good") for n in range(4)]
    answers = {f"{host}/": html("Home") for host in hosts}
    answers |= {f"{host}/robots.txt": text("", status=503) for host in hosts if "bad" in host}
    crawled = await world.crawl(
        answers,
        *(f"{host}/" for host in hosts),
        robots={"unreachable": "closed"},
        crawl={"patience": "40s"},
    )
    assert crawled.urls("visited") == [f"http://good{n}.test/" for n in range(4)]
    assert len(crawled.urls("queued")) == 4
    assert crawled.elapsed_s < 2 + 10 + 30 + 60


async def test_robots_txt_due_without_urls_are_asked_within_the_room_there_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 7: a finished crawl, run again when all its robots.txt are due, asks each of them once
    and never holds more hosts than it may."""
    held_at_most(monkeypatch, 8)

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /p")
        return html("Home", "/p1")

    held: list[int] = []
    first = await world.crawl(answers, *(f"http://h{n}.test/" for n in range(60)))
    assert len(first.urls("blocked")) == 60
    await world.wait(DAY_S + 1)

    async def look(*_: object, **__: object) -> None:
        assert world.scheduler
        held.append(len(world.scheduler.frontier.permits))

    world.medium.before = dict.fromkeys(("robots_put", "acquire", "complete", "outlook"), look)
    again = await world.crawl(answers)
    assert again.log.paths() == ["/robots.txt"] * 60
    assert 0 < max(held) <= 8


# ---------------------------------------------------------------- not too early


async def test_a_host_on_disk_is_claimed_when_its_rest_is_over(world: World) -> None:
    """Hosts that have work due are claimed, also while others keep the crawl busy."""
    asked: list[str] = []

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        if request.url.startswith("http://b.test/"):
            asked.append(request.url)
            return Reply(status=429, headers={"Retry-After": "30"}) if len(asked) == 1 else html("")
        return html("ParsedPage", *(f"/{n}" for n in range(120)))

    first = await world.crawl(answers, "http://b.test/", crawl={"patience": 5})
    assert first.urls("queued") == ["http://b.test/"]
    again = await world.crawl(answers, "http://a.test/")
    assert again.elapsed_s > 100
    (at_s,) = again.at("b.test", "/")
    assert 29 < at_s < 32


async def test_a_host_leased_for_a_robots_hop_has_its_own_urls_visited_too(world: World) -> None:
    """A host that was taken on for another's robots.txt moves on as any."""
    asked: list[str] = []

    def answers(request: Request) -> Reply:
        match request.url:
            case "http://b.test/robots.txt":
                return not_found()
            case "http://b.test/":
                asked.append(request.url)
                if len(asked) == 1:
                    return Reply(status=429, headers={"Retry-After": "90"})
                return html("B")
            case "http://a.test/robots.txt":
                return redirect("http://b.test/shared.txt")
            case "http://b.test/shared.txt":
                return text("User-agent: *\nDisallow: /x\n")
        return html("A")

    await world.crawl(answers, "http://b.test/", crawl={"patience": 5})
    again = await world.crawl(answers, "http://a.test/")
    assert again.log.paths("b.test") == ["/shared.txt", "/"]
    assert again.urls("visited") == ["http://a.test/", "http://b.test/"]


async def test_a_due_robots_txt_is_waited_for_through_the_rest_before_its_redirect(
    world: World,
) -> None:
    """What is due at the end is asked once more, and law 4: obeyed at once, though its
    redirect takes a second turn of the host."""
    files = {"https://a.test/robots.txt": text("", status=503)}

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/robots.txt":
            return redirect("https://a.test/robots.txt")
        return files.get(request.url) or html("ParsedPage", "/p1")

    first = await world.crawl(answers, "http://a.test/")
    assert len(first.urls("visited")) == 2
    await world.wait(7200)
    files["https://a.test/robots.txt"] = text("User-agent: *\nDisallow: /p")
    again = await world.crawl(answers)
    assert again.log.paths() == ["/robots.txt", "/robots.txt"]
    assert again.urls("blocked") == ["http://a.test/p1"]


async def test_a_due_robots_txt_is_waited_for_through_the_rest_after_a_crash(
    world: World,
) -> None:
    """Law 6 makes the host rest first; the crawl does not end meanwhile."""
    files = {"http://a.test/robots.txt": text("", status=503)}

    def answers(request: Request) -> Reply:
        return files.get(request.url) or html("ParsedPage", "/p1", "/p2")

    seed = "http://a.test/"
    killed = await world.crawl(answers, seed, at={5.5: world.kill})
    assert killed.urls("visited") == [seed]
    await world.wait(7200)
    files["http://a.test/robots.txt"] = text("User-agent: *\nDisallow: /")
    again = await world.crawl(answers)
    assert again.log.paths() == ["/robots.txt"]
    assert again.urls("visited") == []
    assert again.urls("blocked") == ["http://a.test/", "http://a.test/p1", "http://a.test/p2"]


# ---------------------------------------------------------------- not too late


async def test_a_robots_hop_to_a_resting_host_holds_the_crawl_no_longer_than_its_patience(
    world: World,
) -> None:
    """No URL can move within the patience, wherever its robots.txt waits."""

    def answers(request: Request) -> Reply:
        match request.url:
            case "http://b.test/robots.txt":
                return Reply(status=429, headers={"Retry-After": "86400"})
            case "http://a.test/robots.txt":
                return redirect("http://b.test/shared.txt")
        return html("ParsedPage")

    crawled = await world.crawl(answers, "http://b.test/", "http://a.test/")
    assert crawled.elapsed_s < 60
    until, why = crawled.waiting["a.test"]
    assert until == pytest.approx(crawled.wall_from_s + crawled.start_s + DAY_S, abs=5)
    assert "b.test" in why


async def test_a_robots_hop_to_a_paused_host_ends_at_the_patience(world: World) -> None:
    """Pauses hold the crawl up to its patience; law 8: and it says which."""

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/robots.txt":
            return redirect("http://b.test/shared.txt")
        return html("ParsedPage")

    await world.store.open_session("hand")
    await world.store.add(
        [Link(url="http://b.test/", slot="b.test", host="b.test", depth=0, seed=True)]
    )
    assert await world.store.set_controls(["b.test"], paused=True)
    crawled = await world.crawl(answers, "http://a.test/")
    assert crawled.elapsed_s == pytest.approx(600, abs=2)
    assert crawled.log.paths() == ["/robots.txt"]
    assert crawled.urls("queued") == ["http://a.test/", "http://b.test/"]
    _, why = crawled.waiting["a.test"]
    assert "b.test" in why
    assert PAUSED.sentence in why


async def test_each_patience_begins_with_the_last_thing_that_moved(world: World) -> None:
    """A plain crawl ends when nothing can move *sooner than* its patience. A first try
    is progress; one more that fails is none, and does not extend it."""
    asked: list[str] = []

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        asked.append(request.url)
        return (
            Reply(status=429, headers={"Retry-After": "50"})
            if len(asked) < 4
            else html("ParsedPage")
        )

    crawled = await world.crawl(answers, "http://a.test/", crawl={"patience": "1m"})
    assert 50 < crawled.elapsed_s < 65
    assert crawled.urls("queued") == ["http://a.test/"]
    assert "a.test" in crawled.waiting
    crawled = await world.crawl(answers, crawl={"patience": "4m"})
    assert crawled.urls("visited") == ["http://a.test/"]


@pytest.mark.parametrize("kind", ["silent", "503 soon", "503 later"])
async def test_urls_that_all_fail_hold_a_crawl_no_longer_than_its_patience(
    world: World, kind: str
) -> None:
    """A host with many URLs fails each of them: that the next was not tried yet is no progress."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return not_found()
        if request.url == "http://a.test/":
            return html("Home", *(f"/{n}" for n in range(500)))
        if kind == "silent":
            return Reply(delay_s=1_000)
        if kind == "503 later":
            return Reply(status=503, headers={"Retry-After": "9"})
        return Reply(status=503, headers={"Retry-After": "5"})

    crawled = await world.crawl(
        answers, "http://a.test/", crawl={"patience": 10}, fetch={"timeout": 5}, cap_s=20_000
    )
    assert crawled.urls("visited") == ["http://a.test/"]
    assert len(crawled.urls("queued")) + len(crawled.urls("failed")) == 500
    assert crawled.elapsed_s < 45
    assert "a.test" in crawled.waiting


async def test_a_host_that_fails_at_times_is_crawled_to_its_end(world: World) -> None:
    """Every other URL fails at first: something is done with all the time."""
    asked: dict[str, int] = {}

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return not_found()
        if request.url == "http://a.test/":
            return html("Home", *(f"/{n}" for n in range(60)))
        count = asked[request.url] = asked.get(request.url, 0) + 1
        if count == 1 and int(request.url.rpartition("/")[2]) % 2:
            return Reply(status=503, headers={"Retry-After": "6"})
        return html("ParsedPage")

    crawled = await world.crawl(answers, "http://a.test/", crawl={"patience": 10}, cap_s=20_000)
    assert len(crawled.urls("visited")) == 61
    assert crawled.elapsed_s > 180


async def test_a_cancelled_crawl_leaves_no_timer_behind(world: World) -> None:
    """ARCHITECTURE, "Leave": everything is cancelled. The retry clock of a robots.txt does not ring
    in a crawl that is over (the fixture hears what is raised in a callback)."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return text("", status=503)
        return Reply(delay_s=5)

    crawled = await world.crawl(answers, "http://a.test/", at={1: world.leave})
    assert crawled.elapsed_s == 1
    await world.wait(100)
    assert crawled.log.paths() == ["/robots.txt"]


# ---------------------------------------------------------------- the beginning


async def test_law_5_the_next_claim_comes_within_a_second_of_opening(world: World) -> None:
    """However much there is to judge again, and however slow the disk."""
    files: dict[str, Reply] = {}

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt"):
            return files.get(request.url) or text("", status=503)
        return html("ParsedPage", *(f"/p{n}" for n in range(3)))

    hosts = [f"http://h{n}.test" for n in range(30)]
    await world.crawl(answers, *(f"{host}/" for host in hosts))
    await world.wait(7200)
    for host in hosts:
        files[f"{host}/robots.txt"] = text("User-agent: *\nDisallow: /p")

    async def stop_there(*_: object, **__: object) -> None:
        world.kill()

    world.medium.before["ungoverned"] = stop_there
    killed = await world.crawl(answers)
    assert len(killed.urls("blocked")) == 0
    assert len(killed.log) == 30

    claimed: list[float] = []

    async def claims(*_: object, **__: object) -> None:
        claimed.append(world.clock.monotonic() - start_s)

    start_s = world.clock.monotonic()
    world.medium.slow_s = 0.05
    world.medium.before["claim"] = claims
    again = await world.crawl(answers, "http://new.test/")
    assert claimed[0] < 1
    assert again.at("new.test")[0] < 1
    assert len(again.urls("blocked")) == 90
    assert [row for row in again.rows["blocked"] if not row["withdrawn"]] == []


async def test_a_budget_of_no_page_ends_at_once(world: World) -> None:
    """`max_pages = 0`: nothing is asked for, and what is known stays queued."""
    crawled = await world.crawl(
        {"http://a.test/": html("A")}, "http://a.test/", crawl={"max_pages": 0}
    )
    assert crawled.log.paths() == []
    assert crawled.urls("queued") == ["http://a.test/"]
    assert crawled.elapsed_s < 1


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("limit", [1, 2, 3, 5])
async def test_lanes_that_reach_a_host_s_page_limit_together(
    world: World, lanes: int, limit: int
) -> None:
    """No lane leaves the last page to another that does the same, and none exceeds the limit."""
    crawled = await world.crawl(
        {"http://a.test/": html("Home", *(f"/{n}" for n in range(9)))},
        "http://a.test/",
        scope={"max_pages_per_host": limit},
        politeness={"delay": 5.0, "concurrency_per_host": lanes},
    )
    assert len(crawled.rows["visited"]) == limit
    assert len(crawled.rows["queued"]) == 10 - limit
    assert crawled.medium.calls["complete"] < 50


async def test_room_is_looked_for_within_a_share_of_the_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at every host in memory costs much where there are thousands."""
    looks: list[str] = []
    next_move = Waiting.next_move

    def slow(self: Waiting, host: HostQueue, **options: bool) -> NextMove | None:
        looks.append(host.slot)
        world.clock._now_s += 0.01
        return next_move(self, host, **options)

    def look() -> None:
        monkeypatch.setattr(Waiting, "next_move", slow)
        assert world.scheduler is not None
        leases = world.scheduler.leases
        leases.make_room()
        found = len(looks)
        assert found > 0
        assert not leases.make_room()
        assert len(looks) == found
        world.clock._now_s += 0.01 * found / ROOM_SHARE
        leases.make_room()
        assert len(looks) > found
        monkeypatch.setattr(Waiting, "next_move", next_move)

    seeds = [f"http://h{n}.test/{page}" for n in range(4) for page in range(4)]
    crawled = await world.crawl(lambda _: html("page"), *seeds, at={2.5: look})
    assert looks
    assert len(crawled.urls("visited")) == 16


async def test_a_robots_txt_that_is_refused_each_day_does_not_hold_a_patient_crawl(
    world: World,
) -> None:
    """Nor does each refusal count as a first try of the page that waits for it."""
    crawled = await world.crawl(
        {"http://a.test/robots.txt": Reply(status=429)},
        "http://a.test/",
        crawl={"patience": 2 * DAY_S},
    )
    assert crawled.urls("queued") == ["http://a.test/"]
    assert DAY_S < crawled.elapsed_s < 3 * DAY_S


async def test_a_sitemap_that_is_read_again_each_day_does_not_hold_a_patient_crawl(
    world: World,
) -> None:
    """Only the pages that it lists may: the host that fails is waited for no longer."""
    readings: list[float] = []

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/robots.txt":
            return text("User-agent: *\nDisallow: /no\nSitemap: http://a.test/map.xml\n")
        if request.url == "http://a.test/map.xml":
            readings.append(world.clock.monotonic())
            return not_found()
        return Reply(status=503) if "//b.test/" in request.url else html("A", "/no")

    crawled = await world.crawl(
        answers,
        "http://a.test/",
        "http://b.test/",
        crawl={"patience": 2 * DAY_S},
        robots={"dialect": "rfc9309"},
        cap_s=20 * DAY_S,
    )
    assert len(readings) > 1
    assert crawled.urls("queued") == ["http://b.test/"]
    assert DAY_S < crawled.elapsed_s < 3 * DAY_S


async def test_hours_that_never_meet_do_not_hold_a_patient_crawl(world: World) -> None:
    """What is queued stays so, and the host is visited when the config gives other hours."""
    answers: dict[str, Reply] = {
        "http://a.test/robots.txt": text("User-agent: *\nDisallow:\nVisit-time: 0000-0500\n"),
        "http://a.test/": html("A"),
    }
    never = {"visit_window": "05:00-14:30"}
    first = await world.crawl(
        answers,
        "http://a.test/",
        crawl={"patience": 2 * DAY_S},
        politeness=never,
        cap_s=20 * DAY_S,
    )
    assert first.urls("queued") == ["http://a.test/"]
    assert first.elapsed_s < 3 * DAY_S
    again = await world.crawl(answers, crawl={"patience": 2 * DAY_S})
    assert again.urls("visited") == ["http://a.test/"]


async def test_hours_that_never_meet_put_off_no_host_that_is_out_of_reach(world: World) -> None:
    """It is released without URLs that could be requested now, but other hours may follow."""
    reached = False

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow:\nVisit-time: 2000-0500\n")
        return html("A") if reached else FailureCode.CONNECT

    def stop_with_other_hours() -> None:
        assert world.scheduler is not None
        for host in world.scheduler.frontier.permits:
            never = parse_window("06:00-07:00")
            host.pace.rules = structs.replace(host.pace.rules, visit_window=never)
        world.scheduler.stop()

    await world.crawl(answers, "http://a.test/", at={5: stop_with_other_hours})
    reached = True
    again = await world.crawl(answers, crawl={"patience": 2 * DAY_S})
    assert again.urls("visited") == ["http://a.test/"]


@pytest.mark.parametrize("by_limit", [False, True])
@pytest.mark.parametrize("slow", ["/robots.txt", "/slow"])
async def test_requests_in_flight_at_the_end_have_five_seconds(
    world: World, slow: str, by_limit: bool
) -> None:
    """An answer that never ends keeps no crawl from ending, and its URL is not charged."""
    patient_s = 600.0

    def answers(request: Request) -> Reply:
        reply = not_found() if request.url.endswith("/robots.txt") else html("ParsedPage", "/slow")
        return replace(reply, delay_s=patient_s if request.url.endswith(slow) else 0.0)

    def stop() -> None:
        assert world.scheduler
        world.scheduler.stop()

    limits = {"max_time": 20.0} if by_limit else {}
    start_s = world.clock.monotonic()
    at = {} if by_limit else {20.0: stop}
    first = await world.crawl(answers, "http://a.test/", at=at, crawl=limits)
    assert world.clock.monotonic() - start_s == pytest.approx(25.0, abs=1.0)
    assert first.rows["failed"] == []
    patient_s = 0.0
    again = await world.crawl(answers)
    assert {row["url"] for row in again.rows["visited"]} == {
        "http://a.test/",
        "http://a.test/slow",
    }
    assert all(row["breaches"] == 0 for row in again.rows["hosts"])


@pytest.mark.parametrize("by_limit", [False, True])
async def test_large_pages_at_the_end_have_five_seconds(
    world: World, monkeypatch: pytest.MonkeyPatch, by_limit: bool
) -> None:
    """Pages that take long to parse, one after the other, keep no crawl from ending: what is not
    parsed by then stays queued, and is not charged."""
    parsing_s = 12.0

    async def slowly(work: Callable[[], ParsedPage]) -> ParsedPage:
        await world.wait(parsing_s)
        return work()

    def stop() -> None:
        assert world.scheduler
        world.scheduler.stop()

    monkeypatch.setattr("crawler.documents.page_parser.LARGE_BYTES", 1_000)
    monkeypatch.setattr("crawler.processing.worker.LARGE_BYTES", 1_000)
    monkeypatch.setattr("crawler.documents.page_parser.in_daemon_thread", slowly)
    seeds = [f"http://h{n}.test/" for n in range(8)]
    answers = dict.fromkeys(seeds, html("x" * 1_000))
    limits = {"max_time": 20.0} if by_limit else {}
    first = await world.crawl(answers, *seeds, at={} if by_limit else {20.0: stop}, crawl=limits)
    assert first.elapsed_s == pytest.approx(25.0, abs=1.0)
    assert 1 <= len(first.urls("visited")) <= 2
    assert len(first.urls("visited")) + len(first.urls("queued")) == 8
    assert {row["attempts"] for row in first.rows["queued"]} == {0}
    parsing_s = 0.0
    again = await world.crawl(answers)
    assert len(again.urls("visited")) == 8
    assert all(row["breaches"] == 0 for row in again.rows["hosts"])


async def test_silent_hosts_at_the_end_are_no_outage(world: World) -> None:
    """All of their requests are broken off in the same moment."""

    def answers(request: Request) -> Reply:
        reply = not_found() if request.url.endswith("/robots.txt") else html("ParsedPage", "/slow")
        return replace(reply, delay_s=600.0 if request.url.endswith("/slow") else 0.0)

    seeds = [f"http://h{n}.test/" for n in range(64)]
    crawled = await world.crawl(answers, *seeds, crawl={"max_time": 20.0, "patience": DAY_S})
    assert crawled.elapsed_s < 30.0


async def test_silent_robots_files_at_the_end_are_not_requested_again(world: World) -> None:
    """Their requests are broken off once, and no others begin: none of the files is needed."""
    begun: list[float] = []

    def answers(request: Request) -> Reply:
        begun.append(world.clock.monotonic())
        return replace(not_found(), delay_s=600.0)

    seeds = [f"http://h{n}.trap.test/" for n in range(64)]
    limits = {"max_time": 20.0, "patience": DAY_S}
    crawled = await world.crawl(answers, *seeds, crawl=limits, fetch={"timeout": 600.0})
    assert begun
    assert crawled.elapsed_s < 30.0
    assert len(crawled.urls("queued")) == 64


@pytest.mark.parametrize(("patience", "visited"), [("3d", ["http://a.test/"]), ("1h", [])])
async def test_a_site_that_its_robots_txt_closes_is_asked_again_when_that_expires(
    world: World, patience: str, visited: list[str]
) -> None:
    """As long as the crawl has the patience. A 403 closes a site in one of these dialects."""
    opens_s = world.clock.monotonic() + 1.5 * DAY_S

    def answers(request: Request) -> Reply:
        if request.url.endswith("/robots.txt") and world.clock.monotonic() < opens_s:
            return text("", status=403)
        return not_found() if request.url.endswith("/robots.txt") else html("Page")

    crawled = await world.crawl(
        answers,
        "http://a.test/",
        robots={"dialect": ["slurp", "res1996"]},
        crawl={"patience": patience},
    )
    assert crawled.urls("visited") == visited
    fetched = crawled.at(path="/robots.txt")
    assert fetched == pytest.approx([n * DAY_S for n in range(3 if visited else 1)], abs=1)
    assert crawled.medium.calls.total() < 50
