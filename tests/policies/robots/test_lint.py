"""What lint tells a site owner, line by line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies import robots
from policies.robots import BYTES_MAX, LINE_BYTES_MAX
from policies.robots.lint import FINDINGS_MAX, lint
from policies.robots.lint_rules import Severity
from tests.tables import each

GROUP = "User-agent: *\n"

CASES: list[tuple[str | bytes, str, int | None]] = [
    # file, code, line
    (GROUP + "Disallow: /a\n" + "#" * BYTES_MAX, "cut", 3),
    ("<!doctype html><html>\n", "html", None),
    ("User-agent: *\nDisallow: /\n".encode("utf-16"), "utf-16", None),
    (b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n", "bom", 1),
    (GROUP + "Disallow: /" + "a" * LINE_BYTES_MAX, "long-line", 2),
    (GROUP + "Disallow: /\0a", "nul", 2),
    ("Disallow: /\n", "no-group", None),
    ("Disallow: /\nUser-agent: *\nDisallow:\n", "no-agent-yet", 1),
    (GROUP + "go away\n", "junk", 2),
    (GROUP + "Pace: 1\n", "unknown", 2),
    (GROUP + "Disallow /a\n", "no-colon", 2),
    (GROUP + "Disalow: /a\n", "misspelt", 2),
    (GROUP + "Disallowed: /a\n", "misspelt", 2),
    (GROUP + "disallow: /a\n", "word-case", 2),
    ("USER-AGENT: *\nDisallow:\n", "word-case", 1),
    (b"User-agent: *\nDisallow: /\xff\n", "bytes", 2),
    (GROUP + "Disallow: /é\n", "non-ascii", 2),
    ("User-agent:\nDisallow: /\n", "no-agent", 1),
    ("User-agent: *bot\nDisallow: /\n", "star-text", 1),
    ("User-agent: 360Spider\nDisallow: /\n", "no-token", 1),
    ("User-agent: bot/2.0\nDisallow: /\n", "token", 1),
    ("User-agent: Yahoo! Slurp\nDisallow: /\n", "token", 1),
    (GROUP + "Disallow: /a\n\nUser-agent: *\nDisallow: /b\n", "unreachable-group", 4),
    (GROUP, "empty-group", 1),
    (
        "User-agent: a\nCrawl-delay: 5\n\nUser-agent: b\nDisallow: /\n",
        "delay-only",
        4,
    ),
    ("User-agent: a\n\nDisallow: /\n", "blank-line", 2),
    (GROUP + "Crawl-delay: -1\nDisallow:\n", "delay-value", 2),
    (GROUP + "Crawl-delay: NaN\nDisallow:\n", "delay-value", 2),
    (GROUP + "Crawl-delay: 10s\nDisallow:\n", "delay-unit", 2),
    (GROUP + "Crawl-delay: 0.5\nDisallow:\n", "delay-fraction", 2),
    (GROUP + "Crawl-delay: 11\nDisallow:\n", "delay-range", 2),
    (GROUP + "Crawl-delay: 1\nDisallow:\nCrawl-delay: 2\n", "delay-repeated", 4),
    ("Sitemap: /sitemap.xml\n", "sitemap", 1),
    (GROUP + "Disallow: http://a.test/b\n", "domain", 2),
    (GROUP + "Disallow: b/\n", "no-slash", 2),
    (GROUP + "Disallow: /a$b\n", "dollar", 2),
    (GROUP + "Disallow: /a*\n", "trailing-star", 2),
    (GROUP + "Disallow: /*.gif$\n", "wildcard", 2),
    (GROUP + "Disallow: /100%\n", "percent", 2),
    (GROUP + "Disallow: /a%2Fb\n", "slash-escape", 2),
    (GROUP + "Disallow: /a b\n", "blank", 2),
    (GROUP + "Noindex: /a\n", "noindex", 2),
    (GROUP + "Disallow: /a\nDisallow: /a\n", "duplicate", 3),
    (GROUP + "Disallow: /a\nAllow: /a\n", "contradiction", 3),
    (GROUP + "Disallow: /a\nAllow: /a/b\n", "order", 3),
    (GROUP + "Disallow: /a\nDisallow: /a/b\n", "shadowed", 3),
    (GROUP + "Disallow: /a/b\nDisallow: /a\n", "shadowed", 2),
    (GROUP + "Disallow: /\nDisallow: /a*b$\n", "shadowed", 3),
    (GROUP + "Disallow: /a$\nDisallow: /a\n", "shadowed", 2),
    (GROUP + "Disallow: /a\nDisallow: /a/b\nDisallow: /*.gif$\n", "shadowed", 3),
    (GROUP + "Allow: /a/b\nDisallow: /a\n", "allow", 2),
]


@each(("body", "code", "line"), CASES)
def test_finding(body: str | bytes, code: str, line: int | None) -> None:
    found = lint(robots.parse(body.encode() if isinstance(body, str) else body))
    matching = [finding for finding in found if finding.code == code]
    assert [finding.line for finding in matching][:1] == [line]
    assert matching[0].why
    assert str(matching[0]).startswith(f"line {line}: " if line else matching[0].severity)


def test_a_good_file_has_no_findings() -> None:
    body = (
        b"User-agent: examplebot\nUser-agent: otherbot\nDisallow: /private/\nCrawl-delay: 5\n\n"
        b"User-agent: *\nDisallow: /\n\nSitemap: https://a.test/sitemap.xml\n"
    )
    assert lint(robots.parse(body)) == ()


def test_a_rule_is_not_shadowed_where_an_exception_lies_between() -> None:
    body = b"User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\n"
    assert "shadowed" not in {finding.code for finding in lint(robots.parse(body))}


@each(
    "rules",
    [
        "Disallow: /a\nDisallow: /a/b\nAllow: /*.gif$\n",
        "Disallow: /a\nAllow: /\nDisallow: /a*b\n",
        "Disallow: /ab\nDisallow: /a*b\n",
        "Disallow: /*a\nDisallow: /*ab\n",
    ],
)
def test_a_rule_that_may_decide_is_not_shadowed(rules: str) -> None:
    codes = [finding.code for finding in lint(robots.parse((GROUP + rules).encode()))]
    assert "shadowed" not in codes


def test_findings_come_in_the_order_of_lines() -> None:
    found = lint(robots.parse(b"Disallow: x\nUser-agent: *\nDisalow: y\nCrawl-delay: x\n"))
    lines = [finding.line or 0 for finding in found]
    assert lines == sorted(lines)
    assert {finding.severity for finding in found} <= set(Severity)


def test_a_flood_is_bounded() -> None:
    assert len(lint(robots.parse(b"junk\n" * 50_000))) == FINDINGS_MAX


@given(
    body=st.binary(max_size=120)
    | st.text(max_size=80).map(lambda t: b"User-agent: *\nAllow:" + t.encode("utf-8", "replace"))
)
def test_lint_never_raises(body: bytes) -> None:
    for finding in lint(robots.parse(body)):
        assert str(finding)


@each(
    ("text", "page"),
    [
        ("# see <html> of http://a.test/\n" + GROUP + "Disallow: /a\n", False),
        ("\n  # <html>\n\n" + GROUP + "Disallow: /<html>\n", False),
        ("User-agent: <html>\nDisallow: /\n", False),
        ("# ours\n\n \t<HTML><body>\n" + GROUP, True),
        ("<!-- error --><html>\n", True),
        ("<?xml version='1.0'?>\n", True),
        ("", False),
    ],
)
def test_a_web_page_is_known_by_what_stands_first_in_it(text: str, page: bool) -> None:
    findings = lint(robots.parse(text.encode()))
    assert ("html" in {finding.code for finding in findings}) is page
