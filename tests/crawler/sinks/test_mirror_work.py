"""How much is done for one page of a mirror, counted: references beyond a bound stay as they came,
under a policy that lets nothing of them load."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawler.sinks import references
from crawler.sinks.offline import OfflineReferences, offline_page
from crawler.sinks.requisites import requisites
from tests.growth import assert_linear

URL = "http://a.test/d/"
HTML = "text/html"
MAX = 200
HOSTILE: dict[str, Callable[[int], str]] = {
    "links": lambda n: f"<a href=/{n}>x</a> ",
    "anchors of other hosts": lambda n: f"<a href=//é{n}.test/>x</a> ",
    "styles": lambda n: '<br style="' + "".join(f"url(a{n}-{m})" for m in range(100)) + '">',
    "style elements": lambda n: f"<style>a{{b:url({n})}}</style>",
    "srcset": lambda n: '<img srcset="' + "".join(f"a{n}-{m} 1w," for m in range(100)) + '">',
    "media": lambda n: f"<video src={n} poster=a{n} background=b{n}></video>",
    "forms": lambda n: f"<form action={n}></form>",
    "frames": lambda n: f"<iframe src={n}></iframe>",
    "refreshes": lambda n: f'<meta http-equiv=refresh content="0;url={n}">',
    "hints": lambda n: f"<link rel=prefetch href={n}>",
    "pings": lambda _: "<br ping>",
    "bases": lambda n: f"<base href={n}>",
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every reference that was read, of pages that may have MAX."""
    found: list[str] = []
    real = references.canonical

    def canonical(href: str, base: str | None = None) -> str | None:
        found.append(href)
        return real(href, base)

    monkeypatch.setattr(references, "canonical", canonical)
    monkeypatch.setattr(references, "REFERENCES_MAX", MAX)
    return found


def links() -> OfflineReferences:
    return OfflineReferences(URL, "a.test/d/index.html", files=(), scripts=True)


def page_of(kind: str, pieces: int) -> bytes:
    return ("<!DOCTYPE html>" + "".join(map(HOSTILE[kind], range(pieces)))).encode()


@pytest.mark.parametrize("kind", HOSTILE)
def test_references_beyond_the_bound_stay_and_are_counted(kind: str, calls: list[str]) -> None:
    body = page_of(kind, 3 * MAX)
    found = links()
    page = offline_page(body, HTML, found)
    if kind in ("hints", "pings", "bases"):  # taken out, however many
        assert (len(calls), found.skipped) == (0, 0)
    else:
        assert len(calls) == MAX
        assert found.skipped >= 2 * MAX
    if kind == "refreshes":
        assert page.count(b"http-equiv") == 2 + MAX  # our own policy, no look-ups
    elif kind in ("links", "media", "forms", "frames"):
        assert page.endswith(body[-20:])
    assert len(found.marked) <= MAX


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_page_needs_is_looked_for_only_so_long(kind: str, calls: list[str]) -> None:
    requisites(URL, HTML, page_of(kind, 3 * MAX), scripts=True)
    assert len(calls) <= MAX


def test_a_page_of_as_many_as_may_be_is_rewritten(calls: list[str]) -> None:
    found = links()
    page = offline_page(page_of("links", MAX), HTML, found)
    assert len(found.marked) == MAX
    assert page.count(b"data-courtly-url") == MAX
    assert len(calls) == MAX


@pytest.mark.parametrize(
    ("before", "unit"), [("", " "), ("", "1"), ("0;url=", " ")], ids=["spaces", "digits", "url"]
)
def test_a_refresh_is_read_in_linear_time(before: str, unit: str) -> None:
    """20,000 spaces took 9.5 s."""

    def body(size: int) -> bytes:
        return f'<meta http-equiv=refresh content="{before}{unit * size} x y">'.encode()

    assert_linear(lambda page: offline_page(page, HTML, links()), body, 30_000)
    assert b"x y" not in offline_page(body(30_000), HTML, links())
