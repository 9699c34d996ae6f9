"""A verdict says why: the deciding line, what it beat, whose group, what is ours."""

from __future__ import annotations

from policies import robots
from tests.tables import each

BODY = b"""# a file
User-agent: examplebot
User-agent: otherbot
Disallow: /private/   # not for you
Allow: /private/open
Allow: /*.html$
Disallow: /backup/

User-agent: *
Disallow: /
"""
FILE = robots.parse(BODY)


def test_the_deciding_line_its_number_span_and_length() -> None:
    verdict = FILE.decide("http://a.test/private/x?y#z", agent="examplebot")
    assert not verdict.allowed
    assert verdict.rule == "Disallow: /private/"
    assert verdict.line == 4
    assert verdict.length == 9
    assert verdict.span is not None
    start, end = verdict.span
    assert BODY[start:end] == b"Disallow: /private/   # not for you\n"
    assert verdict.path == "/private/x?y"
    assert verdict.dialect == "slurp"


def test_the_group_and_those_that_lost() -> None:
    verdict = FILE.decide("/private/x", agent="examplebot")
    assert verdict.group == "examplebot"
    assert verdict.group_lines == (2, 3)
    assert verdict.other_groups == ((9, ("*",)),)
    assert FILE.decide("/private/x", agent="thirdbot").group == "*"


def test_the_losing_rules_in_order_of_precedence() -> None:
    verdict = FILE.decide("/private/open.html", agent="examplebot")
    assert verdict.allowed
    assert verdict.line == 5
    assert [loser.line for loser in verdict.losers] == [4, 6]


SENTENCES = [
    (
        "examplebot",
        "/private/x",
        "slurp",
        """Disallowed by line 4, `Disallow: /private/`, in the group for `examplebot` at line 2
        (dialect slurp).""",
    ),
    (
        "examplebot",
        "/private/open",
        "rfc9309",
        """Allowed by line 5, `Allow: /private/open`, in the group for `examplebot` at line 2: at
        13 octets it is longer than line 4, `Disallow: /private/`, at 9, and the longest rule
        applies (dialect rfc9309).""",
    ),
    (
        "examplebot",
        "/backup/yes_or_not.html",
        "slurp",
        """Allowed by line 6, `Allow: /*.html$`, in the group for `examplebot` at line 2: both it
        and line 7, `Disallow: /backup/`, are 8 octets long, and Allow wins a tie (dialect slurp).
        Note: we count a rule's length in octets as compared, including `$`.""",
    ),
    (
        "thirdbot",
        "/x",
        "google",
        """Disallowed by line 10, `Disallow: /`, in the group for all crawlers (`*`) at line 9
        (dialect google).""",
    ),
    ("thirdbot", "/robots.txt", "slurp", "Allowed: slurp always allows /robots.txt itself."),
    (
        "examplebot",
        "/x",
        "slurp",
        "Allowed: no rule in the group for `examplebot` at line 2 matches (dialect slurp).",
    ),
]


@each(("agent", "path", "dialect", "sentence"), SENTENCES)
def test_a_verdict_reads_as_a_sentence(agent: str, path: str, dialect: str, sentence: str) -> None:
    assert str(FILE.decide(path, agent=agent, dialect=dialect)).startswith(
        " ".join(sentence.split())
    )


def test_silence_is_explained() -> None:
    other = robots.parse(b"User-agent: otherbot\nDisallow: /\n")
    assert "no group applies to examplebot" in str(other.decide("/", agent="examplebot"))
    empty = robots.parse(b"")
    assert "no group" in str(empty.decide("/", agent="examplebot"))
    nothing = robots.parse(b"User-agent: *\nDisallow:\n")
    assert "forbid nothing" in str(nothing.decide("/", agent="examplebot"))


def test_what_no_source_says_is_called_ours() -> None:
    """How length is counted, what `*` was to Teoma: said where it mattered, and only there."""
    tie = FILE.decide("/backup/a.html", agent="examplebot", dialect="slurp")
    assert any("we count" in text for text in tie.ours)
    plain = FILE.decide("/private/x", agent="examplebot", dialect="slurp")
    assert plain.ours == ()
    teoma = FILE.decide("/backup/a.html", agent="examplebot", dialect="teoma")
    assert not teoma.allowed
    assert any("Teoma" in text and "`*`" in text for text in teoma.ours)
    assert "`*`" in str(teoma)


def test_the_sentence_of_the_dialect_relied_on() -> None:
    relied_on = FILE.decide("/private/x", agent="examplebot", dialect="res1996").relied_on
    assert any("in file order" in text for text in relied_on)


def test_the_path_as_compared() -> None:
    decide = robots.parse(b"User-agent: *\nDisallow: /%7Ejoe\n").decide
    assert decide("/%7ejoe", agent="x", dialect="slurp").compared == "/~joe"
    assert decide("/%7ejoe", agent="x", dialect="rfc9309").compared == "/~joe"
    assert decide("/%7ejoe", agent="x", dialect="google").compared == "/%7ejoe"


@each(
    ("url", "path"),
    [
        ("http://a.test", "/"),
        ("http://a.test/", "/"),
        ("http://a.test:8080/x?y#z", "/x?y"),
        ("https://a.test?x/y", "/?x/y"),
        ("https://a.test#x/y", "/"),
        ("http://a.test//x", "//x"),
        ("http://u:p@a.test/x", "/x"),
        ("http://a.test/x#/y", "/x"),
        ("ftp://a.test/x", "/x"),
        ("/x", "/x"),
        ("//x", "//x"),
        ("/x#y", "/x"),
        ("a.test/x", "/x"),
        ("a.test", "/"),
        ("", "/"),
        ("http://a.test;x/y", "/;x/y"),
        ("http://a.test/a?b=http://c/d", "/a?b=http://c/d"),
    ],
)
def test_path_of_a_url_as_given(url: str, path: str) -> None:
    assert robots.path_of(url) == path


def test_compare_gives_all_dialects() -> None:
    assert list(FILE.compare("/", agent="x")) == list(robots.DIALECTS)
