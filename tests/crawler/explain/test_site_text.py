"""Text of a site reaches no output without the escape of its medium."""

from __future__ import annotations

import logging
import unicodedata

import pytest

from crawler.cli.safe_logging import SafeFormatter
from crawler.explain.html_pages import html_environment
from crawler.explain.site_text import SiteText, csv_text, for_csv, for_html, for_log, for_terminal
from tests.tables import each

HOSTILE = SiteText('<b>"\x1b[31m\u202e\x85')


def test_it_cannot_be_formatted() -> None:
    for leak in (
        lambda: str(HOSTILE),
        lambda: f"{HOSTILE}",
        lambda: f"{HOSTILE:>5}",
        lambda: "%s" % HOSTILE,  # noqa: UP031
        lambda: "{}".format(HOSTILE),  # noqa: UP032
        lambda: "a" + HOSTILE,  # type: ignore[operator]
    ):
        with pytest.raises(TypeError):
            leak()
    assert "\x1b" not in repr(HOSTILE)
    assert "31m" not in repr([HOSTILE])


def test_each_medium_has_its_escape() -> None:
    assert HOSTILE.for_terminal() == '<b>"\ufffd[31m\ufffd\ufffd'
    assert HOSTILE.for_model() == HOSTILE.for_log() == HOSTILE.for_terminal()
    page = html_environment().from_string("<p title='{{ x }}'>{{ x }}</p>").render(x=HOSTILE)
    assert page.count("&lt;b&gt;&#34;\ufffd[31m\ufffd\ufffd") == 2
    assert for_html("<\u202e'>") == "&lt;\ufffd&#39;&gt;"
    assert for_log("a\nb\x9b") == for_terminal("a\nb\x9b") == "a\ufffdb\ufffd"


@each("start", "=+-@|\t\r\n＝＋－＠｜﹦﹢﹣﹫−%")
@each("before", ["", " ", "\u200b", "\ufeff", "\u202e", "\u00a0", "\u3164", "\u2800"])
def test_no_cell_begins_a_formula(start: str, before: str) -> None:
    assert str(for_csv(f"{before}{start}cmd")).startswith("'")


def test_every_invisible_beginning_is_escaped() -> None:
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp"):
            assert str(for_csv(f"{char}x")).startswith("'"), hex(code)


@each("cell", ["", "a=b", "https://a.test/", "1-2", "é", "日本", " a", 7, -1.5, None])
def test_other_cells_stay(cell: object) -> None:
    assert for_csv(cell) == cell


def test_a_row_of_csv_is_a_line() -> None:
    assert csv_text([["a\r\nb", 'c"d', None]]) == 'a\ufffd\ufffdb,"c""d",\r\n'


def test_messages_of_libraries_are_one_line() -> None:
    record = logging.LogRecord("x", logging.WARNING, "", 1, "no\n%s", ("\x1b[2J\u202e",), None)
    assert SafeFormatter("%(message)s").format(record) == "no\ufffd\ufffd[2J\ufffd"
