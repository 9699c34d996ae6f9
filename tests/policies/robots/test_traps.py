"""What real files hold: the same bytes under every dialect, and why the answers differ."""

from __future__ import annotations

import pytest

from policies import robots
from tests.tables import each

NAMES = (
    "slurp", "rfc9309", "google", "google2010", "bing", "teoma", "res1996", "res1994", "yandex",
)  # fmt: skip
ALL = "all"


def closed_by(body: str | bytes, url: str, agent: str = "examplebot") -> set[str]:
    file = robots.parse(body.encode() if isinstance(body, str) else body)
    return {name for name, verdict in file.compare(url, agent=agent).items() if not verdict.allowed}


def but(*names: str) -> set[str]:
    return set(NAMES) - set(names)


OLD = ("res1996", "res1994")
DECODING = {"slurp", "rfc9309", "bing", "teoma", "res1996", "yandex"}
RFC_LIKE = {"rfc9309", "google", "google2010", "bing", "teoma", "yandex"}
MERGING = {"rfc9309", "google", "teoma", "yandex"}

CASES: list[tuple[str, str | bytes, str, set[str]]] = [
    # ---- groups
    (
        "a record with only Crawl-delay, before another agent",
        "User-agent: examplebot\nCrawl-delay: 5\n\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        # Merged with the next where only rules end a list; 1994 ends the record at the blank line.
        RFC_LIKE,
    ),
    (
        "the same without a blank line",
        "User-agent: examplebot\nCrawl-delay: 5\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        RFC_LIKE | {"res1994"},  # in 1994 only Disallow ends the list
    ),
    (
        "a Sitemap between agents",
        "User-agent: examplebot\nSitemap: http://a/s\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        but("res1996"),
    ),
    (
        "an unknown line between agents",
        "User-agent: examplebot\nX-Thing: 1\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        but("res1996"),
    ),
    (
        "a comment between agents is no boundary in any dialect",
        "User-agent: examplebot\n# and\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        but(),
    ),
    (
        "a blank line between agents",
        "User-agent: examplebot\n\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        but(*OLD),
    ),
    (
        "a blank line between agent and rule", "User-agent: *\n\nDisallow: /\n", "/x", but(*OLD),
    ),
    (
        "an Allow between agents",
        "User-agent: examplebot\nAllow: /a\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        {"res1994"},
    ),
    (
        "no blank line between records",
        "User-agent: examplebot\nDisallow: /a\nUser-agent: *\nDisallow: /b\n",
        "/a",
        but(),
    ),
    (
        "no blank line between records: the other's rule",
        "User-agent: examplebot\nDisallow: /a\nUser-agent: *\nDisallow: /b\n",
        "/b",
        set(),
    ),
    (
        "an empty Disallow ends a list",
        "User-agent: examplebot\nDisallow:\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        set(),
    ),
    (
        "several groups of the same agent: the second",
        "User-agent: examplebot\nDisallow: /a\n\nUser-agent: examplebot\nDisallow: /b\n",
        "/b",
        MERGING,
    ),
    (
        "several * groups: the second",
        "User-agent: *\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n",
        "/b",
        MERGING,
    ),
    (
        "our group beats * wherever it stands",
        "User-agent: *\nDisallow: /\n\nUser-agent: examplebot\nDisallow: /b\n",
        "/x",
        set(),
    ),
    (
        "an agent with a version", "User-agent: examplebot/2.1\nDisallow: /\n", "/x", but(),
    ),
    (
        "an agent with more words",
        "User-agent: The ExampleBot\nDisallow: /\n",
        "/x",
        {"slurp", *OLD},
    ),
    (
        "an agent that contains ours",
        "User-agent: examplebot-images\nDisallow: /\n",
        "/x",
        {"slurp", *OLD},
    ),
    (
        "an agent that is part of ours", "User-agent: example\nDisallow: /\n", "/x", set(),
    ),
    ("an agent with a star behind", "User-agent: examplebot*\nDisallow: /\n", "/x", but()),
    ("an agent in capitals", "USER-AGENT: EXAMPLEBOT\nDISALLOW: /\n", "/x", but()),
    ("no agent value", "User-agent:\nDisallow: /\n", "/x", set()),
    ("rules before any agent", "Disallow: /\nUser-agent: *\nDisallow: /a\n", "/x", set()),
    ("no agent at all", "Disallow: /\n", "/x", set()),
    ("an empty file", "", "/x", set()),
    # ---- rules
    ("an empty Disallow beside another", "User-agent: *\nDisallow:\nDisallow: /a\n", "/a", but()),
    ("an empty Allow", "User-agent: *\nAllow:\nDisallow: /a\n", "/a", but()),
    (
        "an absolute URL as a rule",
        "User-agent: *\nDisallow: http://a.test/private/\n",
        "http://a.test/private/x",
        set(),
    ),
    ("a rule without a slash", "User-agent: *\nDisallow: private/\n", "/private/x", set()),
    (
        "a rule beginning with a star",
        "User-agent: *\nDisallow: *private/\n",
        "/private/x",
        but("teoma", *OLD),
    ),
    ("a lone star", "User-agent: *\nDisallow: *\n", "/x", but(*OLD)),
    (
        "the end of a path twice",
        "User-agent: *\nDisallow: /*.php$\n",
        "/a.php/b.php",
        but("teoma", *OLD),
    ),
    (
        "/public beside /private/ under /",
        "User-agent: *\nDisallow: /\nAllow: /public\nDisallow: /private/\n",
        "/public",
        {"res1996", "res1994"},
    ),
    (
        "/a? under Allow: /*?$",
        "User-agent: *\nDisallow: /\nAllow: /*?$\n",
        "/a?",
        {"teoma", *OLD},
    ),
    ("$ in the middle", "User-agent: *\nDisallow: /a$b\n", "/a$b", but("slurp")),
    ("$ in the middle cuts for slurp", "User-agent: *\nDisallow: /a$b\n", "/a", {"slurp"}),
    ("two $", "User-agent: *\nDisallow: /a$$\n", "/a$", but("slurp", "teoma", *OLD)),
    ("case of a path", "User-agent: *\nDisallow: /A\n", "/a", set()),
    ("? is a literal", "User-agent: *\nDisallow: /a?b\n", "/aXb", set()),
    ("? is a literal, too", "User-agent: *\nDisallow: /a?b\n", "/a?bc", but()),
    ("a star that means nothing", "User-agent: *\nDisallow: /a*b\n", "/ab", but("teoma", *OLD)),
    ("two stars", "User-agent: *\nDisallow: /a**b\n", "/axb", but("teoma", *OLD)),
    ("a star before the anchor", "User-agent: *\nDisallow: /a*$\n", "/axyz", but("teoma", *OLD)),
    ("an anchored prefix overlaps itself", "User-agent: *\nDisallow: /ab*b$\n", "/ab", set()),
    # ---- escapes
    ("%2A is a literal star", "User-agent: *\nDisallow: /a%2Ab\n", "/axb", set()),
    ("%2A meets a star", "User-agent: *\nDisallow: /a%2Ab\n", "/a*b", DECODING),
    ("%2A meets itself", "User-agent: *\nDisallow: /a%2Ab\n", "/a%2Ab", but()),
    ("%24 is a literal $", "User-agent: *\nDisallow: /a%24\n", "/a", set()),
    ("%24 meets $", "User-agent: *\nDisallow: /a%24\n", "/a$", DECODING),
    ("%7E meets ~", "User-agent: *\nDisallow: /%7Ejoe\n", "/~joe", DECODING),
    ("~ meets %7e", "User-agent: *\nDisallow: /~joe\n", "/%7ejoe", DECODING),
    ("%2F is not /", "User-agent: *\nDisallow: /a%2Fb\n", "/a/b", set()),
    ("/ is not %2F", "User-agent: *\nDisallow: /a/b\n", "/a%2Fb", set()),
    ("%2f is %2F", "User-agent: *\nDisallow: /a%2fb\n", "/a%2Fb", but("res1994")),
    ("a raw path meets an escaped URL", "User-agent: *\nDisallow: /é\n", "/%C3%A9", but("res1994")),
    ("an escaped path meets a raw URL", "User-agent: *\nDisallow: /%C3%A9\n", "/é", DECODING),
    ("raw meets raw", "User-agent: *\nDisallow: /é\n", "/é", but("google", "google2010")),
    ("hexadecimals in the rule", "User-agent: *\nDisallow: /%c3%a9\n", "/%C3%A9", but("res1994")),
    ("hexadecimals in the URL", "User-agent: *\nDisallow: /%C3%A9\n", "/%c3%a9", DECODING),
    ("a stray percent", "User-agent: *\nDisallow: /100%\n", "/100%", but()),
    ("a raw blank in a rule", "User-agent: *\nDisallow: /a b\n", "/a%20b", DECODING),
    ("a colon escaped in a path", "User-agent: *\nDisallow: /w/S%3Ax\n", "/w/S:x", DECODING),
    (
        "a slash in the query of a wildcard rule",
        "User-agent: *\nDisallow: /*/print\n",
        "/a?u=/print",
        but("teoma", *OLD),
    ),
    (
        "the same beside an escape",
        "User-agent: *\nDisallow: /*/print\n",
        "/%7Ea?u=/print",
        but("teoma", *OLD),
    ),
    # ---- /robots.txt
    (
        "robots.txt itself",
        "User-agent: *\nDisallow: /\n",
        "/robots.txt",
        {"google", "google2010", "res1994"},
    ),
    ("robots.txt with a query is a page", "User-agent: *\nDisallow: /\n", "/robots.txt?x", but()),
    # ---- spellings and blanks
    ("no blank behind the colon", "User-agent:*\nDisallow:/\n", "/x", but()),
    ("blanks everywhere", " \tUser-agent \t:\t * \n  Disallow  :   /   \n", "/x", but()),
    ("comments everywhere", "User-agent: * # all\nDisallow: / # out\n", "/x", but()),
    ("a comment without a blank", "User-agent: *\nDisallow: /a#b\n", "/a", but()),
    ("misspelt", "User-agent: *\nDisalow: /\n", "/x", but(*OLD)),
    ("misspelt, too", "Useragent: *\nDissallow: /\n", "/x", but(*OLD)),
    ("user agent", "User agent: *\nDisallow: /\n", "/x", but(*OLD)),
    ("no colon", "User-agent *\nDisallow /\n", "/x", but(*OLD)),
    ("no colon and too many words", "User-agent: *\nDisallow / please\n", "/x", set()),
    ("a longer name", "User-agent: *\nDisallowed: /\n", "/x", {"google", "google2010"}),
    ("CR ends lines", "User-agent: *\rDisallow: /\r", "/x", but()),
    ("CRLF ends lines", "User-agent: *\r\nDisallow: /\r\n", "/x", but()),
    ("LF CR", "User-agent: *\n\rDisallow: /\n\r", "/x", but(*OLD)),  # a blank line in between
    ("no line end", "User-agent: *\nDisallow: /", "/x", but()),
    ("a byte order mark", b"\xef\xbb\xbfUser-agent: *\nDisallow: /\n", "/x", but()),
    ("part of a byte order mark", b"\xef\xbbUser-agent: *\nDisallow: /\n", "/x", but()),
    ("less of a byte order mark", b"\xefUser-agent: *\nDisallow: /\n", "/x", but()),
    ("UTF-16", "User-agent: *\nDisallow: /\n".encode("utf-16"), "/x", but()),
    (
        "UTF-16, big end first",
        b"\xfe\xff" + "User-agent: *\r\nDisallow: /\r\n".encode("utf-16-be"),
        "/x",
        but(),
    ),
    ("NUL around", b"User-agent: *\0\n\0Disallow: /\0\n", "/x", but("google")),
    ("an invalid byte elsewhere", b"User-agent: *\nDisallow: /\xff\nDisallow: /a\n", "/a", but()),
    ("a no-break space", "User-agent:\u00a0*\nDisallow:\u00a0/\n", "/x", but("google")),
    (
        "a web page",
        "<!doctype html>\n<html><head><title>User-agent: *</title>\n<p>Disallow: /</p>\n",
        "/x",
        set(),
    ),
    (
        "rules within a web page", "<html><pre>\nUser-agent: *\nDisallow: /\n</pre>\n", "/x", but(),
    ),
    # ---- ACAP
    ("ACAP alone", "ACAP-crawler: *\nACAP-disallow-crawl: /\n", "/x", but("google")),
    (
        "ACAP beside ordinary rules",
        "User-agent: *\nDisallow: /a\n\nACAP-crawler: *\nACAP-disallow-crawl: /b\n",
        "/b",
        but("google"),
    ),
    (
        "ordinary rules beside ACAP",
        "User-agent: *\nDisallow: /a\n\nACAP-crawler: *\nACAP-disallow-crawl: /b\n",
        "/a",
        but(),
    ),
    (
        "ACAP rules without an ACAP-crawler",
        "User-agent: *\nACAP-disallow-crawl: /b\n",
        "/b",
        but("google"),
    ),
    (
        "an ACAP allow",
        "ACAP-crawler: *\nACAP-allow-crawl: /a/b\nACAP-disallow-crawl: /a\n",
        "/a/b",
        {"res1994"},
    ),
    (
        "another's ACAP record", "ACAP-crawler: otherbot\nACAP-disallow-crawl: /\n", "/x", set(),
    ),
]  # fmt: skip


