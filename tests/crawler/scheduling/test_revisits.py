"""Pages that are visited again, on a clock that jumps: when, how, and in which state they are."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from crawler.fetching.request import Request
from crawler.scheduling.due_work import REVISIT_EVERY_S
from crawler.testing import Reply, html, redirect, text
from policies.retries import FailureCode
from policies.url import path_of

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
ADAPTIVE = {"mode": "adaptive", "interval": "7d", "min_interval": "1h", "max_interval": "30d"}
FIXED = {"mode": "fixed", "interval": "1d"}

pytestmark = pytest.mark.usefixtures("looks_hourly")


def stop(world: Any) -> Callable[[], None]:
    return lambda: world.scheduler.stop()  # noqa: PLW0108 - there is no engine yet


async def live(world: Any, answers: Any, *seeds: str, days: float, **sections: Any) -> Any:
    """A crawl that lives on for so long."""
    return await world.crawl(
        answers, *seeds, forever=True, at={days * DAY_S: stop(world)}, cap_s=(days + 1) * DAY_S,
        **sections,
    )  # fmt: skip


async def test_a_year_of_adaptive_revisits(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed pages converge to their interval, unchanged ones to the bound; gone ones are asked
    for less and less; nothing is early."""
    monkeypatch.setattr("crawler.scheduling.host_supply.IDLE_LOOK_S", DAY_S)
    began_s = world.clock.monotonic()

    def version(every_s: float) -> int:
        return int((world.clock.monotonic() - began_s) // every_s)

    def answers(request: Request) -> Reply:
        path = request.url.removeprefix("http://a.test")
        match path:
            case "/robots.txt":
                return text("User-agent: *\nDisallow:\n")
            case "/":
                return html("Home", "/daily", "/weekly", "/still", "/gone")
            case "/daily":
                return html(f"Day {version(DAY_S)}")
            case "/weekly":
                return html(f"Week {version(7 * DAY_S)}")
            case "/still":
                return html("Still")
        return html("Gone") if version(3 * DAY_S) == 0 else Reply(status=410)

    crawled = await live(world, answers, "http://a.test/", days=365, revisit=ADAPTIVE)
    late = {
        path: [at for at in crawled.at(path=path) if at > 180 * DAY_S]
        for path in ("/daily", "/weekly", "/still", "/gone")
    }
    rests = {path: [b - a for a, b in itertools.pairwise(at)] for path, at in late.items()}
    mean_s = {path: sum(some) / len(some) for path, some in rests.items() if some}
    assert 0.5 * DAY_S < mean_s["/daily"] < 0.75 * DAY_S
    assert 3.5 * DAY_S < mean_s["/weekly"] < 5.25 * DAY_S
    assert all(rest_s == pytest.approx(30 * DAY_S, rel=0.001) for rest_s in rests["/still"])
    assert len(late["/gone"]) <= 2
    assert len(crawled.at(path="/gone")) < 10
    rows = {row["url"]: row for row in crawled.rows["visited"]}
    assert rows["http://a.test/gone"]["status"] == 410
    assert rows["http://a.test/still"]["changed_at"] == rows["http://a.test/still"]["fetched_at"]
    assert rows["http://a.test/daily"]["visits"] == len(crawled.at(path="/daily"))
    assert crawled.urls("queued") == []
    assert len(rows) == 5
    assert crawled.rows["hosts"][0]["breaches"] == 0
    assert len(crawled.at(path="/robots.txt")) > 250  # whenever it is older than a day


async def test_off_by_default(world: Any) -> None:
    crawled = await live(world, {"http://a.test/": html("A")}, "http://a.test/", days=60)
    assert len(crawled.at(path="/")) == 1


async def test_at_a_fixed_interval_and_for_one_site_alone(world: Any) -> None:
    answers = {"http://a.test/": html("A"), "http://b.test/": html("B")}
    crawled = await live(
        world, answers, "http://a.test/", "http://b.test/", days=10.5,
        site={"a.test": {"mode": "fixed", "interval": "1d"}},
    )  # fmt: skip
    assert len(crawled.at("a.test", "/")) == 11
    assert len(crawled.at("b.test", "/")) == 1


@pytest.mark.parametrize("slow_s", [0.0, 0.05, 0.3])
async def test_no_revisit_is_missed_while_a_commit_is_under_way(
    world: Any, slow_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What falls due next is asked for while a page is in flight: the answer knows nothing of its
    next visit, but of another one much later."""
    monkeypatch.setattr("crawler.scheduling.host_supply.IDLE_LOOK_S", 30 * DAY_S)
    world.medium.slow_s = slow_s
    page = Reply(body='<a href="/gone">Gone</a>', delay_s=1.5 * slow_s)
    answers = {"http://a.test/": page, "http://a.test/gone": Reply(status=410)}
    crawled = await live(world, answers, "http://a.test/", days=6.5, revisit=FIXED)
    assert len(crawled.at(path="/")) == 7
    assert len(crawled.at(path="/gone")) == 3


async def test_the_server_may_say_that_nothing_changed(world: Any) -> None:
    seen: list[tuple[str | None, str | None]] = []

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return text("")
        asked = (request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since"))
        seen.append(asked)
        headers = {"ETag": '"1"', "Last-Modified": "Tue, 05 Mar 2024 10:30:00 GMT"}
        if asked[0] == '"1"':
            return Reply(status=304, headers={"ETag": '"1"'})
        reply = html("A", "/2") if "/2" not in request.url else html("2")
        return Reply(body=reply.body, headers=headers)

    crawled = await live(world, answers, "http://a.test/", days=3.5, revisit=FIXED)
    validators = ('"1"', "Tue, 05 Mar 2024 10:30:00 GMT")
    assert Counter(seen) == {(None, None): 2, validators: 6}
    assert world.scheduler.committer.rates.pages == 8  # unchanged pages count as well
    rows = {row["url"]: row for row in crawled.rows["visited"]}
    row = rows["http://a.test/"]
    assert (row["status"], row["title"], row["visits"]) == (200, "A", 4)
    assert row["changed_at"] == row["fetched_at"] < row["checked_at"] < row["next_visit_at"]


async def test_a_change_is_read_and_its_new_links_are_followed(world: Any) -> None:
    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/":
            day = int(world.clock.monotonic() // DAY_S)
            return html(f"Day {day}", f"/{day}")
        return html("RobotsFetch")

    crawled = await live(world, answers, "http://a.test/", days=2.5, revisit=FIXED)
    assert len(crawled.rows["visited"]) == 4


async def test_what_robots_txt_forbids_by_now_is_withdrawn(world: Any) -> None:
    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            old = world.clock.monotonic() - began_s < 2 * DAY_S
            return text("User-agent: *\nDisallow:" + ("" if old else " /2"))
        return html("A", "/2")

    began_s = world.clock.monotonic()
    crawled = await live(world, answers, "http://a.test/", days=6, revisit=FIXED)
    (row,) = crawled.rows["blocked"]
    assert (row["url"], row["withdrawn"]) == ("http://a.test/2", 1)
    assert crawled.urls("visited") == ["http://a.test/"]


@pytest.mark.parametrize("trouble", [FailureCode.TIMEOUT, FailureCode.CONNECT, 503, 500])
async def test_a_visit_that_fails_leaves_the_page_and_is_tried_again(
    world: Any, trouble: FailureCode | int
) -> None:
    began_s = world.clock.monotonic()

    def answers(request: Request) -> Reply | FailureCode:
        at_s = world.clock.monotonic() - began_s
        if request.url.endswith("robots.txt") and trouble is not FailureCode.CONNECT:
            return text("")
        if 0.9 * DAY_S < at_s < 1.4 * DAY_S:
            return trouble if isinstance(trouble, FailureCode) else Reply(status=trouble)
        return text("") if request.url.endswith("robots.txt") else html("A")

    crawled = await live(world, answers, "http://a.test/", days=2.2, revisit=FIXED)
    assert crawled.urls("visited") == ["http://a.test/"]
    assert crawled.urls("failed") == crawled.urls("queued") == []
    (row,) = crawled.rows["visited"]
    assert row["visits"] >= 2
    late = [at for at in crawled.at(path="/") if at > 1.4 * DAY_S]
    assert late


async def test_a_redirect_that_leads_elsewhere_is_followed(world: Any) -> None:
    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/":
            return redirect("/1" if world.clock.monotonic() - began_s < DAY_S / 2 else "/2")
        return html("A")

    began_s = world.clock.monotonic()
    crawled = await live(world, answers, "http://a.test/", days=1.5, revisit=FIXED)
    rows = {row["url"]: row for row in crawled.rows["visited"]}
    assert rows["http://a.test/"]["redirect_url"] == "http://a.test/2"
    assert "http://a.test/2" in rows


async def test_a_redirect_to_what_drop_params_shortens_is_unchanged(world: Any) -> None:
    tokens = itertools.count()

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/":
            return redirect(f"/1?sid={next(tokens)}&page=2")
        return html(request.url)

    scope = {"drop_params": ["sid"]}
    crawled = await live(world, answers, "http://a.test/", days=5.5, revisit=FIXED, scope=scope)
    row = {row["url"]: row for row in crawled.rows["visited"]}["http://a.test/"]
    assert row["redirect_url"] == "http://a.test/1?page=2"
    assert row["visits"] == 6
    assert row["changed_at"] == row["fetched_at"] < row["checked_at"] - 4 * DAY_S


async def test_a_plain_crawl_visits_what_is_due_and_ends(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.scheduling.host_leases.HOSTS_LEASED_MAX", 2)
    answers = {f"http://{host}.test/": html("A") for host in "abc"}
    seeds = list(answers)
    crawled = await world.crawl(answers, *seeds, revisit=FIXED)
    assert crawled.elapsed_s < 60
    await world.wait(1.5 * DAY_S)
    crawled = await world.crawl(answers, *seeds, revisit=FIXED)
    assert crawled.elapsed_s < 60
    assert [row["visits"] for row in crawled.rows["visited"]] == [2, 2, 2]
    await world.wait(1.5 * DAY_S)
    crawled = await world.crawl(answers, *seeds)
    assert crawled.entries() == []


async def test_hosts_with_pages_due_are_leased_while_a_crawl_is_busy(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in a look, and one look in five seconds."""
    monkeypatch.setattr("crawler.scheduling.due_work.REVISIT_HOSTS", 1)
    answers = {"http://a.test/": html("A"), "http://b.test/": Reply(delay_s=2)}
    await world.crawl(answers, *answers, revisit=FIXED)
    await world.wait(DAY_S - 600)

    def busy(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return text("")
        return html("Page", "/1" + path_of(request.url)[1:] if "busy" in request.url else "/")

    crawled = await live(
        world, busy, "http://busy.test/1", days=0.01, revisit=FIXED,
        site={"busy.test": {"delay": 100}},
    )  # fmt: skip
    (first_s, *_), (second_s, *_) = crawled.at("a.test"), crawled.at("b.test")
    assert first_s == pytest.approx(600, abs=5)
    assert second_s == pytest.approx(first_s + REVISIT_EVERY_S)


async def test_pages_of_before_are_visited_again_when_that_is_wanted(world: Any) -> None:
    answers = {"http://a.test/": html("A", "/2"), "http://a.test/2": html("2")}
    await world.crawl(answers, "http://a.test/")
    await world.wait(3 * DAY_S)
    crawled = await live(world, answers, "http://a.test/", days=0.5, revisit=FIXED)
    assert len(crawled.at(path="/")) == len(crawled.at(path="/2")) == 1
    assert [row["visits"] for row in crawled.rows["visited"]] == [2, 2]


async def test_killed_while_it_visits_again_it_does_so_again(world: Any) -> None:
    answers = {"http://a.test/": html("A")}
    await world.crawl(answers, "http://a.test/", revisit=FIXED)
    await world.wait(2 * DAY_S)

    def dying(request: Request) -> Reply:
        if request.url == "http://a.test/":
            world.kill()
        return html("A")

    crawled = await world.crawl(dying, "http://a.test/", revisit=FIXED)
    assert crawled.urls("visited") == ["http://a.test/"]
    await world.wait(2)  # its host has rested
    crawled = await world.crawl(answers, "http://a.test/", revisit=FIXED)
    assert len(crawled.at(path="/")) == 1
    assert crawled.rows["visited"][0]["visits"] == 2


async def test_sitemap_hints_count(world: Any) -> None:
    began_s = world.clock.monotonic()
    entries = (
        "<url><loc>http://a.test/hourly</loc><changefreq>hourly</changefreq></url>"
        "<url><loc>http://a.test/yearly</loc><changefreq>yearly</changefreq></url>"
    )

    def answers(request: Request) -> Reply:
        day = int((world.clock.monotonic() - began_s) // DAY_S)
        if request.url.endswith("robots.txt"):
            return text("Sitemap: http://a.test/map.xml")
        if request.url.endswith("map.xml"):
            changed = datetime.fromtimestamp(world.clock.wall() - HOUR_S, tz=UTC).isoformat()
            lastmod = f"<lastmod>{changed}</lastmod>" if day >= 4 else ""
            return Reply(
                body=f"<urlset>{entries}<url><loc>http://a.test/n</loc>{lastmod}</url></urlset>"
            )
        return html(request.url)

    crawled = await live(world, answers, "http://a.test/", days=6.5, revisit=ADAPTIVE)
    assert crawled.at(path="/hourly")[1] == pytest.approx(HOUR_S, abs=60)
    assert len(crawled.at(path="/yearly")) == 1
    assert len(crawled.at(path="/n")) >= 2  # its lastmod is news, before its week is over


async def test_a_host_that_has_had_its_pages_is_visited_again_all_the_same(world: Any) -> None:
    answers = {f"http://a.test/{n}": html("A") for n in range(5)}
    answers["http://a.test/"] = html("Home", *(f"/{n}" for n in range(5)))
    crawled = await live(
        world, answers, "http://a.test/", days=2.5, revisit=FIXED, scope={"max_pages_per_host": 3}
    )
    assert [row["visits"] for row in crawled.rows["visited"]] == [3, 3, 3]
    assert len(crawled.rows["queued"]) == 3
    assert crawled.waiting["a.test"][1] == "scope.max_pages_per_host has been reached"


async def test_more_such_hosts_than_fit_are_visited_again_too(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.scheduling.host_leases.HOSTS_LEASED_MAX", 3)
    monkeypatch.setattr("crawler.scheduling.host_leases.CLAIM_HOSTS", 3)
    seeds = [f"http://h{n}.test/" for n in range(8)]
    answers = {seed: html("Home", "/more") for seed in seeds}
    crawled = await live(
        world, answers, *seeds, days=2.5, revisit=FIXED, scope={"max_pages_per_host": 1}
    )
    assert [row["visits"] for row in crawled.rows["visited"]] == 8 * [3]


async def test_sitemaps_are_read_again_daily_with_validators(world: Any) -> None:
    began_s = world.clock.monotonic()
    asked: list[str | None] = []

    def answers(request: Request) -> Reply | FailureCode:
        day = int((world.clock.monotonic() - began_s) // DAY_S)
        if request.url.endswith("robots.txt"):
            return text("Sitemap: http://a.test/map.xml")
        if request.url.endswith("map.xml"):
            asked.append(request.headers.get("If-None-Match"))
            if day == 3:
                return FailureCode.TIMEOUT
            if day < 5 and asked[-1] == '"1"':
                return Reply(status=304)
            pages = "".join(f"<url><loc>http://a.test/{n}</loc></url>" for n in range(day + 1))
            return Reply(body=f"<urlset>{pages}</urlset>", headers={"ETag": '"1"'})
        return html("A")

    crawled = await live(
        world, answers, "http://a.test/", days=5.5,
        revisit={"mode": "fixed", "interval": "300d"},
    )  # fmt: skip
    assert 6 <= len(asked) < 30
    assert asked[0] is None
    assert set(asked[1:4]) == {'"1"'}
    assert (
        asked.count(None) <= 2
    )  # after a day without an answer it is read whole, as one named anew
    assert "http://a.test/5" in crawled.urls("visited")
    assert crawled.urls("failed") == crawled.urls("queued") == []
    (row,) = crawled.rows["sitemaps"]
    assert (row["status"], row["urls"]) == (200, 6)


async def test_a_crawl_that_lives_long_reads_what_an_index_lists_to_the_end(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on what indexes list is not used up by reading the same one day after day."""
    monkeypatch.setattr("crawler.processing.sitemaps.CHILDREN_MAX", 3)
    began_s = world.clock.monotonic()

    def answers(request: Request) -> Reply:
        day = int((world.clock.monotonic() - began_s) // DAY_S)
        if request.url.endswith("robots.txt"):
            return text("Sitemap: http://a.test/index.xml")
        if request.url.endswith("index.xml"):
            maps = "".join(f"<sitemap><loc>/map{n}.xml</loc></sitemap>" for n in range(2))
            return Reply(body=f"<sitemapindex>{maps}</sitemapindex>")
        if request.url.endswith(".xml"):
            return Reply(body=f"<urlset><url><loc>{request.url}/{day}</loc></url></urlset>")
        return html("A")

    crawled = await live(
        world, answers, "http://a.test/", days=6.5, revisit={"mode": "fixed", "interval": "300d"}
    )
    assert "http://a.test/map1.xml/5" in crawled.urls("visited")
    assert not crawled.rows["skipped"]


async def test_a_sitemap_that_is_forbidden_by_now_is_not_read_again(world: Any) -> None:
    began_s = world.clock.monotonic()

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            day = int((world.clock.monotonic() - began_s) // DAY_S)
            return text("User-agent: *\nDisallow: /map\n" if day else "Sitemap: /map.xml")
        if request.url.endswith("map.xml"):
            return Reply(body="<urlset/>")
        return html("A")

    crawled = await live(world, answers, "http://a.test/", days=3.5, revisit=FIXED)
    assert len(crawled.at(path="/map.xml")) == 1
    assert crawled.urls("sitemaps") == ["http://a.test/map.xml"]


async def test_new_urls_and_old_ones_share_a_host(world: Any) -> None:
    """A site that grows without end is revisited as well."""

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/":
            return html("Home", *(f"/{n}" for n in range(20)))
        number = int(request.url.rpartition("/")[2]) if request.url[-1].isdigit() else 0
        return html("ParsedPage", *(f"/{number * 20 + n}" for n in range(20)))

    crawled = await live(
        world, answers, "http://a.test/", days=0.5, politeness={"delay": 60},
        revisit={"mode": "fixed", "interval": "2h"},
    )  # fmt: skip
    visits = Counter(entry.path for entry in crawled.entries())
    again = sum(count - 1 for path, count in visits.items() if path != "/robots.txt")
    assert 0.15 < again / visits.total() < 0.35


async def test_redirects_met_by_revisits_widen_no_scope(world: Any) -> None:
    """A seed, and the page that it led to at first, redirect to a new host at every revisit."""
    new = itertools.count(1)
    asked: Counter[str] = Counter()

    def answers(request: Request) -> Reply:
        asked[request.url] += 1
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow:\n")
        if request.url == "http://a.test/" or asked[request.url] > 1:
            return redirect(f"http://h{next(new)}.test/")
        return html("Home", "/a")

    crawled = await live(world, answers, "http://a.test/", days=4.5, revisit=FIXED)
    assert asked["http://a.test/"] == asked["http://h1.test/"] == 5
    assert {entry.host for entry in crawled.log.requests()} == {"a.test", "h1.test"}
    roots = [url async for urls in world.store.seeds() for url in urls]
    assert roots == ["http://a.test/", "http://h1.test/"]


@pytest.mark.parametrize("added", [{"X-Robots-Tag": "noindex, nofollow"}, {"TDM-Reservation": "1"}])
async def test_what_a_304_says_of_a_page_has_it_requested_whole(
    world: Any, added: dict[str, str]
) -> None:
    """As soon as its host may be contacted, once."""
    began_s = world.clock.monotonic()
    whole: list[float] = []

    def answers(request: Request) -> Reply:
        at_s = world.clock.monotonic() - began_s
        said = added if at_s > 1.5 * DAY_S else {}
        if request.headers.get("If-None-Match"):
            return Reply(status=304, headers={"ETag": '"1"', **said})
        if request.url == "http://a.test/":
            whole.append(at_s)
        return Reply(body=html("A").body, headers={"ETag": '"1"', **said})

    crawled = await live(world, answers, "http://a.test/", days=4.5, revisit=FIXED)
    first, again = whole
    assert first < 10.0
    assert 2 * DAY_S < again < 2 * DAY_S + 10.0
    (row,) = crawled.rows["visited"]
    assert row["indexable"] == row["followable"] == int("X-Robots-Tag" not in added)
    assert row["usage"] == ("tdm-reservation: 1 (header)" if "TDM-Reservation" in added else None)
    assert row["visits"] == 6


async def test_a_page_that_ended_does_not_return_when_the_clock_is_set_back(world: Any) -> None:
    end = datetime.fromtimestamp(world.clock.wall() + 1.5 * DAY_S, UTC).isoformat()

    def answers(request: Request) -> Reply:
        return Reply(body="A", headers={"X-Robots-Tag": f"unavailable_after: {end}"})

    def set_back() -> None:
        world.clock.set_wall(-30 * DAY_S)

    crawled = await world.crawl(
        answers, "http://a.test/", forever=True, revisit=FIXED, cap_s=6 * DAY_S,
        at={2.5 * DAY_S: set_back, 5 * DAY_S: stop(world)},
    )  # fmt: skip
    (row,) = crawled.rows["visited"]
    assert row["indexable"] == 0
    assert row["visits"] == 6
