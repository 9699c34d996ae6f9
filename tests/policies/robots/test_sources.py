"""The examples of the sources themselves, each under the dialect it defines."""

from __future__ import annotations

import pytest

from policies import robots
from tests.tables import each

ALL = tuple(robots.DIALECTS)


def allowed(body: str, url: str, dialect: str, agent: str = "examplebot") -> bool:
    return robots.parse(body.encode()).decide(url, agent=agent, dialect=dialect).allowed


# ---------------------------------------------------------------- the 1996 draft

DRAFT_PATHS = [
    ("/tmp", "/tmp", True), ("/tmp", "/tmp.html", True), ("/tmp", "/tmp/a.html", True),
    ("/tmp/", "/tmp", False), ("/tmp/", "/tmp/", True), ("/tmp/", "/tmp/a.html", True),
    ("/a%3cd.html", "/a%3cd.html", True), ("/a%3Cd.html", "/a%3cd.html", True),
    ("/a%3cd.html", "/a%3Cd.html", True), ("/a%3Cd.html", "/a%3Cd.html", True),
    ("/a%2fb.html", "/a%2fb.html", True), ("/a%2fb.html", "/a/b.html", False),
    ("/a/b.html", "/a%2fb.html", False), ("/a/b.html", "/a/b.html", True),
    ("/%7ejoe/index.html", "/~joe/index.html", True),
    ("/~joe/index.html", "/%7Ejoe/index.html", True),
]  # fmt: skip


@each(("path", "url", "matches"), DRAFT_PATHS)
@each("dialect", ["res1996", "slurp", "rfc9309", "bing", "teoma", "yandex"])
def test_res1996_section_3_2_2_paths(dialect: str, path: str, url: str, matches: bool) -> None:
    """The draft's table holds in every dialect that decodes."""
    assert allowed(f"User-agent: *\nDisallow: {path}\n", url, dialect) is not matches


DRAFT_FILE = """# /robots.txt for http://www.fict.org/
# comments to webmaster@fict.org

User-agent: unhipbot
Disallow: /

User-agent: webcrawler
User-agent: excite
Disallow:

User-agent: *
Disallow: /org/plans.html
Allow: /org/
Allow: /serv
Allow: /~mak
Disallow: /
"""
DRAFT_URLS = [
    ("/", False, True, False), ("/index.html", False, True, False),
    ("/robots.txt", True, True, True), ("/server.html", False, True, True),
    ("/services/fast.html", False, True, True), ("/services/slow.html", False, True, True),
    ("/orgo.gif", False, True, False), ("/org/about.html", False, True, True),
    ("/org/plans.html", False, True, False), ("/%7Ejim/jim.html", False, True, False),
    ("/%7Emak/mak.html", False, True, True),
]  # fmt: skip


@each(("path", "unhip", "excite", "other"), DRAFT_URLS)
@each("dialect", ["res1996", "slurp", "rfc9309"])
def test_res1996_section_4_example(
    dialect: str, path: str, unhip: bool, excite: bool, other: bool
) -> None:
    """The draft's example file; its rules are such that the longest and the first agree."""
    url = "http://www.fict.org" + path
    assert allowed(DRAFT_FILE, url, dialect, "unhipbot") is unhip
    assert allowed(DRAFT_FILE, url, dialect, "webcrawler") is excite
    assert allowed(DRAFT_FILE, url, dialect, "excite") is excite
    assert allowed(DRAFT_FILE, url, dialect, "cybermapper") is other


def test_res1996_the_first_match_in_file_order_counts() -> None:
    body = "User-agent: *\nDisallow: /a\nAllow: /a/b\n"
    assert not allowed(body, "/a/b", "res1996")
    assert allowed(body, "/a/b", "rfc9309")
    assert allowed("User-agent: *\nAllow: /a/b\nDisallow: /a\n", "/a/b", "res1996")


# ---------------------------------------------------------------- RFC 9309

