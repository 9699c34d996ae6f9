"""How much is done for one page of a mirror, counted: a page made to be slow is kept as it came,
under a policy that lets nothing of it load or run."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from crawler.sinks import offline, requisites
from crawler.sinks.offline import Links, offline_page

URL = "http://a.test/d/"
HTML = "text/html"
MAX = 1_000
NONE_RUNS = b"script-src 'none'"
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
    real = requisites.canonical

    def canonical(href: str, base: str | None = None) -> str | None:
        found.append(href)
        return real(href, base)

    monkeypatch.setattr(requisites, "canonical", canonical)
    monkeypatch.setattr(offline, "canonical", canonical)
    monkeypatch.setattr(requisites, "REFERENCES_MAX", MAX)
    return found


def links() -> Links:
    return Links(URL, "a.test/d/index.html", is_there=lambda _: False, scripts=True)


def page_of(kind: str, pieces: int) -> bytes:
    return ("<!DOCTYPE html>" + "".join(map(HOSTILE[kind], range(pieces)))).encode()


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_page_of_too_many_references_is_kept_as_it_came(kind: str, calls: list[str]) -> None:
    body = page_of(kind, 3 * MAX)
    found = links()
    page = offline_page(body, HTML, found)
    assert len(calls) <= 4 * MAX
    assert NONE_RUNS in page
    assert not found.marked
    assert page.endswith(body[-50:].replace(b"http-equiv", b"http&#45;equiv"))
    assert page.count(b"http-equiv") == 2  # our own policy, and no look-ups


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_page_needs_is_looked_for_only_so_long(kind: str, calls: list[str]) -> None:
    requisites.requisites(URL, HTML, page_of(kind, 3 * MAX), scripts=True)
    assert len(calls) <= 2 * MAX


def test_a_page_of_as_many_as_may_be_is_rewritten(calls: list[str]) -> None:
    found = links()
    page = offline_page(page_of("links", MAX), HTML, found)
    assert len(found.marked) == MAX
    assert page.count(b"data-courtly-url") == MAX
    assert MAX <= len(calls) <= 4 * MAX


@pytest.mark.parametrize(
    "content", [" " * 30_000 + "x y", "1" * 200_000 + " x y", "0;url=" + " " * 30_000 + "x y"]
)
def test_a_refresh_is_read_in_linear_time(content: str) -> None:
    """20,000 spaces took 9.5 s."""
    body = f'<meta http-equiv=refresh content="{content}">'.encode()
    began_s = time.process_time()
    page = offline_page(body, HTML, links())
    assert time.process_time() - began_s < 5
    assert b"x y" not in page
