"""Differences against Protego under rfc9309: each is of a class that docs/robots.md explains."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import robots

protego = pytest.importorskip("protego")


def ours(body: str, url: str, agent: str) -> bool:
    return robots.parse(body.encode()).decide(url, agent=agent, dialect=robots.RFC9309).allowed


def theirs(body: str, url: str, agent: str) -> bool:
    return bool(protego.Protego.parse(body).can_fetch(url, agent))


# What both read alike: names of letters, escapes of letters, and no `$` but at the end.
SEGMENT = st.sampled_from(
    ["a", "b", "ab", "c.html", "d-e", "%61", "%7Ex", "~x", "%C3%A9", "é", "A"]
)
PATH = st.lists(SEGMENT, max_size=4).map(lambda parts: "/" + "/".join(parts))
RULE_PATH = st.builds(
    lambda path, star, end: (
        path[: star % (len(path) + 1)] + "*" + path[star % (len(path) + 1) :] + end
        if star
        else path + end
    ),
    PATH,
    st.integers(0, 12),
    st.sampled_from(["", "", "$", "*", "/"]),
).filter(
    lambda rule: (
        "%C3*" not in rule and not any(rule[at : at + 1] == "*" for at in _in_escapes(rule))
    )
)
AGENT = st.sampled_from(["*", "examplebot", "otherbot", "ExampleBot", "samplebot"])
LINE = st.one_of(
    AGENT.map("User-agent: {}".format),
    RULE_PATH.map("Disallow: {}".format),
    RULE_PATH.map("Allow: {}".format),
    st.sampled_from(
        ["", "# note", "Crawl-delay: 3", "Sitemap: https://a.test/s", "Disallow:", "Disalow: /b"]
    ),
)


def _in_escapes(rule: str) -> list[int]:
    return [at + n for at, char in enumerate(rule) if char == "%" for n in (1, 2)]


def explained(lines: list[str]) -> bool:
    """Whether a class of differences in docs/robots.md may apply to this file."""
    fields = [line.partition(":")[0] for line in lines]
    previous = ""
    for field in filter(None, fields):
        # Crawl-delay ends an agent list for Protego; in RFC 9309 only rules do.
        if field == "User-agent" and previous == "Crawl-delay":
            return True
        if field in ("User-agent", "Crawl-delay", "Disallow", "Allow", "Disalow"):
            previous = field
    return False


@settings(max_examples=200)
@given(lines=st.lists(LINE, max_size=14), path=PATH, query=st.sampled_from(["", "?", "?a=b", "?q"]))
def test_the_same_answers_as_protego(lines: list[str], path: str, query: str) -> None:
    body = "\n".join(lines)
    if explained(lines):
        return
    url = "https://a.test" + path + query
    assert ours(body, url, "examplebot") == theirs(body, url, "examplebot")


DIFFERENCES = [
    # class, file, URL, agent, ours, Protego's
    (
        "an absolute URL as a rule", "User-agent: *\nDisallow: http://b.test/x\n",
        "/http://b.test/x", "examplebot", True, False,
    ),
    (
        "index.html", "User-agent: *\nAllow: /a/index.html\nDisallow: /a/\n", "/a/", "examplebot",
        False, True,
    ),
    (
        "Crawl-delay between agents",
        "User-agent: examplebot\nCrawl-delay: 3\nUser-agent: otherbot\nDisallow: /\n",
        "/x",
        "examplebot",
        False,
        True,
    ),
    (
        "agent with a version", "User-agent: examplebot/2\nDisallow: /\n", "/x", "examplebot",
        False, True,
    ),
    (
        "an agent that begins our name", "User-agent: example\nDisallow: /\n", "/x", "examplebot",
        True, False,
    ),
    ("agent with a star", "User-agent: Foo*\nDisallow: /\n", "/x", "foo", False, False),
    ("our name longer than the agent's", "User-agent: a\nDisallow: /\n", "/x", "a b", False, False),
    (
        "a literal $ beside the anchor", "User-agent: *\nDisallow: /a$\n", "/a$b", "examplebot",
        True, False,
    ),
    ("& and %26", "User-agent: *\nDisallow: /?a%26b\n", "/?a&b", "examplebot", True, False),
    ("= and %3D", "User-agent: *\nDisallow: /?a%3Db\n", "/?a=b", "examplebot", True, False),
    (
        "%2F in the query", "User-agent: *\nDisallow: /?u=%2Fa\n", "/?u=/a", "examplebot", False,
        True,
    ),
    (
        "robots.txt with a query", "User-agent: *\nDisallow: /\n", "/robots.txt?x", "examplebot",
        False, True,
    ),
    (
        "* within a character", "User-agent: *\nDisallow: /%C3*%A9\n", "/%C3%A9", "examplebot",
        False, True,
    ),
    (
        "* within a character, and octets there", "User-agent: *\nDisallow: /%C3*%A9\n", "/%C3x%A9",
        "examplebot", False, False,
    ),
    ("a rule without a slash", "User-agent: *\nDisallow: a\n", "/a", "examplebot", True, True),
    (
        "other line ends", "User-agent: *\nDisallow: /a\x0cAllow: /a/b\n", "/a/b", "examplebot",
        True, True,
    ),
    (
        "colon in a name without one", "User-agent: *\nDisallow all: /\n", "/x", "examplebot", True,
        True,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "path", "agent", "us", "them"), [pytest.param(*c[1:], id=c[0]) for c in DIFFERENCES]
)
def test_known_differences(body: str, path: str, agent: str, us: bool, them: bool) -> None:
    url = "https://a.test" + path
    assert (ours(body, url, agent), theirs(body, url, agent)) == (us, them)