RFC_ENCODING = [
    # rule or URL, as encoded, what it is matched as
    ("/foo/bar?baz=quz", "/foo/bar?baz=quz", "/foo/bar?baz=quz"),
    (
        "/foo/bar?baz=https://foo.bar",
        "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
        "/foo/bar?baz=https%3A%2F%2Ffoo.bar",
    ),
    ("/foo/bar/\u30c4", "/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84", "/foo/bar/%E3%83%84"),
    ("/foo/bar/%62%61%7A", "/foo/bar/%62%61%7A", "/foo/bar/baz"),
]


@each("spellings", RFC_ENCODING)
@each("dialect", ["rfc9309", "bing", "teoma", "yandex"])
def test_rfc9309_2_2_2_encoding(dialect: str, spellings: tuple[str, str, str]) -> None:
    """All spellings in a row of the section's table are equal."""
    for rule in spellings:
        for url in spellings:
            assert not allowed(f"User-agent: *\nDisallow: {rule}\n", url, dialect), (rule, url)


@pytest.mark.parametrize(
    ("rule", "url"),
    [
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html"),
        ("/path/foo-%24", "/path/foo-$"),
    ],
)
def test_rfc9309_2_2_3_escaped_specials_are_literal(rule: str, url: str) -> None:
    body = f"User-agent: *\nDisallow: {rule}\n"
    assert not allowed(body, "https://www.example.com" + url, "rfc9309")
    assert allowed(
        body, "https://www.example.com" + url.replace("*", "x").replace("$", ""), "rfc9309"
    )


