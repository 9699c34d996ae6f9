"""URLs: their canonical form, and the parts of it that rules apply to.

URLs are parsed and resolved as specified by WHATWG (ada-url), so that links mean the same as in a
browser. Canonicalisation adds a few steps, listed at `canonical`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final

import ada_url
from publicsuffixlist import PublicSuffixList


class SeedError(ValueError):
    """A seed that is not an absolute http(s) URL. The message is a sentence for people."""


# ---------------------------------------------------------------- the canonical form

# The fast path: hrefs that are in canonical form already (relative to an origin or a directory of
# the base, without a fragment), recognised without a parser. It accepts only what the parser does
# not change:
# - hosts in lower case, without "--" (punycode is validated) and with a last label that starts with
#   a letter (otherwise it may be a number in an IPv4 address), or four decimal numbers; no
# userinfo;
#   no port that could be a default one or too large;
# - characters outside WHATWG's percent-encode sets of path and query; no backslash (a slash);
# - escapes in upper case, except those of unreserved characters; no stray "%";
# - no segment that begins with "." ("." and ".." are resolved); no ":" in a relative path (a
#   scheme); no "//" at its start (a host); no empty query (it is dropped).
# Every repetition is possessive: a hostile href costs one pass.
_HOST = r"(?:[a-z0-9]++(?:-[a-z0-9]++)*+\.)*+"
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HOST_NAME = rf"(?:{_BYTE}(?:\.{_BYTE}){{3}}+(?=[:/])|{_HOST}[a-z][a-z0-9]*+(?:-[a-z0-9]++)*+)"
_PORT = r"(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}+)"
_AUTHORITY = rf"{_HOST_NAME}(?::(?!80/|443/){_PORT})?"
_ORIGIN = rf"https?://{_AUTHORITY}"
_ESCAPE = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF])"
_PATH = r"A-Za-z0-9\-_~!$&'()*+,;=@|\[\]"
_QUERY = r"A-Za-z0-9\-_~!$&()*+,;=@|\[\].:/?"
_SIMPLE: Final = re.compile(
    rf"""(?:
        (?P<absolute>{_ORIGIN}) / (?:[{_PATH}:]++|(?<!/)\.|{_ESCAPE}|/)*+
      | (?P<rooted> / (?!/)) (?:[{_PATH}:]++|(?<!/)\.|{_ESCAPE}|/)*+
      | (?:[{_PATH}]|{_ESCAPE}) (?:[{_PATH}]++|(?<!/)\.|{_ESCAPE}|/)*+
    )
    (?: \? (?:[{_QUERY}]++|{_ESCAPE})++ )?
    (?P<end>\Z|\#)""",
    re.VERBOSE,
)

# The same for all hrefs of a page in one match, one per line, because calls cost more than
# matching. The groups: a whole canonical URL; otherwise what the rest is relative to (nothing, "/",
# "//" or "../" steps), and the rest. All are empty if the parser is needed. Dots are handled later.
_TAIL = rf"(?:[{_PATH}:./]++|{_ESCAPE})*+"
_FIRST = rf"(?:[{_PATH}]|{_ESCAPE}|\./)(?:[{_PATH}./]++|{_ESCAPE})*+"
_LINES: Final = re.compile(
    rf"(?:(?:({_ORIGIN}/{_TAIL}(?:\?(?:[{_QUERY}]++|{_ESCAPE})++)?)"
    rf"|(/(?!/)|//(?={_AUTHORITY}/)|(?:\.\./)++|)"
    rf"((?:(?<=/){_TAIL}|{_FIRST})(?:\?(?:[{_QUERY}]++|{_ESCAPE})++)?))"
    r"(?:\#[^\n]*+)?(?=\n|\Z)|[^\n]*+)(?:\n|\Z)"
)
# Another scheme, recognised without the parser.
_FOREIGN: Final = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*+:", re.IGNORECASE)

_UNRESERVED: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
# The escapes of these, with digits in upper and in lower case (there is at most one letter).
_DECODED: Final = {
    escape: char for char in _UNRESERVED for escape in (f"%{ord(char):02X}", f"%{ord(char):02x}")
}
# Escapes that are not canonical yet: with a digit in lower case, or of an unreserved character. The
# others are excluded here, because a call for each would dominate the cost of a long URL.
_PERCENT: Final = re.compile(
    r"%(?=[0-9A-Fa-f]{2})([a-f].|.[a-f]|2[DE]|3[0-9]|[46][1-9A-F]|[57][0-9A]|5F|7E)"
)


def canonical(href: str, base: str | None = None) -> str | None:
    """The canonical URL of `href` on a page at `base`, in ASCII.

    None: it cannot be parsed, is not http(s), or is relative and `base` is not an http(s) URL.
    Never raises. Idempotent. In addition to WHATWG's own steps, the fragment, userinfo, default
    port and an empty query are dropped, escapes of unreserved characters are decoded, and the
    digits of the others are written in upper case."""
    simple = _SIMPLE.match(href)
    if simple is None:
        return _canonical_slow(href, base)
    if simple["end"]:
        href = href[: simple.start("end")]
    if simple["absolute"] is not None:
        return href
    where = None if base is None else _base_parts(base)
    if where is None:
        return None
    return (where[1] if simple["rooted"] is None else where[0]) + href


