"""What a page says of its use is heard with every answer, and reaches every sink."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from warcio.archiveiterator import ArchiveIterator

from crawler import CrawledPage, Crawler, Withdrawn
from crawler.fetching.request import Request
from crawler.testing import FakeFetcher, JumpClock, Reply, text
from policies.retries import FailureCode
from policies.url import path_of

DAY_S: Final = 86_400.0
HOST: Final = "http://a.test"
KEPT, GONE, BODILESS = "kept", "withdrawn", "without its body"
Answer = Callable[[Request], Reply | FailureCode]


@dataclass
class Page:
    """What a page answers now: `said` are its headers, those of a 304 only if `repeats`."""

    said: dict[str, str] = field(default_factory=dict)
    body: str = "<title>A</title>text"
    etag: str = '"1"'
    conditional: bool = False
    repeats: dict[str, str] = field(default_factory=dict)
    status: int = 200
    content_type: str = "text/html"

    def answer(self, request: Request) -> Reply:
        asked = request.headers.get("If-None-Match")
        headers = {"ETag": self.etag, "Content-Type": self.content_type}
        if self.conditional and asked is not None and asked == self.etag:
            return Reply(status=304, headers={"ETag": self.etag, **self.repeats})
        return Reply(status=self.status, body=self.body, headers=headers | self.said)


class World:
    """A crawl with every kind of sink, run once a day; each run is a process of its own."""

    def __init__(self, folder: Path, clock: JumpClock, db: str | Path | None = None) -> None:
        self.folder, self.clock = folder, clock
        self.db = db or folder / "crawl.db"
        self.pages: dict[str, Page | Answer] = {}
        self.robots = ""
        self.held: dict[str, CrawledPage | Withdrawn] = {}  # by a function
        self.calls, self.full = 0, False
        self.requests: list[tuple[str, bool]] = []  # of the last run: path, and if conditional

    def _answer(self, request: Request) -> Reply | FailureCode:
        path = path_of(request.url)
        if path == "/robots.txt":
            return text(self.robots)
        self.requests.append((path, "If-None-Match" in request.headers))
        page = self.pages.get(path)
        if page is None:
            return Reply(status=404)
        return page.answer(request) if isinstance(page, Page) else page(request)

    async def day(self, **sections: Any) -> None:
        """Crawl once, and let a day pass."""
        self.requests.clear()
        config = {
            "crawl": {"user_agent": "examplebot/1.0 (+https://example.com/bot)"},
            "politeness": {"delay": 0.0},
            "revisit": {"mode": "fixed", "interval": "1d"},
            "sink": [
                {"kind": "jsonl", "path": str(self.folder / "pages.jsonl")},
                {"kind": "jsonl", "path": str(self.folder / "all.jsonl"), "noindex": True},
                {"kind": "jsonl", "path": str(self.folder / "ok.jsonl"), "status": ["2xx"]},
                {"kind": "warc", "path": str(self.folder / "pages.warc")},
                {"kind": "mirror", "path": str(self.folder / "mirror")},
            ],
            **sections,
        }
        fetcher = FakeFetcher(self.clock, self._answer)
        crawler = Crawler(
            [HOST + path for path in self.pages],
            config=config, db=self.db, clock=self.clock, fetcher=fetcher,
        )  # fmt: skip
        crawler.add_sink(self.keep, withdrawn=self._drop)
        async with crawler as crawl:
            async for _ in crawl:
                pass
        await self.clock.sleep_until(self.clock.monotonic() + DAY_S)

    async def keep(self, page: CrawledPage) -> None:
        if self.full:
            raise RuntimeError("there is no room")
        self.calls += 1
        self.held[path_of(page.url)] = page

    async def _drop(self, page: Withdrawn) -> None:
        self.held[path_of(page.url)] = page

    def rows(self, name: str = "pages.jsonl") -> dict[str, dict[str, Any]]:
        """The last line of each page."""
        found: dict[str, dict[str, Any]] = {}
        for line in (self.folder / name).read_text().splitlines():
            row = json.loads(line)
            found[path_of(row.get("url") or row["withdrawn"])] = row
        return found

    def states(self) -> dict[str, dict[str, str]]:
        """What each sink holds of each page."""
        rows, every, archived = self.rows(), self.rows("all.jsonl"), self._archived()
        return {
            path: {
                "jsonl": _state(rows.get(path, {})),
                "all": _state(every.get(path, {})),
                "function": GONE if isinstance(self.held.get(path), Withdrawn) else KEPT,
                "mirror": self._mirrored(path),
                "warc": archived.get(path, ""),
            }
            for path in self.pages
        }

    def _mirrored(self, path: str) -> str:
        folder = self.folder / "mirror" / "a.test+http"
        names = list(folder.glob(f"{path.strip('/')}*"))
        if not names:
            return BODILESS
        return GONE if any(b"Withdrawn" in name.read_bytes() for name in names) else KEPT

    def _archived(self) -> dict[str, str]:
        found: dict[str, str] = {}
        with (self.folder / "pages.warc").open("rb") as file:
            for record in ArchiveIterator(file):
                url = record.rec_headers.get_header("WARC-Target-URI")
                content = record.content_stream().read()
                if record.rec_type in ("response", "revisit"):
                    cut = record.rec_headers.get_header("WARC-Truncated")
                    found[path_of(url)] = BODILESS if cut else KEPT
                elif record.rec_type == "metadata" and b"withdrawn:" in content:
                    found[path_of(url)] = GONE
        return found

    def lines(self) -> Counter[str]:
        lines = map(json.loads, (self.folder / "pages.jsonl").read_text().splitlines())
        return Counter(path_of(row.get("url") or row["withdrawn"]) for row in lines)


def _state(row: dict[str, Any]) -> str:
    if "withdrawn" in row:
        return GONE
    return KEPT if row["body"] is not None else BODILESS


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    async with JumpClock() as clock:
        yield World(tmp_path, clock)


def everywhere(state: str) -> dict[str, str]:
    return dict.fromkeys(("jsonl", "all", "function", "mirror", "warc"), state)


WITHDRAWN = {**everywhere(GONE), "all": KEPT}
UNARCHIVED = {**everywhere(BODILESS), "function": KEPT}

# A header that is added, what lifts it if a 304 says so, and what the sinks hold then.
DIRECTIVES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "noindex": ({"X-Robots-Tag": "noindex"}, {"X-Robots-Tag": "all"}, WITHDRAWN),
    "none": ({"x-robots-tag": "NONE"}, {"X-Robots-Tag": "all"}, WITHDRAWN),
    "ours": ({"X-Robots-Tag": "examplebot: noindex"}, {"X-Robots-Tag": ""}, WITHDRAWN),
    "mixed": (
        {"X-ROBOTS-TAG": "otherbot: noarchive, examplebot:noindex"},
        {"X-Robots-Tag": "otherbot: noindex"},
        WITHDRAWN,
    ),
    "over": (
        {"X-Robots-Tag": "unavailable_after: 2001-01-01"}, {"X-Robots-Tag": "all"}, WITHDRAWN,
    ),
    "noarchive": ({"X-Robots-Tag": "noarchive"}, {"X-Robots-Tag": "all"}, UNARCHIVED),
    "nofollow": ({"X-Robots-Tag": "nofollow"}, {"X-Robots-Tag": "all"}, everywhere(KEPT)),
    "usage": ({"Content-Usage": "train-ai=n"}, {"Content-Usage": ""}, everywhere(KEPT)),
    "signal": ({"content-signal": "ai-train=no"}, {"Content-Signal": ""}, everywhere(KEPT)),
    "tdm": ({"TDM-Reservation": "1"}, {"tdm-reservation": "0"}, everywhere(KEPT)),
    "link": (
        {"Link": '</other>; rel="canonical"'}, {"Link": "<x.css>; rel=preload"}, everywhere(KEPT),
    ),
    "theirs": ({"X-Robots-Tag": "otherbot: noindex"}, {}, everywhere(KEPT)),
    "snippet": ({"X-Robots-Tag": "nosnippet, max-snippet: 5"}, {}, everywhere(KEPT)),
}  # fmt: skip
IDLE = frozenset({"theirs", "snippet"})  # they change nothing
WAYS = ("changed", "same", "validators", "repeated", "bare")
KINDS = ("text/html", "application/pdf")


def cases() -> Iterator[tuple[str, str, str, str]]:
    for name, way, kind in itertools.product(DIRECTIVES, WAYS, KINDS):
        yield f"/{name}-{way}-{kind[-3:]}", name, way, kind


def says(row: dict[str, Any]) -> tuple[object, ...]:
    return (row["indexable"], row["followable"], row["archivable"], row["canonical_url"],
            tuple(f"{one['name']}: {one['value']}" for one in row["usage"]))  # fmt: skip


async def test_a_directive_that_comes_and_goes_reaches_every_sink(world: World) -> None:
    """However it is answered: with another body, the same one, other validators, or a 304."""
    for path, _, way, kind in cases():
        world.pages[path] = Page(content_type=kind, conditional=way in ("repeated", "bare"))
    await world.day()
    before = world.rows("all.jsonl")
    assert world.states() == {path: everywhere(KEPT) for path, *_ in cases()}

    for path, name, way, kind in cases():
        said = DIRECTIVES[name][0]
        page = Page(said, content_type=kind, conditional=way in ("repeated", "bare"))
        page.body += " changed" if way == "changed" else ""
        page.etag = '"2"' if way == "validators" else page.etag
        page.repeats = said if way == "repeated" else {}
        world.pages[path] = page
    for _ in range(2):  # the second day tells nothing new
        await world.day()
        assert world.states() == {
            path: everywhere(KEPT) if way == "bare" else DIRECTIVES[name][2]
            for path, name, way, _ in cases()
        }
        rows = world.rows("all.jsonl")
        for path, name, way, _ in cases():
            news = way != "bare" and name not in IDLE
            assert (says(rows[path]) != says(before[path])) is news, path
    lines = world.lines()
    for path, name, way, _ in cases():
        idle = way == "bare" or (name in IDLE and way != "changed")
        assert (lines[path] == 1) is idle, path

    for path, name, way, kind in cases():
        page = Page(content_type=kind, conditional=way in ("repeated", "bare"))
        page.body += " changed" if way == "changed" else ""
        page.repeats = DIRECTIVES[name][1] if way == "repeated" else {}
        world.pages[path] = page
    await world.day()
    assert world.states() == {path: everywhere(KEPT) for path, *_ in cases()}
    rows = world.rows("all.jsonl")
    for path, *_ in cases():
        assert says(rows[path]) == says(before[path]), path


async def test_many_servers_repeat_nothing_with_a_304_so_whole_answers_are_asked_for(
    world: World,
) -> None:
    world.pages["/"] = Page(conditional=True)
    await world.day()
    world.pages["/"] = Page({"X-Robots-Tag": "noindex"}, conditional=True)
    asked = []
    for _ in range(10):
        await world.day()
        asked += [conditional for path, conditional in world.requests if path == "/"]
    assert asked == [True] * 9 + [False]
    assert world.states()["/"] == WITHDRAWN


@pytest.mark.parametrize(
    ("place", "then"),
    [("header", "same"), ("header", 304), ("header", 503), ("meta", 304), ("meta", "failure"),
     ("meta", "same"), ("ours", "moved"), ("ours", 304)],
)  # fmt: skip
async def test_a_page_is_withdrawn_when_its_availability_ends(
    world: World, place: str, then: str | int
) -> None:
    """At that time, though its interval is longer, and though no visit has an answer."""
    end_s = world.clock.wall() + 2.5 * DAY_S
    date = f"unavailable_after: {datetime.fromtimestamp(end_s, UTC).isoformat()}"
    ours = {"X-Robots-Tag": f"otherbot: noindex, examplebot: {date}"}
    said = {"header": {"X-Robots-Tag": date}, "ours": ours, "meta": {}}[place]
    body = f'<meta name="robots" content="{date}">' if place == "meta" else "text"
    page = Page(said, body=body, conditional=then == 304)
    answers: dict[str | int, Page | Answer] = {
        503: lambda _: Reply(status=503),
        "failure": lambda _: FailureCode.TIMEOUT,
        "moved": Page({"X-Robots-Tag": "unavailable_after: 2040-01-01"}, conditional=True),
    }
    world.pages["/"] = page
    revisit = {"mode": "fixed", "interval": "30d"}
    for _ in range(3):
        await world.day(revisit=revisit)
        assert world.states()["/"] == everywhere(KEPT)
    if then in answers:
        world.pages["/"] = answers[then]
    for _ in range(2):
        await world.day(revisit=revisit)
        assert world.states()["/"] == (everywhere(KEPT) if then == "moved" else WITHDRAWN)
    world.pages["/"] = Page(etag='"2"')
    await world.day(revisit=revisit)
    if then in (503, "failure"):
        assert world.states()["/"] == everywhere(KEPT)


@pytest.mark.parametrize("conditional", [False, True])
async def test_what_robots_txt_says_of_its_use_reaches_pages_that_are_kept(
    world: World, conditional: bool
) -> None:
    world.robots = "User-agent: *\nDisallow:\n"
    world.pages = {"/a": Page(conditional=conditional), "/b": Page(conditional=conditional)}
    await world.day()
    world.robots = "User-agent: *\nContent-Usage: /a train-ai=n\nDisallow:\n"
    await world.day()
    rows = world.rows()
    assert rows["/a"]["usage"] == [
        {"where": "robots.txt", "name": "content-usage", "value": "train-ai=n"}
    ]
    assert rows["/b"]["usage"] == []
    assert world.lines()["/b"] == 1
    await world.day()
    assert world.lines()["/a"] == 2
    world.robots = "User-agent: *\nDisallow:\n"
    await world.day()
    assert world.rows()["/a"]["usage"] == []


@pytest.mark.parametrize("said", [{}, {"X-Robots-Tag": "noindex"}])
@pytest.mark.parametrize("status", [404, 410, 403, 301, 200])
async def test_what_sinks_hold_of_a_page_that_is_no_longer_one(
    world: World, status: int, said: dict[str, str]
) -> None:
    """They have the new answer; those that do not accept it no longer have the page."""
    world.pages = {"/page.html": Page(), "/a.png": Page(content_type="image/png")}
    await world.day()
    later = {"Location": "/a.png"} if status == 301 else {}
    kind = "application/x-other" if status == 200 else "text/html"
    world.pages["/page.html"] = Page(later | said, status=status, content_type=kind)
    await world.day()
    row = world.rows()["/page.html"]
    assert row["reason"] == "noindex" if said else row["status"] == status
    row = world.rows("all.jsonl")["/page.html"]
    assert (row["status"], row["indexable"]) == (status, not said)
    row = world.rows("ok.jsonl")["/page.html"]
    if status == 200:
        assert row["reason"] == "noindex" if said else row["content_type"] == kind
    else:
        assert row["reason"] == ("noindex" if said else "changed")
    held = world.held["/page.html"]
    assert isinstance(held, Withdrawn) is bool(said)
    mirrored = world.states()["/page.html"]["mirror"]
    if said:
        assert mirrored == GONE
    elif status not in (200, 301):
        assert mirrored == BODILESS


async def test_what_a_function_could_not_take_is_passed_to_it_again(world: World) -> None:
    world.pages["/"] = Page(conditional=True)
    await world.day()
    world.pages["/"] = Page(
        {"Content-Usage": "train-ai=n"}, etag='"2"', body="<title>B</title>", conditional=True
    )
    calls = world.calls
    world.full = True
    await world.day()
    world.full = False
    await world.day()
    assert world.calls == calls + 1
    held = world.held["/"]
    assert isinstance(held, CrawledPage)
    assert (held.title, bool(held.usage)) == ("B", True)


async def test_pages_of_before_revisits_were_wanted_are_judged_too(world: World) -> None:
    quiet, loud, shy = Page(), Page({"X-Robots-Tag": "nofollow"}), Page()
    world.pages = {"/quiet": quiet, "/loud": loud, "/shy": shy}
    await world.day(revisit={"mode": "off"})
    shy.said = {"X-Robots-Tag": "noindex"}
    await world.day()
    assert world.states()["/shy"] == WITHDRAWN
    assert world.lines()["/quiet"] == 1
    loud.said = {"X-Robots-Tag": "noindex"}
    await world.day()
    assert world.states()["/loud"] == WITHDRAWN