RFC_FILE = """User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""
RFC_EXAMPLES = [
    ("anybot", "/a.gif", False), ("anybot", "/a.gif?x", True), ("anybot", "/example/x", False),
    ("anybot", "/publications/x", True), ("anybot", "/publications/x.gif", True),
    ("anybot", "/", True), ("foobot", "/", False), ("foobot", "/example/page.html", True),
    ("foobot", "/example/allowed.gif", True), ("foobot", "/publications/", False),
    ("barbot", "/example/page.html", False), ("bazbot", "/example/page.html", False),
    ("bazbot", "/example/allowed.gif", True), ("quxbot", "/example/page.html", True),
    ("FooBot", "/", False),
]  # fmt: skip


@each(("agent", "path", "expected"), RFC_EXAMPLES)
@each("dialect", ["rfc9309", "google", "bing", "slurp", "yandex"])
def test_rfc9309_5_1_simple_example(dialect: str, agent: str, path: str, expected: bool) -> None:
    assert allowed(RFC_FILE, path, dialect, agent) is expected


def test_rfc9309_5_2_longest_match() -> None:
    body = "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
    assert not allowed(body, "/example/page/disallowed.gif", "rfc9309", "foobot")
    assert allowed(body, "/example/page/", "rfc9309", "foobot")


def test_rfc9309_2_2_1_groups_of_the_same_token_are_merged() -> None:
    body = (
        "user-agent: ExampleBot\ndisallow: /foo\ndisallow: /bar\n\n"
        "user-agent: ExampleBot\ndisallow: /baz\n"
    )
    for path in ("/foo", "/bar", "/baz"):
        assert not allowed(body, path, "rfc9309")
    assert allowed(body, "/baz", "slurp")


# ---------------------------------------------------------------- Google's documentation

GOOGLE_PRECEDENCE = [
    ("/p", "/", "/page", True), ("/folder", "/folder", "/folder/page", True),
    ("/page", "/*.htm", "/page.htm", False), ("/page", "/*.ph", "/page.php5", True),
    ("/$", "/", "/", True), ("/$", "/", "/page.htm", False),
]  # fmt: skip


@each(("allow", "disallow", "path", "expected"), GOOGLE_PRECEDENCE)
@each("dialect", ["google", "google2010", "rfc9309", "bing", "slurp", "yandex"])
def test_google_order_of_precedence(
    dialect: str, allow: str, disallow: str, path: str, expected: bool
) -> None:
    body = f"User-agent: *\nAllow: {allow}\nDisallow: {disallow}\n"
    assert allowed(body, "http://example.com" + path, dialect) is expected


GOOGLE_PATHS = [
    ("/", "/anything", True), ("/*", "/anything", True), ("/fish", "/fish", True),
    ("/fish", "/fish.html", True), ("/fish", "/fish/salmon.html", True),
    ("/fish", "/fishheads/yummy.html", True), ("/fish", "/fish.php?id=anything", True),
    ("/fish", "/Fish.asp", False), ("/fish", "/catfish", False), ("/fish", "/?id=fish", False),
    ("/fish*", "/fish", True), ("/fish*", "/fishheads", True), ("/fish*", "/Fish.asp", False),
    ("/fish/", "/fish/", True), ("/fish/", "/fish/?id=anything", True), ("/fish/", "/fish", False),
    ("/fish/", "/fish.html", False), ("/*.php", "/index.php", True),
    ("/*.php", "/filename.php", True), ("/*.php", "/folder/filename.php?parameters", True),
    ("/*.php", "/folder/any.php.file.html", True), ("/*.php", "/", False),
    ("/*.php", "/windows.PHP", False), ("/*.php$", "/filename.php", True),
    ("/*.php$", "/folder/filename.php", True), ("/*.php$", "/filename.php?parameters", False),
    ("/*.php$", "/filename.php/", False), ("/*.php$", "/filename.php5", False),
    ("/*.php$", "/a.php/b.php", True), ("/fish*.php", "/fish.php", True),
    ("/fish*.php", "/fishheads/catfish.php?parameters", True), ("/fish*.php", "/Fish.PHP", False),
]  # fmt: skip


@each(("rule", "path", "matches"), GOOGLE_PATHS)
@each("dialect", ["google", "google2010", "rfc9309", "bing", "slurp", "yandex"])
def test_google_path_examples(dialect: str, rule: str, path: str, matches: bool) -> None:
    assert allowed(f"User-agent: *\nDisallow: {rule}\n", path, dialect) is not matches


def test_google_urls_are_compared_as_given() -> None:
    """Google's library leaves the asked URL alone; of a rule it escapes octets, decoding none."""
    body = "User-agent: *\nDisallow: /foo/bar/\u30c4\nDisallow: /%62%61%7a\n"
    assert not allowed(body, "/foo/bar/%E3%83%84", "google")
    assert allowed(body, "/foo/bar/\u30c4", "google")
    assert allowed(body, "/baz", "google")
    assert not allowed(body, "/%62%61%7A", "google")
    assert allowed(body, "/%62%61%7a", "google")


def test_google_star_with_text_behind_counts_as_star() -> None:
    body = "User-agent: * (everybody)\nDisallow: /\n"
    assert not allowed(body, "/", "google")
    assert allowed(body, "/", "rfc9309")


def test_google_most_specific_token_first() -> None:
    body = "User-agent: googlebot\nDisallow: /\n\nUser-agent: googlebot-news\nDisallow: /a\n"
    file = robots.parse(body.encode())
    for agents in (["googlebot", "googlebot-news"], ["googlebot-news", "googlebot"]):
        assert file.decide("/b", agent=agents, dialect=robots.GOOGLE).allowed
        assert not file.decide("/a", agent=agents, dialect=robots.GOOGLE).allowed


def test_google2010_noindex_competes_as_a_disallow_and_unindexes() -> None:
    body = b"User-agent: *\nNoindex: /old/\nAllow: /old/new/\nDisallow: /x\nNoindex: /x\n"
    file = robots.parse(body)
    verdict = file.decide("/old/a", agent="googlebot", dialect=robots.GOOGLE2010)
    assert not verdict.allowed
    assert verdict.noindex
    assert verdict.rule == "Noindex: /old/"
    verdict = file.decide("/old/new/a", agent="googlebot", dialect=robots.GOOGLE2010)
    assert verdict.allowed
    assert not verdict.noindex
    assert file.decide("/x", agent="googlebot", dialect=robots.GOOGLE2010).noindex
    for dialect in set(ALL) - {"google2010"}:
        verdict = file.decide("/old/a", agent="googlebot", dialect=dialect)
        assert verdict.allowed
        assert not verdict.noindex