# Hrefs in one match, during which other threads cannot run.
_AT_ONCE: Final = 2_000


def canonical_all(hrefs: Sequence[str], base: str) -> list[str | None]:
    """Return `canonical` of many hrefs of one page, faster than one by one.

    base: a canonical URL.
    """
    found: list[str | None] = []
    for start in range(0, len(hrefs), _AT_ONCE):
        found += _canonical_some(hrefs[start : start + _AT_ONCE], base)
    return found


def _canonical_some(hrefs: Sequence[str], base: str) -> list[str | None]:
    joined = "\n".join(hrefs)
    if joined.count("\n") != len(hrefs) - 1:
        return [canonical(href, base) for href in hrefs]
    origin, directory = parts_of(base)
    prefixes = {"": directory, "/": origin + "/", "//": base[: base.index("/")] + "//"}
    found: list[str | None] = []
    # There is an additional, empty match after the last line.
    for href, (itself, prefix, rest) in zip(hrefs, _LINES.findall(joined), strict=False):
        url: str | None = itself
        if rest or prefix:
            before = prefixes.get(prefix)
            if before is None:  # shared by hrefs with the same number of steps
                before = prefixes[prefix] = _above(directory, len(prefix) // 3)
            url = before + rest
        if not url:
            url = _odd(href, base)
        elif "/." in url:
            url = _without_dots(url)
        found.append(url)
    return found


def _without_dots(url: str) -> str:
    """Resolve the segments "." and ".." of a URL that is canonical otherwise."""
    path_at = url.index("/", 8) + 1
    path, mark, query = url[path_at:].partition("?")
    kept: list[str] = []
    segment = ""
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segment in (".", ".."):
        kept.append("")
    return url[:path_at] + "/".join(kept) + mark + query


def _odd(href: str, base: str) -> str | None:
    if href[:1] == "#":
        return base
    return None if _FOREIGN.match(href) else _canonical_slow(href, base)


def _above(directory: str, steps: int) -> str:
    """The directory `steps` levels up, at most the root."""
    root = directory.index("/", 8)
    for _ in range(steps):
        at = directory.rindex("/", 0, -1)
        if at < root:
            break
        directory = directory[: at + 1]
    return directory


def _canonical_slow(href: str, base: str | None) -> str | None:
    """`canonical` without the fast path, which must agree with it."""
    if "#" in href:  # only the presence of a fragment matters
        href = href[: href.index("#") + 1]
    try:
        where = None if base is None else _base_parts(base)
        url = ada_url.normalize_url(href) if where is None else ada_url.join_url(where[2], href)
    except ValueError:  # also UnicodeEncodeError, for lone surrogates
        return None
    return _finish(url)


@lru_cache(maxsize=256)
def _base_parts(base: str) -> tuple[str, str, str] | None:
    """The origin, the directory and the whole of a base, canonical. None: it is not an http(s)
    URL."""
    url = base if (simple := _SIMPLE.match(base)) and simple["absolute"] else None
    url = _canonical_slow(base, None) if url is None else url.partition("#")[0]
    return None if url is None else (*parts_of(url), url)


def parts_of(url: str) -> tuple[str, str]:
    """The origin and the directory (up to the last slash of the path) of a canonical URL."""
    path = url.partition("?")[0]
    return url[: url.index("/", 8)], path[: path.rindex("/") + 1]


def _finish(url: str) -> str | None:
    """Our own steps, on a URL in WHATWG's serialisation."""
    if not url.startswith(("http://", "https://")):
        return None
    url = url.partition("#")[0]
    host_at = url.index("//") + 2
    path_at = url.index("/", host_at)
    user_end = url.rfind("@", host_at, path_at)  # an "@" inside userinfo is serialised as %40
    if user_end >= 0:
        url = url[:host_at] + url[user_end + 1 :]
    if url.endswith("?") and url.index("?") == len(url) - 1:
        url = url[:-1]
    if "%" in url:
        url = _PERCENT.sub(_settle_escape, url)
    return url


def _settle_escape(found: re.Match[str]) -> str:
    escape = found[0]
    char = _DECODED.get(escape)
    if char is None:
        return escape.upper()
    # After a stray "%", a decoded digit would complete another escape ("%2%35" is not "%25").
    text, at = found.string, found.start()
    if text[at - 1] == "%" or (text[at - 2] == "%" and text[at - 1] in "0123456789abcdefABCDEF"):
        return escape.upper()
    return char


# ---------------------------------------------------------------- seeds

_ABSOLUTE: Final = re.compile(r"https?://[^/?#\\]", re.IGNORECASE)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?!\d)")
_SEED_SHOWN_CHARS: Final = 200  # in messages


