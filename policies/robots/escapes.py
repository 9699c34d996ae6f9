"""How octets are compared: the spellings of a rule and of a path before they are matched.

Strings here have one character for each octet (Latin-1). The functions take the literal pieces of a
rule, or a whole path and query, and return the spellings in which it is compared: exactly one,
except for RFC 9309. Escapes are found by splitting at `%`, never by a regular expression.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import lru_cache

from policies.robots.dialect import Escapes

_HEX = string.hexdigits
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
_RESERVED = frozenset(":/?#[]@!$&'()*+,;=")


def _pairs() -> dict[str, int]:
    return {high + low: int(high + low, 16) for high in _HEX for low in _HEX}


def _escape(octet: str) -> str:
    return f"%{ord(octet):02X}"


_OCTETS = [chr(i) for i in range(256)]
# Replacements of escapes, by their two digits in either case.
_DECODED = {pair: "%2F" if code == 0x2F else chr(code) for pair, code in _pairs().items()}
_RAISED = {pair: "%" + pair.upper() for pair in _pairs()}
_UNRESERVED_DECODED = {
    pair: chr(code) if chr(code) in _UNRESERVED else "%" + pair.upper()
    for pair, code in _pairs().items()
}


def _escaping(kept: str | frozenset[str]) -> tuple[str, ...]:
    """A table for str.translate that escapes all octets except those `kept`. It has an entry for
    every octet, because a missing one costs ten times as much to look up."""
    return tuple(c if c in kept else _escape(c) for c in _OCTETS)


# Replacements of octets that are not part of an escape.
_ESCAPE_NON_ASCII = _escaping(frozenset(_OCTETS[:0x80]))
_LEGAL = "".join(_UNRESERVED | _RESERVED | {"%"}).encode()
_ESCAPE_ILLEGAL = _escaping(_UNRESERVED | _RESERVED | {"%"})
# RFC 9309, 2.2.2 escapes reserved octets as well. By its table, the exceptions are the separators
# of a path, the `?` that begins the query, and `=`; `&` is a separator like `=`. By 2.2.3, `%2A`
# and `%24` in a rule mean `*` and `$` in a URL.
_ESCAPE_IN_PATH = _escaping(_UNRESERVED | set("%/?=&"))
_ESCAPE_IN_QUERY = _escaping(_UNRESERVED | set("%=&"))

_STAR, _END = "\u0100", "\u0101"  # not octets: a wildcard and the end of a rule in joined rules


def _of_many(table: tuple[str, ...], kept: str) -> tuple[str, ...]:
    """The same table for joined rules, which also keeps their separators."""
    return tuple(c if c in kept else table[ord(c)] for c in _OCTETS)


_MANY_ILLEGAL = _of_many(_ESCAPE_ILLEGAL, "\n")
_MANY_IN_PATH = {star: _of_many(_ESCAPE_IN_PATH, "\n" + star) for star in ("", "*")}
_MANY_IN_QUERY = {star: _of_many(_ESCAPE_IN_QUERY, "\n" + star) for star in ("", "*")}
_SAME_IN_FULL = "".join(_UNRESERVED | set("%/=&*\n")).encode()


def _unescape(text: str, becomes: Mapping[str, str]) -> str:
    """Replace each escape by the entry of `becomes` for its digits. A stray `%` stays."""
    if "%" not in text:
        return text
    first, *rest = text.split("%")
    parts = [first]
    for part in rest:
        octet = becomes.get(part[:2])
        parts.append("%" + part if octet is None else octet + part[2:])
    return "".join(parts)


def octets(text: str) -> str:
    """The UTF-8 octets of a string, one character each. Never raises."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


@lru_cache(maxsize=8)
def path_forms(path: str, escapes: Escapes) -> tuple[str, ...]:
    """The spellings in which a path and query (in octets) is compared. Cached, because several
    dialects judge the same path one after the other."""
    if escapes is Escapes.DECODE:
        return (_unescape(path, _DECODED),)
    if escapes is Escapes.RFC:
        forms = _rfc_forms([path])
        return tuple(form[0] for form in forms)
    return (path,)


def rule_forms(pieces: list[str], escapes: Escapes) -> list[list[str]]:
    """The spellings in which the literal pieces of a rule are compared. The first is counted."""
    if escapes is Escapes.DECODE:
        return [[_unescape(piece, _DECODED) for piece in pieces]]
    if escapes is Escapes.RFC:
        return _rfc_forms(pieces)
    if escapes is Escapes.GOOGLE:
        return [[_unescape(piece, _RAISED).translate(_ESCAPE_NON_ASCII) for piece in pieces]]
    return [pieces]


def first_forms(rules: list[str], escapes: Escapes, *, wild: bool) -> tuple[list[str], str]:
    """The first spelling (see `rule_forms`) of many rules, and what stands for wildcards in them.

    wild: `*` is a wildcard. Rules do not contain line ends.
    """
    if escapes is Escapes.NONE or not rules:
        return rules, "*" if wild else _STAR
    many = "\n".join(rules)
    if escapes is Escapes.DECODE:
        if "%" not in many:
            return rules, "*" if wild else _STAR
        many = many.replace("\n", _END)
        if wild:
            many = many.replace("*", _STAR)
        return _unescape(many, _DECODED).split(_END), _STAR
    if escapes is Escapes.GOOGLE:
        many = _unescape(many, _RAISED)
        if not many.isascii():
            many = many.translate(_ESCAPE_NON_ASCII)
    else:
        many = _unescape(many, _UNRESERVED_DECODED)
        if not many.isascii() or many.encode().translate(None, _LEGAL + b"\n"):
            many = many.translate(_MANY_ILLEGAL)
    return many.split("\n"), "*" if wild else _STAR


def full_forms(given: list[str], *, wild: bool) -> list[str]:
    """The second RFC 9309 form of many rules in the first form (see `_rfc_forms`)."""
    many = "\n".join(given)
    if not many.encode().translate(None, _SAME_IN_FULL) and (wild or "*" not in many):
        return given
    star = "*" if wild else ""
    full = many.translate(_MANY_IN_PATH[star]).split("\n")
    asking = [i for i, text in enumerate(given) if "?" in text]
    queries = "\n".join([given[i].partition("?")[2] for i in asking])
    for i, query in zip(asking, queries.translate(_MANY_IN_QUERY[star]).split("\n"), strict=False):
        full[i] = full[i].partition("?")[0] + "?" + query
    return full


def _rfc_given(pieces: list[str]) -> list[str]:
    # No escape extends across a `*`, so all pieces are processed together.
    joined = _unescape("*".join(pieces), _UNRESERVED_DECODED)
    if not joined.isascii() or joined.encode().translate(None, _LEGAL):
        joined = joined.translate(_ESCAPE_ILLEGAL)
    return joined.split("*") if len(pieces) > 1 else [joined]


def _rfc_forms(pieces: list[str]) -> list[list[str]]:
    """The forms of RFC 9309, 2.2.2: without unnecessary escapes, and with everything escaped.

    There are two, because by that section `/a?b=https://c` equals `/a?b=https%3A%2F%2Fc`, and yet a
    rule such as `/*/print` also matches a `/` in a query. The second is omitted if it is equal.
    """
    given = _rfc_given(pieces)
    full: list[str] = []
    in_query = False
    for piece in given:
        if in_query:
            full.append(piece.translate(_ESCAPE_IN_QUERY))
            continue
        path, mark, query = piece.partition("?")
        in_query = bool(mark)
        full.append(path.translate(_ESCAPE_IN_PATH) + mark + query.translate(_ESCAPE_IN_QUERY))
    return [given] if full == given else [given, full]