# ---------------------------------------------------------------- Slurp's help and announcement

SLURP_EXAMPLES = [
    # rules, path, allowed
    ("Disallow: /private\nDisallow: /Private\nDisallow: /PRIVATE", "/private/x", False),
    ("Disallow: /private\nDisallow: /Private\nDisallow: /PRIVATE", "/PRIVATE/x", False),
    ("Disallow: /private\nDisallow: /Private\nDisallow: /PRIVATE", "/pRIVATE/x", True),
    ("Allow: /public*/\nDisallow: /*_print*.html\nDisallow: /*?sessionid", "/public_html/", True),
    ("Allow: /public*/\nDisallow: /*_print*.html\nDisallow: /*?sessionid", "/public_graphs/", True),
    (
        "Allow: /public*/\nDisallow: /*_print*.html\nDisallow: /*?sessionid",
        "/card_print.html",
        False,
    ),
    (
        "Allow: /public*/\nDisallow: /*_print*.html\nDisallow: /*?sessionid",
        "/store_print/product.html",
        False,
    ),
    (
        "Allow: /public*/\nDisallow: /*_print*.html\nDisallow: /*?sessionid",
        "/cart.php?sessionid=342bca31",
        False,
    ),
    ("Disallow: /private*", "/private", False),
    ("Disallow: /private*", "/private/x", False),
    ("Disallow: /private", "/private/x", False),
    ("Disallow: /*.gif$\nAllow: /*?$", "/a/b.gif", False),
    ("Disallow: /*.gif$\nAllow: /*?$", "/a/b.gif?x", True),
    ("Disallow: /*.gif", "/a/b.gif?x", False),
    ("Disallow: /\nAllow: /*?$", "/a?", True),
    ("Disallow: /\nAllow: /*?$", "/a?b", False),
    ("Disallow: /a$ignored", "/a", False),
    ("Disallow: /a$ignored", "/a$ignored", True),
    ("Disallow: /", "/", False),
    ("Disallow: /images\nAllow: /images/xyz.gif", "/images/xyz.gif", True),
    ("Disallow: /images\nAllow: /images/xyz.gif", "/images/abc.gif", False),
    ("Disallow: /cgi-bin/", "/cgi-bin/x", False),
    ("Disallow: /*?", "/a?b=c", False),
    ("Disallow: /*?", "/a", True),
    ("Allow: /*.html$\nDisallow: /backup/", "/backup/yes_or_not.html", True),
    ("Allow: /private*\nDisallow: /private", "/private", True),
]


@each(("rules", "path", "expected"), SLURP_EXAMPLES)
@each("agent_line", ["Slurp", "Yahoo! Slurp", "slurp/2.0", "SLURP"])
def test_slurp_examples(agent_line: str, rules: str, path: str, expected: bool) -> None:
    """The help page's and the announcement's examples, for either way of naming Slurp."""
    body = f"User-agent: *\nDisallow: /\n\nUser-agent: {agent_line}\n{rules}\n"
    assert allowed(body, "http://a.test" + path, "slurp", "slurp") is expected


def test_slurp_obeys_the_first_record_containing_its_name() -> None:
    body = "User-agent: Slurp\nDisallow: /a\n\nUser-agent: Yahoo! Slurp\nDisallow: /b\n"
    assert not allowed(body, "/a", "slurp", "slurp")
    assert allowed(body, "/b", "slurp", "slurp")


def test_slurp_a_trailing_star_is_dropped_before_counting() -> None:
    """`/private*` and `/private` are equivalent, so neither is longer: Allow wins."""
    body = "User-agent: *\nAllow: /private\nDisallow: /private*\n"
    assert allowed(body, "/private/x", "slurp")
    assert not allowed(body, "/private/x", "rfc9309")  # where the star is counted


