"""Numbers, times and addresses as formatted for a page."""

from __future__ import annotations

import math
from typing import Any

import pytest

from crawler.console import filters
from crawler.daemon.responses import Setting

NOW_S = 1_790_000_000.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (99_999, "99,999"), (1_234_567, "1.23 M"), (100_000, "100 k"), (2.5e9, "2.5 G")],
)
def test_big_numbers_are_short(value: float, shown: str) -> None:
    assert filters.short(value) == shown


@pytest.mark.parametrize(
    ("away_s", "said"),
    [
        (0.4, "now"),
        (-0.4, "now"),
        (12, "in 12 s"),
        (-59.6, "59 s ago"),
        (-90, "1 min ago"),
        (3_600, "in 1 h"),
        (-86_400, "24 h ago"),
        (-86_400 * 3, "3 d ago"),
    ],
)
def test_relative_times_have_one_unit(away_s: float, said: str) -> None:
    assert filters.relative(NOW_S + away_s, NOW_S) == said


def test_a_time_is_a_time_element() -> None:
    html = filters.when(NOW_S - 120, NOW_S)
    assert html.startswith('<time datetime="2026-09-21T14:')
    assert html.endswith(">2 min ago</time>")


@pytest.mark.parametrize("value", [None, math.nan, "soon", True, 0, -5, 1e15])
def test_invalid_times_are_a_dash(value: object) -> None:
    assert filters.when(value, NOW_S) == filters.NOTHING


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//a.test/",
        'http://a.test/"onmouseover="x',
        "http://a.test/ x",
        "HTTP://a.test/\n",
        "",
    ],
)
def test_only_clean_http_addresses_become_links(url: str) -> None:
    assert "<a " not in filters.address(url)
    assert '"on' not in filters.address(url)


def test_an_address_links_to_its_page_and_to_the_url_without_a_referrer() -> None:
    html = filters.address("https://a.test/x?a=1&b=2")
    assert 'href="/url?url=https%3A%2F%2Fa.test%2Fx%3Fa%3D1%26b%3D2"' in html
    assert 'href="https://a.test/x?a=1&amp;b=2" rel="noreferrer noopener"' in html


def test_control_and_bidi_characters_are_replaced() -> None:
    assert (
        filters.plain("a\u202eb\x1b[31m")
        == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}[31m"
    )
    assert len(filters.plain("x" * 100_000)) < 5_000


@pytest.mark.parametrize(
    ("part", "whole", "said"), [(1, 3, "33 %"), (1, 0, "0 %"), (1, 50, "2.0 %")]
)
def test_percentages(part: int, whole: int, said: str) -> None:
    assert filters.percent(part, whole) == said


def folded(value: object) -> Any:
    (_, rows), *_ = filters.sections([Setting(key="crawl.seeds", value=value, source="c.toml:2")])
    return rows[0]["fold"]


def test_long_settings_are_folded() -> None:
    assert folded(["http://a.test/"] * 5) is None
    seeds = folded([f"http://site{n}.test/" for n in range(46)])
    assert seeds["summary"] == "46 values"
    assert seeds["start"] == '["http://site0.test/", "http://site1.tes…'
    assert seeds["parts"][45] == '"http://site45.test/"'
    assert seeds["more"] == 0
    table = folded({f"site{n}.test": "127.0.0.1" for n in range(600)})
    assert table["parts"][0] == '"site0.test" = "127.0.0.1"'
    assert (len(table["parts"]), table["more"]) == (500, 100)
    assert folded("x" * 200)["summary"] == "202 characters"