def parse_seed(text: str) -> str:
    """The canonical URL of a seed, which must be an absolute http(s) URL.

    Raises SeedError, whose message suggests the URL that was probably meant.
    """
    text = text.strip()
    shown = unparsed_shown(text)
    if not text:
        raise SeedError("a seed is empty; write an absolute URL, such as https://example.com/")
    if _ABSOLUTE.match(text):
        url = canonical(text)
        if url is None:
            raise SeedError(f"the seed {shown} cannot be parsed as a URL")
        return url
    scheme = _SCHEME.match(text)
    if scheme and scheme[1].lower() not in ("http", "https"):
        raise SeedError(f"the seed {shown} is not an http or https URL")
    rest = text[scheme.end() :] if scheme else text
    # A string that begins with one slash is a path without a host.
    address = rest.lstrip("/\\") if scheme or rest.startswith("//") else rest
    guess = None
    if address[:1].isalnum() or address[:1] == "[":
        guess = f"{scheme[1].lower() if scheme else 'https'}://{address}"
    if guess is None or canonical(guess) is None or len(guess) > _SEED_SHOWN_CHARS:
        raise SeedError(f"the seed {shown} is not an absolute http or https URL")
    guess = without_userinfo(guess)
    raise SeedError(f"the seed {shown} is not an absolute URL; did you mean {guess} ?")


# ---------------------------------------------------------------- without name and password

_HIDDEN: Final = "…"
# The userinfo of a URL, up to the last "@" of its authority, may contain spaces; that of URLs
# inside other text may not.
_USERINFO: Final = re.compile(
    r"(\A\s*https?:[/\\]*)[^/\\?#]*@|(?<=[/\\]{2})[^/\\?#\s]*@", re.IGNORECASE
)
# The part before the name and password in a string that is not a URL. Its "@" may be escaped.
_BEFORE_USERINFO: Final = re.compile(r"\s*+(?:[a-z][a-z0-9+.-]*+:)?+[/\\]++", re.IGNORECASE)
_SLASH: Final = re.compile(r"[/\\]")
_ATS: Final = ("@", "%40", "\uff20")


def without_userinfo(text: str) -> str:
    """A URL, or other text, with the name and password of URLs replaced."""
    return _USERINFO.sub(rf"\g<1>{_HIDDEN}@", text) if "@" in text else text


def unparsed_shown(text: str) -> str:
    """A string that is not a URL, quoted for a message: cut if it is very long, and without what
    may be a name and a password."""
    before = _BEFORE_USERINFO.match(text)
    begin = before.end() if before else 0
    slash = None if before or "//" in text or "\\\\" in text else _SLASH.search(text)
    end = slash.start() if slash else len(text)
    last = max(
        (at + len(each) for each in _ATS if (at := text.rfind(each, begin, end)) >= 0), default=0
    )
    if last:
        text = f"{text[:begin]}{_HIDDEN}@{text[last:]}"
    return repr(text if len(text) <= _SEED_SHOWN_CHARS else text[:_SEED_SHOWN_CHARS] + "…")


# ---------------------------------------------------------------- pieces of a canonical URL


def origin_of(url: str) -> str:
    """The scheme, host and port of a canonical URL: `http://a.test:8080`."""
    return url[: url.index("/", 8)]


def host_of(url: str) -> str:
    """The host of a canonical URL, without a port; an IPv6 address without its brackets."""
    at = url.index("//") + 2
    authority = url[at : url.index("/", at)]
    if authority[0] == "[":
        return authority[1 : authority.index("]")]
    return authority.partition(":")[0]


def same_host(a: str, b: str) -> bool:
    """Return whether two host names are of the same machine: a trailing dot does not count."""
    return a == b or without_root_dot(a) == without_root_dot(b)


def without_root_dot(host: str) -> str:
    """A host name without the dot of the DNS root: `a.test` for `a.test.`."""
    return host.rstrip(".") or host


def path_of(url: str) -> str:
    """The path and query of a canonical URL, for robots.txt; begins with "/"."""
    return url[url.index("/", 8) :]


def robots_url(origin: str) -> str:
    """The URL of an origin's robots.txt."""
    return origin + "/robots.txt"


@cache
def _suffixes() -> PublicSuffixList:
    """The bundled list, read at the first use: crawls of one host do not need it."""
    return PublicSuffixList()


@lru_cache(maxsize=65_536)
def registrable_domain(host: str) -> str:
    """The registered part of a host name: `example.co.uk` for `www.example.co.uk`.

    By the public suffix list with private suffixes: `a.github.io` and `b.github.io` differ.
    Addresses, single labels and bare suffixes are returned unchanged."""
    name = host.rstrip(".")
    if name[-1:].isdecimal() or ":" in name:  # the check takes longer than all the rest
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return name
    return _suffixes().privatesuffix(name) or name or host


def slot_of(host: str, *, by_domain: bool) -> str:
    """The politeness slot of a host: itself, or its registrable domain.

    A trailing dot is dropped, so that the same machine does not have two slots.
    """
    return registrable_domain(host) if by_domain else (host.rstrip(".") or host)
