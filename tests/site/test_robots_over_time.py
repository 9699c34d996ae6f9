"""Laws 2 and 4 (docs/laws.md): a robots.txt that is unavailable, arrives late, or is on another
host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.testing import (
    Handler,
    LocalWeb,
    Pages,
    ReceivedRequest,
    Reply,
    Site,
    html,
    redirect,
    text,
)

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

DELAY_S = 0.05
TIMER_S = 1e-6
RULES = "User-agent: *\nDisallow: /half/\n"
PAGES = [f"/{part}/{n}" for n in range(20) for part in ("half", "open")]


def site_with(robots: Reply | Handler) -> Pages:
    return {
        "/robots.txt": robots,
        "/": html("Home", *PAGES),
        **{path: html(path, "/") for path in PAGES},
    }


def first_failing(*failures: Reply, then: Reply) -> Handler:
    left = list(failures)
    return lambda _: left.pop(0) if left else then


async def test_slurp_a_late_robots_txt_is_obeyed_at_once(courtly: Courtly) -> None:
    """Unavailable means unrestricted; the crawler keeps trying and obeys a file that arrives."""
    site = site_with(first_failing(text("down", status=503), then=text(RULES)))
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", politeness={"delay": 0.1, "latency_factor": 0})

        requests = web.log.requests("a.test")
        asked = [n for n, entry in enumerate(requests) if entry.path == "/robots.txt"]
        assert len(asked) == 2
        assert asked[0] == 0
        before, after = requests[1 : asked[1]], requests[asked[1] + 1 :]
        fetched = {e.path for e in before if e.path.startswith("/half/")}
        assert fetched, "while it cannot be had, nothing is forbidden"
        assert [e.path for e in after if e.path.startswith("/half/")] == []
        assert len(requests) == len({e.path for e in requests}) + 1, "each page once"

        assert requests[asked[1]].start_s - requests[0].end_s >= 2 - TIMER_S
        gaps = web.log.gaps("a.test")
        assert min(gaps[1 : asked[1]]) >= 0.2 - TIMER_S, "the delay is doubled meanwhile"
        assert min(gaps) >= 0.1 - TIMER_S

        opened = [path for path in PAGES if path.startswith("/open/")]
        assert courtly.urls("visited") == sorted(web.url("a.test", p) for p in ["/", *opened])
        halves = [path for path in PAGES if path.startswith("/half/")]
        assert courtly.urls("blocked") == sorted(web.url("a.test", p) for p in halves)
        withdrawn = sorted(web.url("a.test", path) for path in fetched)
        assert courtly.urls("blocked", "withdrawn = 1") == withdrawn
        assert courtly.rows("blocked", "DISTINCT reason, rule, line") == [
            ("robots", "Disallow: /half/", 2)
        ]


async def test_a_later_run_obeys_the_file_that_came_in_between(courtly: Courtly) -> None:
    """Law 4 across runs: the robots.txt of an origin that was open because it was unavailable is
    requested again when due."""
    robots = [text("down", status=500)]
    site = dict(site_with(lambda _: robots[0]))
    site["/"] = html("Home", "/half/0", "/open/0")
    for path in ("/half/0", "/open/0"):
        site[path] = html(path)
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test")
        assert len(courtly.urls("visited")) == 3
        robots[0] = text(RULES)
        asked = len(web.log.paths("a.test"))
        # the retry falls due 2 s after the first try: while another host is still busy
        web.sites["b.test"] = {"/": Reply(body="slow", delay_s=2.1)}
        await courtly.crawl(web, "b.test")
        assert web.log.paths("a.test")[asked:] == ["/robots.txt"]
        assert courtly.urls("blocked", "withdrawn = 1") == [web.url("a.test", "/half/0")]
        assert len(courtly.urls("visited")) == 3


async def test_robots_txt_of_another_host_governs_the_first_origin(courtly: Courtly) -> None:
    """Redirects use permits of their hosts, and the copy of the final origin is shared."""
    async with LocalWeb() as web:
        pages = {
            "/": html("Home", "/half/1", "/open/1"),
            "/half/1": html("H"),
            "/open/1": html("O"),
        }
        web.sites["b.test"] = {"/robots.txt": text(RULES), **pages}
        web.sites["a.test"] = {
            "/robots.txt": redirect(web.url("b.test", "/robots.txt"), status=301),
            **pages,
        }
        await courtly.crawl(web, "a.test", "b.test")
        assert sorted(web.log.paths("a.test")) == ["/", "/open/1", "/robots.txt"]
        assert sorted(web.log.paths("b.test")) == ["/", "/open/1", "/robots.txt"]
        assert courtly.urls("blocked") == [web.url(h, "/half/1") for h in ("a.test", "b.test")]
        for host in ("a.test", "b.test"):
            assert min(web.log.gaps(host)) >= DELAY_S - TIMER_S
            assert web.log.peak_concurrency(host) == 1
        robots_of_b = next(e for e in web.log.requests("b.test") if e.path == "/robots.txt")
        page_of_a = next(e for e in web.log.requests("a.test") if e.path == "/")
        assert page_of_a.start_s >= robots_of_b.end_s


async def test_a_sixth_redirect_of_robots_txt_counts_as_absent(courtly: Courtly) -> None:
    site: dict[str, Reply | Handler] = {f"/{n}": redirect(f"/{n + 1}") for n in range(1, 9)}
    site |= {"/robots.txt": redirect("/1"), "/": html("Home")}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test")
        assert web.log.paths("a.test") == ["/robots.txt", "/1", "/2", "/3", "/4", "/5", "/"]
        assert min(web.log.gaps("a.test")) >= DELAY_S - TIMER_S
        assert courtly.urls("visited") == [web.url("a.test")]
        assert courtly.rows("robots", "state, status") == [("absent", 302)]


async def test_robots_txt_is_asked_of_every_port_apart(courtly: Courtly) -> None:
    """Law 3 (docs/laws.md)."""
    closed: Site = {"/robots.txt": text("User-agent: *\nDisallow: /\n"), "/": html("Home")}
    async with LocalWeb({"a.test": closed}) as web, LocalWeb({"a.test": {"/": html("X")}}) as other:
        await courtly.crawl(web, "a.test", other.url("a.test"))
        assert web.log.paths("a.test") == ["/robots.txt"]
        assert other.log.paths("a.test") == ["/robots.txt", "/"]
        assert courtly.urls("blocked") == [web.url("a.test")]


async def test_our_own_token_chooses_the_record(courtly: Courtly) -> None:
    robots = "User-agent: examplebot\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"
    site: Site = {
        "/robots.txt": text(robots),
        "/": html("Home", "/a", "/b"),
        "/a": html("A"),
        "/b": html("B"),
    }
    agent = "examplebot/1.0 (+https://example.com/bot)"
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test", crawl={"user_agent": agent})
        assert web.log.paths("a.test") == ["/robots.txt", "/", "/b"]
        assert {entry.headers["user-agent"] for entry in web.log} == {agent}


async def test_an_html_page_in_place_of_robots_txt_forbids_nothing(courtly: Courtly) -> None:
    site: Site = {"/robots.txt": html("Disallow: /"), "/": html("Home")}
    async with LocalWeb({"a.test": site}) as web:
        await courtly.crawl(web, "a.test")
        assert courtly.urls("visited") == [web.url("a.test")]


async def test_pages_never_come_before_a_slow_robots_txt(
    courtly: Courtly,
) -> None:
    async def slow(_: ReceivedRequest) -> Reply:
        return Reply(body=RULES, content_type="text/plain", delay_s=0.3)

    async with LocalWeb({"a.test": {"/robots.txt": slow, "/": html("Home", "/half/1")}}) as web:
        await courtly.crawl(web, "a.test")
        assert web.log.paths("a.test") == ["/robots.txt", "/"]
        assert web.log.gaps("a.test")[0] >= DELAY_S - TIMER_S
