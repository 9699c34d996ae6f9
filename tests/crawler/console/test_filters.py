"""Numbers, times and addresses as formatted for a page."""

from __future__ import annotations

import math
from typing import Any

from crawler.console import filters
from crawler.daemon.responses import Setting

NOW_S = 1_790_000_000.0


def test_big_numbers_are_short() -> None:
    for value, shown in [
        (0, "0"),
        (99_999, "99,999"),
        (1_234_567, "1.23 M"),
        (100_000, "100 k"),
        (2.5e9, "2.5 G"),
    ]:
        assert filters.short(value) == shown


def test_relative_times_have_one_unit() -> None:
    for away_s, said in [
        (0.4, "now"),
        (-0.4, "now"),
        (12, "in 12 s"),
        (-59.6, "59 s ago"),
        (-90, "1 min ago"),
        (3_600, "in 1 h"),
        (-86_400, "24 h ago"),
        (-86_400 * 3, "3 d ago"),
    ]:
        assert filters.relative(NOW_S + away_s, NOW_S) == said


def test_a_time_is_a_time_element() -> None:
    html = filters.when(NOW_S - 120, NOW_S)
    assert html.startswith('<time datetime="2026-09-21T14:')
    assert html.endswith(">2 min ago</time>")


def test_invalid_times_are_a_dash() -> None:
    for value in [None, math.nan, "soon", True, 0, -5, 1e15]:
        assert filters.when(value, NOW_S) == filters.NOTHING


def test_only_clean_http_addresses_become_links() -> None:
    for url in [
        "javascript:alert(1)",
        "data:text/html,x",
        "//a.test/",
        'http://a.test/"onmouseover="x',
        "http://a.test/ x",
        "HTTP://a.test/\n",
        "",
    ]:
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


def test_percentages() -> None:
    for part, whole, said in [(1, 3, "33 %"), (1, 0, "0 %"), (1, 50, "2.0 %")]:
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