# ---------------------------------------------------------------- the 2010 reference guide

GUIDE = [
    ("/*page", "/beauty-pageants.php", True),
    ("/*page", "/myfolder/example-page.php", True),
    ("/*page", "/frontpage/x", True),
    ("/*gallery/default.aspx", "/picture-gallery/default.aspx", True),
    ("/*gallery/default.aspx", "/gallery/default.aspx", True),
    ("/*asp$", "/pretty-wasp", True),
    ("/*asp$", "/login.asp", True),
    ("/*asp$", "/login.asp?forgotten-password=1", False),
]


@each(("rule", "path", "matches"), GUIDE)
@each("dialect", ["google2010", "slurp", "bing", "google"])
def test_google2010_wildcards_of_the_guide(
    dialect: str, rule: str, path: str, matches: bool
) -> None:
    assert allowed(f"User-agent: *\nDisallow: {rule}\n", path, dialect) is not matches


@each("dialect", ["google2010", "slurp", "bing", "google", "rfc9309"])
def test_google2010_the_landing_page_of_a_closed_directory(dialect: str) -> None:
    body = "User-agent: *\nDisallow: /webmail/\nAllow: /webmail/$\n"
    assert allowed(body, "/webmail/", dialect)
    assert not allowed(body, "/webmail/inbox", dialect)


# ---------------------------------------------------------------- the 1994 text, Wikipedia's traps


@each("dialect", ALL)
def test_res1994_empty_disallow_allows_everything(dialect: str) -> None:
    assert allowed("User-agent: *\nDisallow:\n", "/x", dialect)
    assert not allowed("User-agent: *\nDisallow: /\n", "/x", dialect)


@each("dialect", ALL)
def test_res1994_everybody_out_but_one(dialect: str) -> None:
    body = "User-agent: examplebot\nDisallow:\n\nUser-agent: *\nDisallow: /\n"
    assert allowed(body, "/x", dialect)
    assert not allowed(body, "/x", dialect, "otherbot")


def test_res1994_allow_is_unknown() -> None:
    body = "User-agent: *\nAllow: /a/b\nDisallow: /a\n"
    assert not allowed(body, "/a/b", "res1994")
    assert allowed(body, "/a/b", "res1996")


@each("dialect", sorted(set(ALL) - {"res1994"}))
def test_an_allow_first_is_understood_by_all_that_know_allow(dialect: str) -> None:
    """The old encyclopaedia's advice: to be compatible, put Allow first."""
    body = "User-agent: *\nAllow: /folder1/myfile.html\nDisallow: /folder1/\n"
    assert allowed(body, "/folder1/myfile.html", dialect)
    assert not allowed(body, "/folder1/other.html", dialect)


@each("dialect", ALL)
def test_a_rule_is_a_prefix_not_a_substring(dialect: str) -> None:
    body = "User-agent: *\nDisallow: /tmp\n"
    assert allowed(body, "/a/tmp", dialect)
    assert not allowed(body, "/tmp.html", dialect)


def test_teoma_matches_prefixes() -> None:
    assert not allowed("User-agent: *\nDisallow: /a*\n", "/ab", "teoma")
    assert allowed("User-agent: *\nDisallow: /*.gif\n", "/a.gif", "teoma")
    assert not allowed("User-agent: *\nDisallow: /*.gif\n", "/*.gif", "teoma")
    assert allowed("User-agent: *\nDisallow: /a$\n", "/a", "teoma")


@pytest.mark.parametrize("dialect", ["res1996", "res1994"])
def test_old_dialects_take_wildcards_literally(dialect: str) -> None:
    assert allowed("User-agent: *\nDisallow: /*.gif\n", "/a.gif", dialect)
    assert not allowed("User-agent: *\nDisallow: /*.gif\n", "/*.gif", dialect)
    assert allowed("User-agent: *\nDisallow: /a$\n", "/a", dialect)
    assert not allowed("User-agent: *\nDisallow: /a$\n", "/a$b", dialect)