@each(("name", "body", "url", "closed"), CASES)
def test_trap(name: str, body: str | bytes, url: str, closed: set[str]) -> None:
    assert closed_by(body, url) == closed, name


def test_the_cases_cover_every_dialect() -> None:
    assert set(NAMES) == set(robots.DIALECTS)


# ---------------------------------------------------------------- agents of our own


@each(
    "agent",
    [
        "examplebot/1.0",
        "ExampleBot",
        "examplebot/1.0 (+https://a.test)",
        "examplebot (+https://a.test)",
    ],
)
@each("dialect", NAMES)
def test_our_own_name_may_come_with_a_version(dialect: str, agent: str) -> None:
    file = robots.parse(b"User-agent: examplebot\nDisallow: /\n")
    assert not file.decide("/x", agent=agent, dialect=dialect).allowed


@each("agent", ["", " ", "/1.0"])
@each("dialect", NAMES)
def test_an_empty_name_is_nobody(dialect: str, agent: str) -> None:
    file = robots.parse(b"User-agent: examplebot\nDisallow: /\n\nUser-agent: *\nDisallow: /a\n")
    assert file.decide("/x", agent=agent, dialect=dialect).allowed
    assert not file.decide("/a", agent=agent, dialect=dialect).allowed


def test_agents_with_digits() -> None:
    """`bot2` and `bot` are two names, though RFC 9309 has no digits in a product token."""
    file = robots.parse(b"User-agent: examplebot2\nDisallow: /\n")
    assert not file.decide("/x", agent="examplebot2", dialect="rfc9309").allowed
    assert file.decide("/x", agent="examplebot", dialect="rfc9309").allowed
    assert not file.decide("/x", agent="examplebot", dialect="slurp").allowed
    file = robots.parse(b"User-agent: 360Spider\nDisallow: /\n")
    assert not file.decide("/x", agent="360spider", dialect="rfc9309").allowed
    assert not file.decide("/x", agent="360spider", dialect="slurp").allowed
    assert file.decide("/x", agent="360spider", dialect="google").allowed


