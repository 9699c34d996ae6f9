"""Pages over a real socket, with made-up data: what they show, do and refuse to run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote_plus

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from yarl import URL

from crawler.clock import RealClock
from crawler.console import add_console
from crawler.daemon.http.application import build
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.problem import Problem
from crawler.operator_commands import (
    AddSeeds,
    HostCommand,
    PauseCrawl,
    PauseHosts,
    Reload,
    ResumeCrawl,
    ResumeHosts,
    RetryFailed,
    SlowHosts,
)

HOSTILE = '"><img src=x onerror=alert(1)><script>alert(2)</script>'
PAGES = [
    "/", "/hosts", "/host?host=a.test", "/urls", "/urls?state=failed", "/urls?state=visited",
    "/urls/skipped", "/blocked", "/url", "/tester", "/seeds", "/config",
]  # fmt: skip


class Site:
    """The pages, requested as by a browser without JavaScript."""

    def __init__(self, client: aiohttp.ClientSession, server: TestServer) -> None:
        self._client = client
        self._server = server

    async def get(self, path: str, status: int = 200, *, live: bool = False) -> str:
        url = self._server.make_url("/").with_path(path.partition("?")[0])
        url = url.with_query(path.partition("?")[2]) if "?" in path else url
        headers = {"X-Live": "1"} if live else {}
        async with self._client.get(url, headers=headers) as answer:
            assert answer.status == status
            return await answer.text()

    async def post(
        self, path: str, *, follow: bool = True, **fields: str
    ) -> tuple[int, str, aiohttp.ClientResponse]:
        url = self._server.make_url(path)
        async with self._client.post(url, data=fields, allow_redirects=follow) as answer:
            return answer.status, await answer.text(), answer

    async def head(self, path: str, *, follow: bool = True) -> aiohttp.ClientResponse:
        url = URL(str(self._server.make_url("/")) + path.lstrip("/"), encoded=True)
        async with self._client.get(url, allow_redirects=follow) as answer:
            await answer.read()
            return answer


@pytest.fixture
async def site(answers: Any) -> AsyncIterator[Site]:
    async with serving(answers) as site:
        yield site


@contextlib.asynccontextmanager
async def serving(answers: Any, token: str = "") -> AsyncIterator[Site]:
    clock = RealClock()
    app = build(answers, HttpSettings(token=token), clock=clock)
    add_console(app, answers, Monitor(clock))
    headers = {"Accept": "text/html,*/*"}
    jar = aiohttp.CookieJar(unsafe=True)  # also for an address
    async with (
        TestServer(app) as server,
        aiohttp.ClientSession(headers=headers, cookie_jar=jar) as client,
    ):
        yield Site(client, server)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(html: str, name: str) -> list[dict[str, str | None]]:
    parser = Tags()
    parser.feed(html)
    return [attributes for tag, attributes in parser.found if tag == name]


async def test_every_page_is_served_with_its_title_under_a_strict_policy(site: Site) -> None:
    for path in PAGES:
        html = await site.get(path)
        assert html.count("<h1") == 1, path
        assert re.search(r"<title>(⚠ )?Running · [^<]+ · news</title>", html), path
        answer = await site.head(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy, path
        parser = Tags()
        parser.feed(html)
        for tag, attributes in parser.found:
            assert "style" not in attributes, tag
            assert not [name for name in attributes if name.startswith("on")], tag
            assert tag != "style", path
            if tag == "script":
                assert (attributes["src"] or "").startswith("/static/"), path


async def test_all_files_are_local_and_immutable(site: Site) -> None:
    html = await site.get("/")
    files = [tag["href"] for tag in tags(html, "link")] + [
        tag["src"] for tag in tags(html, "script")
    ]
    assert len(files) == 3
    for file in files:
        assert file is not None
        assert re.fullmatch(r"/static/[a-z]+\.[0-9a-f]{10}\.(css|js|svg)", file)
        assert "immutable" in (await site.head(file)).headers["Cache-Control"]
    assert (await site.head("/static/nope.css")).status == 404


async def test_what_comes_from_the_web_is_text(site: Site, answers: Any) -> None:
    answers.files = {"http://a.test": f"User-agent: *\nDisallow: /{HOSTILE}\n# {HOSTILE}\n"}
    answers.rows["a.test"]["wait_reason"] = HOSTILE
    answers.rows["a.test"]["delay_source"] = HOSTILE
    answers.blocked_rows = [
        {
            "url": f"http://a.test/{HOSTILE}",
            "reason": "robots",
            "dialect": "slurp",
            "rule": f"Disallow: /{HOSTILE}",
            "line": 2,
            "robots_url": "javascript:alert(3)",
            "blocked_at": 1.0,
            "withdrawn": False,
            "anchor": HOSTILE,
            "referrer": "data:text/html,<script>alert(4)</script>",
        }
    ]
    answers.blocked_groups = [
        {
            "host": HOSTILE, "reason": "robots", "rule": f"Disallow: /{HOSTILE}", "line": 2,
            "robots_url": "javascript:alert(3)", "urls": 3, "last_at": 1.0,
        }
    ]  # fmt: skip
    answers.urls["http://a.test/"] = {
        "url": "http://a.test/",
        "state": "visited",
        "host": HOSTILE,
        "origin": "http://a.test",
        "why": [f"its title: {HOSTILE}"],
        "row": {"title": HOSTILE, "referrer": "javascript:alert(5)", "status": 200},
    }
    for path in ("/hosts", "/host?host=a.test", "/blocked", "/url?url=http://a.test/"):
        html = await site.get(path)
        assert "<script>alert" not in html
        assert not [tag for tag in tags(html, "img") if "onerror" in tag]
        for link in tags(html, "a"):
            href = link["href"] or ""
            assert href.startswith(("/", "#", "http://", "https://")), href
            if href.startswith("http"):
                assert link["rel"] == "noreferrer noopener"
    for path in (
        f"/url?url={'%22%3E%3Cscript%3Ealert(6)%3C/script%3E'}",
        "/host?host=%3Cscript%3E",
    ):
        assert "<script>alert" not in await site.get(path, status=404)


async def test_a_missing_page_is_an_html_page(site: Site) -> None:
    html = await site.get("/nothing-here", status=404)
    assert "There is no such page" in html
    assert "courtly.css" in re.sub(r"\.[0-9a-f]{10}\.", ".", html)


async def test_an_unknown_host_is_reported(site: Site) -> None:
    assert "has ever been queued" in await site.get("/host?host=nobody.test", status=404)


async def test_a_host_is_paused_resumed_and_slowed_by_plain_forms(site: Site, answers: Any) -> None:
    status, html, _ = await site.post("/host/pause", host="a.test", back="/host?host=a.test")
    assert status == 200
    assert "a.test is paused. No new requests are sent to it" in html
    await site.post("/host/resume", host="a.test", back="/hosts?state=paused")
    await site.post("/host/slow", host="a.test", delay_s="10", back="/host?host=a.test")
    done = [each for each in answers.asked if each[0] not in ("hosts", "blocked")]
    assert done == [
        (PauseHosts(host="a.test"),),
        (ResumeHosts(host="a.test"),),
        (SlowHosts(host="a.test", delay_s=10.0),),
    ]


async def test_failed_urls_are_retried_for_one_host_only(site: Site, answers: Any) -> None:
    answers.rows["a.test"]["failed"] = 3
    assert 'action="/host/retry"' in await site.get("/host?host=a.test")
    _, html, _ = await site.post("/host/retry", host="a.test", back="/host?host=a.test")
    assert "The failed URLs of a.test are queued again." in html
    assert (RetryFailed(host="a.test"),) in answers.asked
    status, _, _ = await site.post("/host/retry", host="")
    assert status == 422
    assert (RetryFailed(),) not in answers.asked


@pytest.mark.parametrize(
    "back", ["https://evil.test/", "//evil.test/", "/hosts@evil.test", "javascript:alert(1)", ""]
)
async def test_a_form_redirects_to_its_own_site_only(site: Site, back: str) -> None:
    status, _, answer = await site.post("/host/pause", follow=False, host="a.test", back=back)
    assert status == 303
    assert answer.headers["Location"].startswith("/hosts?said=")


async def test_an_invalid_delay_is_refused(site: Site, answers: Any) -> None:
    status, html, _ = await site.post("/host/slow", host="a.test", delay_s="soon")
    assert status == 422
    assert "“soon” is not a number" in html
    assert not answers.asked


async def test_the_whole_crawl_is_paused_and_resumed(site: Site, answers: Any) -> None:
    assert "Pause crawl" in await site.get("/")
    _, html, _ = await site.post("/crawl/pause")
    assert "<h1>Paused</h1>" in html
    assert "Resume crawl" in html
    await site.post("/crawl/resume")
    done = [each[0] for each in answers.asked if each[0] != "hosts"]
    assert done == [PauseCrawl(), ResumeCrawl()]


async def test_seeds_are_added_and_refused_ones_stay_in_the_form(site: Site, answers: Any) -> None:
    _, html, answer = await site.post("/seeds", urls="http://n.test/\nhttp://m.test/", priority="2")
    assert answer.url.path == "/seeds"
    assert "2 new seeds queued" in html
    assert answers.asked[-1] == (AddSeeds(urls=("http://n.test/", "http://m.test/"), priority=2.0),)
    status, html, _ = await site.post("/seeds", urls="http://n.test/\nexample.org", priority="0")
    assert status == 200
    assert "example.org is no absolute URL; try https://example.org" in html
    assert re.search(r"<textarea[^>]*>example\.org</textarea>", html)
    status, html, _ = await site.post("/seeds", urls="  ")
    assert status == 422
    assert "at least one URL" in html


async def test_a_reload_has_a_preview(site: Site, answers: Any) -> None:
    html = await site.get("/config/reload")
    assert "312 hosts: politeness.delay 1 s to 4 s" in html
    assert answers.asked == [(Reload(dry_run=True),)]
    _, html, _ = await site.post("/config/reload")
    assert answers.asked[-1] == (Reload(),)
    assert "These changes are in effect" in html


async def test_config_errors_are_listed(site: Site, answers: Any) -> None:
    answers.broken = Problem(
        422,
        "two problems",
        problems=("c.toml:3: politeness.dely: unknown key", "c.toml:4: x: y"),
    )
    html = await site.get("/config/reload", status=422)
    assert "nothing was changed" in html
    assert html.count("<li>c.toml:") == 2


async def test_the_tester_shows_every_dialect_and_the_deciding_lines(site: Site) -> None:
    text = "User-agent: *\nDisallow: /private/\nAllow: /private/open\n"
    status, html, _ = await site.post(
        "/tester", robots=text, url="", agent="examplebot", urls="/\n/private/open\n/private/x"
    )
    assert status == 200
    for dialect in ("slurp", "rfc9309", "google", "bing", "res1994"):
        assert f'<th scope="col">{dialect}</th>' in html
    assert 'id="tested-L2"' in html
    assert "blocks in" in html
    assert "The dialects disagree on 1 URL" in html
    status, html, _ = await site.post("/tester", robots="", url="", agent="", urls="/")
    assert status == 422
    assert "Paste a robots.txt" in html


async def test_a_long_robots_txt_is_folded_around_deciding_lines(site: Site) -> None:
    text = "User-agent: *\n" + "".join(f"Disallow: /x{number}/\n" for number in range(5_000))
    _, html, _ = await site.post("/tester", robots=text, urls="/x4000/a", agent="examplebot")
    assert 'id="tested-L4002"' in html
    assert 'class="fold"' in html
    assert html.count('class="no"') < 20
    assert (
        "… 3,998 lines" in html
    )  # between the User-agent line and the context of the deciding one
    shown = re.findall(r'<td class="no">(\d+)</td>', html)
    assert shown == ["1", "4000", "4001", "4002", "4003", "4004"]
    (folded, rest) = re.findall(r'<pre class="code">\n(.*?)</pre>', html, re.DOTALL)
    assert folded.startswith("Disallow: /x0/\nDisallow: /x1/\n")
    assert rest.endswith("Disallow: /x4999/")


async def test_a_robots_txt_shows_what_changed_in_it(site: Site, answers: Any) -> None:
    assert "Changed" not in await site.get("/host?host=a.test")
    answers.change = {
        "changed_at": 1_789_990_000.0, "copy_at": None, "added": 1, "removed": 2, "ordered": True,
        "cut": False, "diff": f"@@ -1,2 +1,2 @@\n User-agent: *\n-Disallow: /a\n+{HOSTILE}",
    }  # fmt: skip
    html = await site.get("/host?host=a.test")
    assert "1 line added, 2 removed" in html
    assert '<tr class="removed">' in html
    assert "<script>alert" not in html


async def test_the_next_urls_of_a_host_are_listed(site: Site, answers: Any) -> None:
    answers.next_urls = [
        {
            "url": f"http://a.test/{HOSTILE}", "priority": 1.5, "depth": 2, "at": 1_790_000_005.0,
            "due_at": None, "attempts": 1, "error": HOSTILE, "sitemap": False, "waits_for": "",
        },
        {
            "url": "http://a.test/next", "priority": 0, "depth": 2, "at": None, "due_at": None,
            "attempts": 0, "error": None, "sitemap": False, "waits_for": "robots.txt",
        },
    ]  # fmt: skip
    html = await site.get("/host?host=a.test")
    assert "after robots.txt" in html
    assert "The first 2 of 3 queued URLs" in html
    assert "<script>alert" not in html
    assert "http://a.test/next" in html


async def test_a_robots_txt_of_many_line_ends_is_cut(
    site: Site,
) -> None:
    text = "User-agent: *\nDisallow: /x/\n" + "\n" * 300_000
    _, html, _ = await site.post("/tester", robots=text, urls="/x/a", agent="examplebot")
    assert "Only its first 40,000 lines" in html
    assert 'id="tested-L2"' in html
    assert len(html) < 700_000  # the pasted text is in its field again


async def test_an_update_in_place_queries_only_what_changes(site: Site, answers: Any) -> None:
    assert "Disallow: /private/" in await site.get("/host?host=a.test")
    answers.asked.clear()
    assert "Disallow: /private/" not in await site.get("/host?host=a.test", live=True)
    assert not answers.asked


async def test_the_form_filters_and_sorts_hosts(site: Site, answers: Any) -> None:
    html = await site.get("/hosts?search=a.te&state=all&sort=-queued")
    assert answers.asked[0] == (
        "hosts",
        {
            "search": "a.te", "state": "all", "reason": "", "sort": "-queued", "after": "",
            "limit": 50,
        },
    )  # fmt: skip
    assert 'aria-sort="descending"' in html
    assert "b.test" not in html


async def test_blocked_urls_begin_with_their_rules(site: Site, answers: Any) -> None:
    answers.blocked_groups = [
        {
            "host": "a.test", "reason": "robots", "rule": "Disallow: /x?a", "line": 2,
            "robots_url": None, "urls": 1_234, "last_at": 1.0,
        }
    ]  # fmt: skip
    html = await site.get("/blocked")
    assert "1,234" in html
    assert "several robots.txt" in html
    (href,) = {tag["href"] for tag in tags(html, "a") if "exact=1" in (tag["href"] or "")}
    assert href is not None
    answers.asked.clear()
    await site.get(unquote_plus(href))
    assert answers.asked == [  # no counts: it is one group
        (
            "blocked",
            {
                "host": "a.test", "rule": "Disallow: /x?a", "exact": True, "reason": "robots",
                "limit": 50, "after": "",
            },
        )
    ]  # fmt: skip


async def test_hosts_are_filtered_by_a_pattern_and_by_what_holds_their_urls(
    site: Site, answers: Any
) -> None:
    html = await site.get("/hosts?search=*.example.com&reason=backoff")
    assert answers.asked[0][1]["pattern"] == "*.example.com"
    assert "search" not in answers.asked[0][1]
    assert answers.asked[0][1]["reason"] == "backoff"
    assert "their host is backing off" in html
    assert "/hosts.csv?search=%2A.example.com&amp;reason=backoff" in html
    form = {"command": "pause", "which": "all", "search": "*.example.com", "reason": "backoff"}
    _, html, _ = await site.post("/hosts/steer", **form)
    assert ("reason", "backoff") in [
        (tag["name"], tag["value"]) for tag in tags(html, "input") if tag.get("type") == "hidden"
    ]
    await site.post("/hosts/steer", confirmed="1", **form)
    assert [one.selection for one in commands(answers)] == [
        'hosts matching "*.example.com" and held by backoff'
    ] * 2


@pytest.mark.parametrize(
    ("asked", "path", "query"),
    [
        ("a.test", "/host", {"host": "a.test"}),
        ("like-this", "/hosts", {"search": "like-this"}),
        ("http://a.test/x?y=1&z", "/url", {"url": "http://a.test/x?y=1&z"}),
        ("", "/hosts", {}),
        ("//evil.test/\r\nX: y", "/url", {"url": "//evil.test/\r\nX: y"}),
    ],
)
async def test_one_field_finds_hosts_and_urls(
    site: Site, asked: str, path: str, query: dict[str, str]
) -> None:
    answer = await site.head(f"/find?q={quote(asked)}", follow=False)
    led_to = URL(answer.headers["Location"])
    assert (led_to.path, dict(led_to.query)) == (path, query)
    assert not led_to.absolute


async def test_settings_are_shown_without_secrets(site: Site) -> None:
    html = await site.get("/config?host=a.test")
    assert "politeness" in html
    assert "c.toml:9" in html
    assert "<details" not in html


async def test_a_long_setting_is_folded(site: Site, answers: Any) -> None:
    seeds = [f"http://site{n}.test/{HOSTILE}" for n in range(46)]
    answers.more_settings = [{"key": "crawl.seeds", "value": seeds, "source": "c.toml:4"}]
    html = await site.get("/config")
    assert html.count("<details") == 1
    assert html.count("<li><code>&#34;http://site") == 46
    assert "<script>alert" not in html


async def test_with_a_token_the_login_form_reveals_nothing(answers: Any) -> None:
    async with serving(answers, token="let-me-in-please") as site:
        html = await site.get("/hosts?state=paused")  # led to the form
        assert 'name="next" value="/hosts?state=paused"' in html
        assert "pages/s" not in html
        assert "/seeds" not in html
        assert (await site.head("/static/nope.css")).status == 404
        (style,) = [tag["href"] for tag in tags(html, "link") if tag["rel"] == "stylesheet"]
        assert style is not None
        assert (await site.head(style)).status == 200
        status, html, _ = await site.post("/login", token="guess", next="/hosts")
        assert status == 401
        assert "wrong token" in html
        assert not answers.asked


async def test_login_and_logout(answers: Any) -> None:
    async with serving(answers, token="let-me-in-please") as site:
        _, html, answer = await site.post(
            "/login", follow=False, token="let-me-in-please", next="/hosts"
        )
        assert answer.headers["Location"] == "/hosts"
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        html = await site.get("/hosts")
        assert "Log out" in html


def commands(answers: Any) -> list[Any]:
    """The commands about hosts."""
    return [one for (one, *_) in answers.asked if isinstance(one, HostCommand)]


async def test_several_hosts_are_paused_after_a_confirmation(site: Site, answers: Any) -> None:
    assert 'form="bulk"' in await site.get("/hosts")
    status, html, _ = await site.post(
        "/hosts/steer", command="pause", which="chosen", host="a.test", back="/hosts?state=queued"
    )
    assert status == 200
    assert "Pause 1 host?" in html
    assert 'name="confirmed"' in html
    assert 'href="/hosts?state=queued"' in html
    assert commands(answers) == [PauseHosts(hosts=("a.test",), dry_run=True)]
    status, html, _ = await site.post(
        "/hosts/steer", confirmed="1", command="pause", host="a.test", back="/hosts"
    )
    assert "Paused: 1 host." in html
    assert commands(answers)[1:] == [PauseHosts(hosts=("a.test",))]


async def test_all_hosts_that_match_are_slowed(site: Site, answers: Any) -> None:
    form = {"command": "slow", "which": "all", "search": "test", "state": "all", "delay_s": "5"}
    _, html, _ = await site.post("/hosts/steer", **form)
    assert "These are hosts containing &#34;test&#34;" in html
    assert "Hosts that are discovered later are not concerned" in html
    await site.post("/hosts/steer", confirmed="1", **form)
    assert [(one.dry_run, one.selection, one.delay_s) for one in commands(answers)] == [
        (True, 'hosts containing "test"', 5.0),
        (False, 'hosts containing "test"', 5.0),
    ]


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"command": "pause"}, "choose at least one host"),
        ({"command": "stop", "host": "a.test"}, "must be one of pause, resume, slow"),
        ({"command": "slow", "host": "a.test", "delay_s": ""}, "is not a number"),
    ],
)
async def test_a_form_about_several_hosts_is_refused(
    site: Site, form: dict[str, str], why: str
) -> None:
    status, html, _ = await site.post("/hosts/steer", **form)
    assert status == 422
    assert why in html
