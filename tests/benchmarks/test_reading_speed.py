"""Where the microseconds of a page go, each stage beside a named baseline of the same run.

    pytest -m bench -s tests/benchmarks/test_reading_speed.py

Each stage has a ceiling well above what was measured, so that a regression names its stage. The
baseline of reading takes 65 to 150 µs, by what the allocator has given back to the system.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

import pytest
import yarl
from multidict import CIMultiDict, CIMultiDictProxy
from selectolax.lexbor import LexborHTMLParser

from crawler.documents import markup, page, scan
from crawler.documents.links import PageLinks
from crawler.documents.tree import Document
from crawler.processing.seen_links import seen_links
from policies.scope import Follow, Scope, ScopeRules
from policies.url import canonical_all, host_of
from tests.crawler.documents import both_readers

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Beside, Work

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]

PAGES: Final = 100
LINKS: Final = 52
BYTES: Final = 23_000
HEADERS = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8")]))
TOKENS = ("examplebot",)
WORDS = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed"]


def make_page(host: str, number: int) -> tuple[str, bytes]:
    """A page as a content system writes it: menu, prose, an aside of links, a table."""
    rng = random.Random(f"{host}{number}")

    def prose() -> str:
        words = [rng.choice(WORDS) for _ in range(100)]
        words[7], words[40] = f"<em>{words[7]}</em>", f'<strong class="k">{words[40]}</strong>'
        return " ".join(words)

    def href() -> str:
        target = f"/s{rng.randrange(7)}/page-{rng.randrange(100)}.html"
        return rng.choice(
            [
                target,
                target,
                target,
                "page-7.html",
                f"..{target}",
                f"//{host}{target}",
                f"http://{host}{target}#part",
                f"http://h{rng.randrange(50)}.test{target}",
                f"/list?cat={rng.randrange(5)}&amp;page={rng.randrange(99)}",
            ]
        )

    head = (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{host} {number}</title><style>body{{margin:0}}</style>"
        '<meta name="description" content="A page"><script>if (1 < 2) { run("<a>"); }</script>'
        '<link rel="stylesheet" href="/s.css"></head>\n<body><header><ul class="menu">'
    )
    parts = [head]
    for place in range(LINKS):
        if place < 6:
            parts.append(f'<li><a class="nav" href="{href()}">Menu <b>{place}</b></a></li>\n')
        elif place < 26:
            parts.append(f'<section><h2>Part</h2>\n<p>{prose()} <a href="{href()}">more</a></p>')
            parts.append("</section>\n")
        else:
            parts.append(f"<li><a href='{href()}' data-place=\"{place}\">item {place}</a>\n")
    parts.append("<table>" + "<tr><td>0</td><td class='n'>37</td></tr>" * 25 + "</table>")
    while sum(map(len, parts)) < BYTES:
        parts.append(f"<p>{prose()}\n")
    return f"http://{host}/s1/page-{number}.html", "".join(parts).encode()


WEB = [make_page(f"h{number % 10}.test", number) for number in range(PAGES)]
HTML = {url: body.decode() for url, body in WEB}


def each(work: Callable[[str, bytes], object]) -> Work:
    """The work for every page."""

    def all_pages() -> int:
        for url, body in WEB:
            work(url, body)
        return PAGES

    return all_pages


@each
def build(_: str, body: bytes) -> None:
    """The baseline of all reading: a tree is built, and its anchors are found, not looked at."""
    LexborHTMLParser(body).css("a[href]")


LEXBOR = "Lexbor parse and css"


def hrefs_of(url: str) -> list[str]:
    rows = scan.rows(HTML[url])
    assert rows is not None
    return [markup.unescaped_value(href) for row in rows if (href := row[0] or row[1])]


HREFS = {url: hrefs_of(url) for url in HTML}


def urls_of(url: str) -> list[str]:
    links = PageLinks(url)
    links.add_all(HREFS[url], set())
    return links.followed()


URLS = {url: urls_of(url) for url in HTML}


def test_the_pages_are_what_they_should_be() -> None:
    assert all(len(hrefs) == LINKS for hrefs in HREFS.values())
    assert BYTES < sum(len(body) for _, body in WEB) / PAGES < 1.1 * BYTES


def read_all(url: str, body: bytes) -> None:
    page.parse_page(url, HEADERS, body, tokens=TOKENS)


def test_read(beside: Beside) -> None:
    """All of it: charset, links, title, metas; no anchors, which only new links need."""
    with both_readers.pure():
        assert beside("read a page", each(read_all), LEXBOR, build) < 3


@pytest.mark.skipif(not both_readers.is_installed(), reason="courtly-native is not installed")
def test_read_natively(beside: Beside) -> None:
    """The same in native code, beside the reader in Python."""

    def by(reader: Callable[[], AbstractContextManager[None]]) -> Work:
        def work() -> int:
            with reader():
                return each(read_all)()

        return work

    natively, purely = by(both_readers.native), by(both_readers.pure)
    assert beside("read natively", natively, "in Python", purely) < 0.4


def test_extract(beside: Beside) -> None:
    """From markup to rows, without the parser."""
    assert beside("extract", each(lambda url, _: scan.rows(HTML[url])), LEXBOR, build) < 1.6


def test_read_by_a_tree(beside: Beside) -> None:
    """What a page costs that cannot do without."""
    ours = each(lambda url, body: page._Reader(url, PageLinks(url)).read_document(Document(body)))
    assert beside("read by a tree", ours, LEXBOR, build) < 7


def test_anchors(beside: Beside) -> None:
    """The anchor texts of all links, as a reader of pages or a sink wants them."""
    pages = {url: page.parse_page(url, HEADERS, body, tokens=TOKENS) for url, body in WEB}
    assert beside("all anchors", each(lambda url, _: pages[url].links), LEXBOR, build) < 1


def test_resolve(beside: Beside) -> None:
    """From hrefs to canonical URLs; yarl leaves them less canonical."""
    distinct = {url: list(dict.fromkeys(hrefs)) for url, hrefs in HREFS.items()}

    def join(url: str, _: bytes) -> None:
        base = yarl.URL(url)
        for href in distinct[url]:
            str(base.join(yarl.URL(href)))

    ours = each(lambda url, _: canonical_all(distinct[url], url))
    assert beside("resolve", ours, "yarl join", each(join)) < 0.4


def test_known_link_check(beside: Beside) -> None:
    """What of a page is new, when nothing is."""
    known, every = seen_links(), set[str]()
    for urls in URLS.values():
        known.fresh(urls, 0)
        every.update(urls)
    ours = each(lambda url, _: known.fresh(URLS[url], 1))
    theirs = each(lambda url, _: [link for link in URLS[url] if link not in every])
    assert beside("known-link check", ours, "a set", theirs) < 6


@pytest.mark.parametrize("follow", [Follow.ANY, Follow.HOST])
def test_scope(beside: Beside, follow: Follow) -> None:
    """Only new links are judged."""
    scope = Scope(lambda host: ScopeRules(follow=follow))
    for number in range(10):
        scope.add_root(f"http://h{number}.test/")
    links = [
        (f"http://h{number % 50}.test/s{number % 7}/page-{number}.html", f"h{number % 50}.test")
        for number in range(10_000)
    ]

    def ours() -> int:
        for link, host in links:
            scope.judge(link, host=host, depth=1)
        return len(links)

    def theirs() -> int:
        for link, _ in links:
            host_of(link)
        return len(links)

    assert beside("scope of a link", ours, "its host", theirs) < 2
