"""How octets are compared: the forms a rule and a path take before they meet.

Text here holds one character for each octet (Latin-1). A form function takes the literal pieces
of a rule (what stands between its wildcards), or a whole path and query, and returns the spellings
in which it is compared; all but RFC 9309's way give exactly one. Escapes are found by splitting
at `%`, never by a regular expression.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import lru_cache

from policies.robots.row import Escapes

_HEX = string.hexdigits
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
_RESERVED = frozenset(":/?#[]@!$&'()*+,;=")


def _pairs() -> dict[str, int]:
    return {high + low: int(high + low, 16) for high in _HEX for low in _HEX}


def _escape(octet: str) -> str:
    return f"%{ord(octet):02X}"


_OCTETS = [chr(i) for i in range(256)]
# What each escape becomes, by its two digits in any case.
_DECODED = {pair: "%2F" if code == 0x2F else chr(code) for pair, code in _pairs().items()}
_RAISED = {pair: "%" + pair.upper() for pair in _pairs()}
_UNRESERVED_DECODED = {
    pair: chr(code) if chr(code) in _UNRESERVED else "%" + pair.upper()
    for pair, code in _pairs().items()
}
# What each octet that is not part of an escape becomes.
_ESCAPE_NON_ASCII = {ord(c): _escape(c) for c in _OCTETS if ord(c) > 0x7F}
_LEGAL = "".join(_UNRESERVED | _RESERVED | {"%"}).encode()
_ESCAPE_ILLEGAL = {ord(c): _escape(c) for c in _OCTETS if c not in _UNRESERVED | _RESERVED | {"%"}}
# RFC 9309 section 2.2.2 escapes the reserved octets too, and its table shows which it leaves: the
# separators of a path, the `?` that begins the query, and `=`; `&` separates like `=` does. Section
# 2.2.3 has `%2A` and `%24` in a rule mean the `*` and `$` of a URL.
_ESCAPE_IN_PATH = _ESCAPE_ILLEGAL | {ord(c): _escape(c) for c in _RESERVED - set("/?=&")}
_ESCAPE_IN_QUERY = _ESCAPE_ILLEGAL | {ord(c): _escape(c) for c in _RESERVED - set("=&")}


def _unescape(text: str, becomes: Mapping[str, str]) -> str:
    """`text` with each escape replaced by what it `becomes`; a stray `%` stays."""
    if "%" not in text:
        return text
    first, *rest = text.split("%")
    parts = [first]
    for part in rest:
        octet = becomes.get(part[:2])
        parts.append("%" + part if octet is None else octet + part[2:])
    return "".join(parts)


def octets(text: str) -> str:
    """`text` as its UTF-8 octets, one character each. Never raises."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")


@lru_cache(maxsize=8)
def path_forms(path: str, escapes: Escapes) -> tuple[str, ...]:
    """The spellings under which a path and query (in octets) is compared.

    Several dialects ask about the same path one after the other.
    """
    if escapes is Escapes.DECODE:
        return (_unescape(path, _DECODED),)
    if escapes is Escapes.RFC:
        forms = _rfc_forms([path])
        return tuple(form[0] for form in forms)
    return (path,)


def rule_forms(pieces: list[str], escapes: Escapes) -> list[list[str]]:
    """The spellings under which the literal pieces of a rule are compared; the first is counted."""
    if escapes is Escapes.DECODE:
        return [[_unescape(piece, _DECODED) for piece in pieces]]
    if escapes is Escapes.RFC:
        return _rfc_forms(pieces)
    if escapes is Escapes.GOOGLE:
        return [[_unescape(piece, _RAISED).translate(_ESCAPE_NON_ASCII) for piece in pieces]]
    return [pieces]


def first_form(pieces: list[str], escapes: Escapes) -> list[str]:
    """The first of `rule_forms`."""
    return _rfc_given(pieces) if escapes is Escapes.RFC else rule_forms(pieces, escapes)[0]


def _rfc_given(pieces: list[str]) -> list[str]:
    # Neither escapes nor what is escaped reach across a `*`, so all pieces are done together.
    joined = _unescape("*".join(pieces), _UNRESERVED_DECODED)
    if not joined.isascii() or joined.encode().translate(None, _LEGAL):
        joined = joined.translate(_ESCAPE_ILLEGAL)
    return joined.split("*") if len(pieces) > 1 else [joined]


def _rfc_forms(pieces: list[str]) -> list[list[str]]:
    """RFC 9309 section 2.2.2: as given but for what need not be escaped, and with all escaped.

    Two forms, since the section wants `/a?b=https://c` and `/a?b=https%3A%2F%2Fc` to be equal, and
    yet a rule such as `/*/print` has always met a `/` in a query, too. The second is left out where
    it is the same.
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