def test_bing_takes_the_first_present_of_its_tokens() -> None:
    file = robots.parse(b"User-agent: msnbot\nDisallow: /m\n\nUser-agent: bingbot\nDisallow: /b\n")
    agents = ["bingbot", "msnbot"]
    assert not file.decide("/b", agent=agents, dialect="bing").allowed
    assert file.decide("/m", agent=agents, dialect="bing").allowed
    file = robots.parse(b"User-agent: msnbot\nDisallow: /m\n\nUser-agent: *\nDisallow: /b\n")
    assert not file.decide("/m", agent=agents, dialect="bing").allowed
    assert file.decide("/b", agent=agents, dialect="bing").allowed


# ---------------------------------------------------------------- Crawl-delay

DELAYS = [
    # file, {dialect: seconds}; those not named: None
    (
        "User-agent: *\nCrawl-delay: 10\n",
        dict.fromkeys(("slurp", "rfc9309", "teoma", "bing"), 10.0),
    ),
    (
        "User-agent: *\nCrawl-delay: 0.5\n",
        {"slurp": 0.5, "rfc9309": 0.5, "teoma": 0.5, "bing": 1.0},
    ),
    (
        "User-agent: *\nCrawl-delay: 10s\n",
        dict.fromkeys(("slurp", "rfc9309", "teoma", "bing"), 10.0),
    ),
    ("User-agent: *\nCrawl-delay: -1\n", {}),
    ("User-agent: *\nCrawl-delay: NaN\n", {}),
    ("User-agent: *\nCrawl-delay: inf\n", {}),
    ("User-agent: *\nCrawl-delay:\n", {}),
    ("User-agent: *\nCrawl-delay: soon\n", {}),
    ("User-agent: *\nCrawl-delay: " + "9" * 400 + "\n", {}),
    ("User-agent: *\nCrawl-delay: 0\n", dict.fromkeys(("slurp", "rfc9309", "teoma", "bing"), 0.0)),
    ("Crawl-delay: 10\nUser-agent: *\nDisallow: /\n", {}),
    (
        "User-agent: *\nCrawl-delay: 3\nDisallow: /a\nCrawl-delay: 7\nCrawl-delay: 5\n",
        dict.fromkeys(("slurp", "rfc9309", "teoma", "bing"), 7.0),
    ),
    (  # inherited from `*` by bing only
        "User-agent: *\nCrawl-delay: 3\n\nUser-agent: examplebot\nDisallow: /a\n",
        {"bing": 3.0, "rfc9309": 3.0, "teoma": 3.0},
    ),
    (
        "User-agent: *\nDisallow: /b\nCrawl-delay: 3\n\nUser-agent: examplebot\nDisallow: /a\n",
        {"bing": 3.0},
    ),
    (  # merged groups: the largest
        (
            "User-agent: examplebot\nDisallow: /a\nCrawl-delay: 3\n\n"
            "User-agent: examplebot\nDisallow: /b\nCrawl-delay: 8\n"
        ),
        {"slurp": 3.0, "rfc9309": 8.0, "teoma": 8.0, "bing": 3.0},
    ),
]


