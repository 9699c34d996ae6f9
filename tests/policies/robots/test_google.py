"""The dialect `google` against a model of Google's published library, clause by clause.

The model follows what that library does (github.com/google/robotstxt, robots.cc), one character and
one line after the other; nothing of it is shared with what it is compared to.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from policies import robots
from tests.tables import each

BLANKS = b" \t\n\x0b\x0c\r"
LINE_MAX = 2_083 * 8
DISALLOWS = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")


def matches(path: bytes, pattern: bytes) -> bool:
    ends = [0]
    for n, char in enumerate(pattern):
        if char == ord("$") and n + 1 == len(pattern):
            return ends[-1] == len(path)
        if char == ord("*"):
            ends = list(range(ends[0], len(path) + 1))
        else:
            ends = [at + 1 for at in ends if at < len(path) and path[at] == char]
            if not ends:
                return False
    return True


def escaped(value: bytes) -> bytes:
    found = b""
    at = 0
    digits = b"0123456789abcdefABCDEF"
    while at < len(value):
        pair = value[at + 1 : at + 3]
        if value[at] == ord("%") and len(pair) == 2 and all(digit in digits for digit in pair):
            found += b"%" + pair.upper()
            at += 3
            continue
        found += b"%%%02X" % value[at] if value[at] > 0x7F else value[at : at + 1]
        at += 1
    return found


def parts(line: bytes) -> tuple[bytes, bytes] | None:
    line = line[: LINE_MAX - 1].split(b"\0")[0].split(b"#")[0].strip(BLANKS)
    at = line.find(b":")
    if at < 0:
        blanks = [n for n, char in enumerate(line) if char in b" \t"]
        if not blanks:
            return None
        at = blanks[0]
        if any(char in b" \t" for char in line[at:].lstrip(b" \t")):
            return None
    name = line[:at].strip(BLANKS)
    return (name.lower(), line[at + 1 :].strip(BLANKS)) if name else None


def model(body: bytes, agent: str, path: bytes) -> bool:
    for mark in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"):
        if body.startswith(mark):
            body = body[len(mark) :]
            break
    allow = {"ours": -1, "all": -1}
    disallow = {"ours": -1, "all": -1}
    ever = ours = everybody = separated = False
    for line in body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        found = parts(line)
        if found is None:
            continue
        name, value = found
        if name.startswith((b"user-agent", b"useragent", b"user agent")):
            if separated:
                ours = everybody = separated = False
            if value[:1] == b"*" and (len(value) == 1 or value[1:2] in [b" ", b"\t", b"\v", b"\f"]):
                everybody = True
            else:
                end = 0
                while end < len(value) and (value[end : end + 1].isalpha() or value[end] in b"-_"):
                    end += 1
                if value[:end].lower() == agent.lower().encode():
                    ever = ours = True
        elif name.startswith((b"allow", *DISALLOWS)) and (ours or everybody):
            separated = True
            allows = name.startswith(b"allow")
            pattern = escaped(value)
            who = "ours" if ours else "all"
            if matches(path, pattern):
                best = allow if allows else disallow
                best[who] = max(best[who], len(pattern))
                continue
            at = pattern.rfind(b"/")
            index = at >= 0 and pattern[at:].startswith(b"/index.htm")
            if allows and index and matches(path, pattern[: at + 1] + b"$"):
                allow[who] = max(allow[who], at + 2)
    if allow["ours"] > 0 or disallow["ours"] > 0:
        return disallow["ours"] <= allow["ours"]
    if ever:
        return True
    if allow["all"] > 0 or disallow["all"] > 0:
        return disallow["all"] <= allow["all"]
    return True


def google(body: bytes, agent: str, path: str) -> bool:
    return robots.parse(body).decide(path, agent=agent, dialect="google").allowed


FIELDS = st.sampled_from(
    [
        b"User-agent", b"user-agent", b"USERAGENT", b"user agents", b"User-agent-x", b"Allow",
        b"allowed", b"Disallow", b"disallow all", b"dissalow", b"Dis-allow", b"user_agent",
        b"Sitemap", b"site-map", b"Crawl-delay", b"Noindex", b"ACAP-crawler",
        b"ACAP-disallow-crawl", b"ACAP-allow-crawl", b"x", b"", b"\xc2\xa0Disallow", b"\0Disallow",
        b" Disallow\t",
    ]
)  # fmt: skip
SEPARATORS = st.sampled_from([b":", b": ", b" : ", b" ", b"\t", b"  ", b":\xc2\xa0", b" \x0b", b""])
AGENTS = st.sampled_from(
    [
        b"*", b"* all", b"*x", b"bot", b"BOT", b"bot3", b"bot/2", b"bot x", b"botx", b"3bot",
        b"\xc3\xa9bot",
    ]
)  # fmt: skip
PIECES = st.sampled_from(
    [
        b"/",
        b"a",
        b"b",
        b"*",
        b"$",
        b"/index.html",
        b"/index.htm",
        b"index.html",
        b"%2f",
        b"%2F",
        b"%7e",
        b"~",
        b"\xc3\xa9",
        b"%C3%A9",
        b"%",
        b"?",
        b"#",
        b" ",
        b"\0",
        b":",
        b"/a",
    ]
)
VALUES = st.lists(PIECES, max_size=6).map(b"".join).map(b"/".__add__) | AGENTS | st.just(b"")
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])
LINES = st.tuples(FIELDS, SEPARATORS, VALUES, ENDS).map(b"".join) | st.tuples(
    st.sampled_from([b"User-agent: ", b"Disallow: ", b"Allow: ", b"Allow: "]), VALUES, ENDS
).map(b"".join)
PATHS = (
    st.lists(
        st.sampled_from(
            ["/", "a", "b", "/index.html", "%2F", "%2f", "%7E", "~", "%C3%A9", "?", "$", "*", "/a"]
        ),
        max_size=6,
    )
    .map("".join)
    .map("/".__add__)
)


@settings(max_examples=300, deadline=None)
@given(
    lines=st.lists(LINES, max_size=12),
    start=st.sampled_from(
        [b"User-agent: *\n", b"User-agent: bot\n", b"", b"\xef\xbb\xbf", b"\xef\xbb"]
    ),
    agent=st.sampled_from(["bot", "Bot", "bot3", "otherbot"]),
    path=PATHS,
)
def test_every_file_is_read_as_the_library_reads_it(
    lines: list[bytes], start: bytes, agent: str, path: str
) -> None:
    body = start + b"".join(lines)
    assert google(body, agent, path) == model(body, agent, path.encode())


@each("size", [LINE_MAX + n for n in (-30, -9, -8, -7, -3, -2, -1, 0, 1, 4)])
def test_over_long_lines_count_up_to_the_libraries_limit(size: int) -> None:
    """A line is cut at 16,663 bytes, and what is left of it counts."""
    start = b"User-agent: *\nDisallow: /\n"
    pattern = "/" + "a" * (size - len("Allow: /"))
    body = start + b"Allow: " + pattern.encode() + b"bc\n"
    for path in (pattern, pattern + "b", pattern + "bc", pattern[:-1], pattern + "x"):
        assert google(body, "bot", path) == model(body, "bot", path.encode())


@each(
    ("path", "allowed"),
    [
        ("/", False), ("/a/", True), ("/a/index.html", True), ("/a/index.htm", False),
        ("/a/index.html.bak", True), ("/a/b", False), ("/b/index.htm", True), ("/b/", True),
        ("/b/index.html", True), ("/c/x/", True), ("/c/x/y/", True), ("/c/", False), ("/d/", False),
    ],
)  # fmt: skip
def test_an_index_page_allows_its_directory(path: str, allowed: bool) -> None:
    body = (
        b"User-agent: *\nAllow: /a/index.html\nAllow: /b/index.htm\nAllow: /c/*/index.html$\n"
        b"Disallow: /\nDisallow: /d/index.html\n"
    )
    assert google(body, "bot", path) is allowed
    assert model(body, "bot", path.encode()) is allowed
    verdict = robots.parse(body).decide("/a/", agent="bot", dialect="google")
    assert (verdict.line, verdict.length) == (2, 4)
    assert "at 4 octets it is longer" in str(verdict)


def test_acap_lines_are_no_rules_for_google() -> None:
    for body in (
        b"ACAP-crawler: *\nACAP-disallow-crawl: /\n",
        b"User-agent: *\nACAP-disallow-crawl: /\n",
        b"User-agent: *\nACAP-crawler: *\nDisallow: /b\nACAP-disallow-crawl: /a\n",
    ):
        assert google(body, "bot", "/a")
        assert not robots.parse(body).decide("/a", agent="bot", dialect="slurp").allowed


@each("name", ["rfc9309", "bing", "teoma", "yandex", "google2010"])
def test_names_with_digits_are_compared_whole(name: str) -> None:
    def obeys(agent: str, value: str) -> bool:
        file = robots.parse(f"User-agent: {value}\nDisallow: /\n".encode())
        return not file.decide("/x", agent=agent, dialect=name).allowed

    for ours, theirs in (
        ("crawler3", "crawler1"), ("crawler3", "crawler"), ("crawler", "crawler3"),
        ("crawler33", "crawler3"), ("3crawler", "crawler"), ("crawler3x", "crawler3"),
        ("3crawler", "4crawler"), ("crawler3/1.0", "crawler1"), ("crawler3", "crawler/3"),
    ):  # fmt: skip
        assert not obeys(ours, theirs)
    for ours, theirs in (
        ("crawler3", "Crawler3"), ("crawler3/2.0", "crawler3"), ("crawler3", "crawler3/1.0"),
        ("360spider", "360Spider"), ("crawler", "crawler/3"), ("crawler", "crawler 3"),
        ("crawler/4", "crawler/3"), ("crawler (+x)", "crawler"),
    ):  # fmt: skip
        assert obeys(ours, theirs)


def test_names_with_digits_are_nobodys_for_google() -> None:
    body = b"User-agent: crawler1\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"
    for agent in ("crawler1", "crawler3"):
        assert google(body, agent, "/a")
        assert not google(body, agent, "/b")
    assert not google(body, "crawler", "/a")
