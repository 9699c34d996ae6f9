"""Lines of any bytes: nothing lost, nothing raised, every limit reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies import robots
from policies.robots import BYTES_MAX, LINE_BYTES_MAX, LineKind
from policies.robots.syntax import FIELDS, MISSPELLINGS, Leniency
from tests.tables import each

PIECES = st.sampled_from(
    [
        b"User-agent", b"Disallow", b"Allow", b"Crawl-delay", b"Sitemap", b"Disalow", b"Noindex",
        b"ACAP-crawler", b":", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"#", b"*", b"$", b"/",
        b"/a", b"%2F", b"%7e", b"%", b"\xff", b"\xc3\xa9", b"\xc2\xa0", b"\xef\xbb\xbf", b"?",
        b"examplebot", b"10", b"Request-rate: 1/5", b"Visit-time: 0100-0200", b"<html>",
    ]
)  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=200),
    st.lists(PIECES, max_size=40).map(b"".join),
    st.text(max_size=60).map(lambda text: b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass")),
    st.binary(max_size=80).map(b"\xfe\xff".__add__),
    st.binary(max_size=80).map(b"\xef\xbb".__add__),
)


@given(body=BODIES)
def test_lines_and_tail_rebuild_the_body(body: bytes) -> None:
    file = robots.parse(body)
    assert b"".join(line.raw for line in file.lines) + file.tail == body
    assert [line.number for line in file.lines] == list(range(1, len(file.source.kinds) + 1))
    at = 0
    for line in file.lines:
        assert (line.start, line.end) == (at, at + len(line.raw))
        assert line.raw
        at = line.end


@given(body=BODIES, path=st.text(max_size=30))
def test_nothing_raises(body: bytes, path: str) -> None:
    file = robots.parse(body)
    for name, verdict in file.compare(path, agent="examplebot").items():
        assert str(verdict)
        assert verdict.dialect == name
        policy = file.rule_set("examplebot", name)
        assert policy.allowed(verdict.path) == verdict.allowed
        for value in (policy.crawl_delay_s, policy.request_rate_s):
            assert value is None or 0 <= value < float("inf")
        assert isinstance(policy.visit_windows, tuple)
        assert isinstance(policy.usages, tuple)
        if verdict.rule is None:
            assert verdict.allowed
        else:
            assert verdict.line is not None
            assert file.lines[verdict.line - 1].rule == verdict.rule
            assert verdict.span == (
                file.lines[verdict.line - 1].start,
                file.lines[verdict.line - 1].end,
            )
        assert all(loser.line != verdict.line for loser in verdict.losers)
    assert isinstance(file.sitemaps, tuple)
    assert isinstance(file.clean_params, tuple)
    assert isinstance(file.usages, tuple)
    assert file.host is None or file.host


SPELLINGS = [
    (spelling, kind)
    for kind, name in FIELDS.items()
    for spelling in (name, name.lower(), name.upper(), name.title(), name.swapcase())
]


@each(("spelling", "kind"), SPELLINGS)
def test_field_names_in_any_case(spelling: str, kind: LineKind) -> None:
    for text in (f"{spelling}: x", f" {spelling}\t:x # y", f"{spelling}:"):
        line = robots.parse(text.encode()).lines[0]
        assert line.kind is kind
        assert line.leniency == Leniency.NONE
        assert line.value in ("x", "")


@each(("spelling", "kind"), [(s, kind) for kind, names in MISSPELLINGS.items() for s in names])
def test_misspellings_carry_a_flag(spelling: str, kind: LineKind) -> None:
    line = robots.parse(f"{spelling}: x".encode()).lines[0]
    assert (line.kind, line.leniency, line.value) == (kind, Leniency.MISSPELT, "x")


@each(
    ("text", "kind", "value"),
    [
        ("", LineKind.BLANK, ""),
        (" \t\0", LineKind.BLANK, ""),
        ("# Disallow: /", LineKind.COMMENT, ""),
        ("  # x", LineKind.COMMENT, ""),
        ("Disallow", LineKind.JUNK, ""),
        ("Disallow /x", LineKind.DISALLOW, "/x"),
        ("Disallow /x # y", LineKind.DISALLOW, "/x"),
        ("Disallow /x y", LineKind.JUNK, ""),
        ("Sitemap https://a.test/s.xml", LineKind.SITEMAP, "https://a.test/s.xml"),
        ("Nonsense: /x", LineKind.UNKNOWN, ""),
        (": /x", LineKind.UNKNOWN, ""),
        ("Disallow: a: b", LineKind.DISALLOW, "a: b"),
        ("Disallow:# x", LineKind.DISALLOW, ""),
        ("\ufeffDisallow: /x", LineKind.DISALLOW, "/x"),
        ("Disallowed: /x", LineKind.DISALLOW, "/x"),
    ],
)
def test_lines(text: str, kind: LineKind, value: str) -> None:
    line = robots.parse(f"#\n{text}\n".encode()).lines[1]
    assert (line.kind, line.value) == (kind, value)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_ends(end: str) -> None:
    file = robots.parse(f"User-agent: *{end}{end}Disallow: /a{end}".encode())
    assert [line.number for line in file.lines] == [1, 2, 3]
    assert file.decide("/a", agent="x").line == 3


def test_other_separators_end_no_line() -> None:
    """Form feeds, NEL and the separators of Unicode are no line ends in robots.txt."""
    file = robots.parse("User-agent: *\nDisallow: /a\x0bb\x85c\u2028d\n".encode())
    assert len(file.lines) == 2


def test_500_kib_are_used_and_the_cut_is_reported() -> None:
    head = b"User-agent: *\nDisallow: /a\n"
    body = head + b"#" * (BYTES_MAX - len(head) - 12) + b"\nDisallow: /tmp\nDisallow: /b\n"
    file = robots.parse(body)
    assert file.source.bytes_unused == len(body) - BYTES_MAX
    assert file.source.cut_line == 4
    assert not file.decide("/a", agent="x").allowed
    # What is left of the cut line would be `Disallow: /`, or less; it is not obeyed.
    assert file.decide("/tmp", agent="x").allowed
    assert file.decide("/b", agent="x").allowed
    assert file.tail == body[BYTES_MAX:]


def test_a_body_that_the_fetch_cut_is_treated_alike() -> None:
    body = (b"User-agent: *\n" + b"#" * 600_000)[: BYTES_MAX - 11] + b"\nDisallow: "
    assert robots.parse((body + b"/")[:BYTES_MAX]).source.cut_line is not None


def test_an_overlong_line_is_used_in_part_and_reported() -> None:
    path = "/" + "a" * (2 * LINE_BYTES_MAX)
    file = robots.parse(f"User-agent: *\nDisallow: {path}\n".encode())
    assert file.source.long_lines == (2,)
    verdict = file.decide(path, agent="x")
    assert not verdict.allowed
    assert verdict.length == LINE_BYTES_MAX - len("Disallow: ")


def test_a_file_of_nothing_but_line_ends() -> None:
    file = robots.parse(b"\n" * (BYTES_MAX + 5))
    assert len(file.source.kinds) == BYTES_MAX
    assert file.decide("/", agent="x").allowed


def test_html_is_recognised() -> None:
    assert robots.parse(b"\n <!DOCTYPE html><html>").source.html
    assert not robots.parse(b"User-agent: *\n").source.html