@each(("body", "delays"), DELAYS)
def test_crawl_delay(body: str, delays: dict[str, float]) -> None:
    file = robots.parse(body.encode())
    found = {name: file.rule_set("examplebot", name).crawl_delay_s for name in NAMES}
    assert {name: delay for name, delay in found.items() if delay is not None} == delays


# ---------------------------------------------------------------- several dialects


def test_of_several_dialects_the_strictest_counts() -> None:
    file = robots.parse(
        b"User-agent: *\nCrawl-delay: 2\nDisallow: /a\n\n"
        b"User-agent: *\nDisallow: /b\nCrawl-delay: 9\n"
    )
    both = ["slurp", "rfc9309"]
    policy = file.rule_set("examplebot", both)
    assert not policy.allowed("/a")
    assert not policy.allowed("/b")
    assert policy.allowed("/c")
    assert policy.crawl_delay_s == 9
    verdict = policy.verdict("http://a.test/b")
    assert verdict.dialect == "rfc9309"
    assert verdict.dialects == ("slurp", "rfc9309")
    assert "strictest" in str(verdict)
    assert policy.verdict("/a").dialect == "slurp"
    assert policy.verdict("/c").dialect == "slurp"


def test_an_unknown_dialect_is_named_with_those_there_are() -> None:
    file = robots.parse(b"")
    with pytest.raises(robots.UnknownDialectError, match=r"no dialect 'slurpy'.*slurp"):
        file.decide("/", agent="a", dialect="slurpy")
    with pytest.raises(robots.UnknownDialectError):
        file.decide("/", agent="a", dialect=[])
