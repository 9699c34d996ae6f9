"""References in style sheets (CSS Syntax Level 3) and in `srcset` attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from crawler.documents.decoders import UTF8
from crawler.sinks.references import ReferenceRole, References

_WS: Final = r"[ \t\n\r\f]"


def _word(word: str) -> str:
    """Return a pattern for a word with optional escapes: "\\75 rl" and "\\url" are "url"."""
    letters = []
    for letter in word:
        codes = "|".join({f"{ord(letter):x}", f"{ord(letter.upper()):x}"})
        itself = letter if letter in "abcdef" else rf"\\?{letter}"
        letters.append(rf"(?:{itself}|\\0{{0,4}}(?:{codes})(?:\r\n|{_WS})?+)")
    return "".join(letters)


# Possessive, and each form may also end with the style sheet, so unclosed forms cost neither time
# nor memory. A string that ends with its line, or a URL with a quote in it, is an error and skipped
# as a whole, because quotes inside do not start another string.
_NO_WORD_BEFORE: Final = r"(?<![^\x00-\x2c./:-@\[\]^`{-\x7f])"
_ESCAPE: Final = r"\\(?:\r\n|.)"
_UNQUOTED: Final = rf"\\(?:[0-9a-f]{{1,6}}+(?:\r\n|{_WS})?+|[^\n\r\f])"
_DOUBLE: Final = rf'(?:[^"\\\n\r\f]++|{_ESCAPE})*+'
_SINGLE: Final = rf"(?:[^'\\\n\r\f]++|{_ESCAPE})*+"
_COMMENT: Final = r"/\*.*?(?:\*/|\Z)"
_GAP: Final = rf"(?:{_WS}++|{_COMMENT})*+"
_TOKEN: Final = re.compile(
    rf"{_COMMENT}"
    rf"|{_NO_WORD_BEFORE}(?P<function>{_word('url')}\({_WS}*+)(?:"
    rf"(?:\"(?P<url_d>{_DOUBLE})(?:\"|\Z)|'(?P<url_s>{_SINGLE})(?:'|\Z))(?P<close>{_WS}*+(?:\)|\Z))?"
    rf"|(?P<url>(?:[^\"'()\\\x00-\x20\x7f]++|{_UNQUOTED})*+){_WS}*+(?:\)|\Z)"
    rf"|(?:[^)\\]++|{_ESCAPE})*+\)?)"
    rf"|(?P<import>@{_word('import')}{_GAP})"
    rf"|(?P<namespace>@{_word('namespace')}{_GAP}(?:[\w-]++{_GAP})?+)"
    rf"|{_NO_WORD_BEFORE}(?P<set>(?:-{_word('webkit')}-)?{_word('image-set')}\()"
    rf"|\"(?P<text_d>{_DOUBLE})(?:\"|\Z)|'(?P<text_s>{_SINGLE})(?:'|\Z)"
    rf"|\"{_DOUBLE}|'{_SINGLE}"
    r"|(?P<opens>\()|(?P<closes>\))",
    re.IGNORECASE | re.DOTALL,
)
_CSS_ESCAPE: Final = re.compile(
    rf"\\(?:([0-9a-fA-F]{{1,6}})(?:\r\n|{_WS})?|(\r\n|[\n\r\f])|(.))", re.DOTALL
)
_TO_ESCAPE: Final = re.compile(r'["\\\n\r\f<]')


def in_style(
    text: str, base: str, references: References, *, encoding: str | None = None
) -> str | None:
    """Change the references of a style sheet. Return None if none was changed.

    encoding: of their queries, if different from that of the file.
    """
    out: list[str] = []
    at = 0
    expected: tuple[int, str] = (-1, "")  # where a URL would belong to an at-rule, and to which
    depth = 0
    sets: list[int] = []  # the depths of open image-sets
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind == "opens" or kind == "closes":
            if sets:
                depth += 1 if kind == "opens" else -1
                if depth < sets[-1]:
                    sets.pop()
            continue
        if kind is None:
            continue  # a comment, or an error
        if kind in ("import", "namespace"):
            expected = (found.end(), kind)
            continue
        if kind == "set":
            depth = depth + 1 if sets else 1
            sets.append(depth)
            continue
        rule = expected[1] if expected[0] == found.start() else ""
        end = ""
        if found["function"] is not None:
            given = _first(found, "url_d", "url_s", "url")
            if found["url"] is not None or found["close"] is not None:
                end = ")"
            elif given is not None:
                depth += 1
        else:
            given = _first(found, "text_d", "text_s")
            if rule == "import":
                end = ")"
            elif not (sets and sets[-1] == depth):
                continue  # a string, not a URL
        if given is None or rule == "namespace":
            continue
        role = ReferenceRole.STYLE if rule == "import" else ReferenceRole.PART
        # Chromium always encodes the queries of imports in UTF-8.
        used = UTF8 if rule == "import" else encoding
        to = references.changed(_CSS_ESCAPE.sub(_unescaped, given), role, base, encoding=used)
        if to is None:
            continue
        before = "url(" if found["function"] is not None or rule == "import" else ""
        out += (text[at : found.start()], f'{before}"{_quoted(to)}"{end}')
        at = found.end()
    if not out:
        return None
    out.append(text[at:])
    return "".join(out)


def _first(found: re.Match[str], *groups: str) -> str | None:
    return next((found[group] for group in groups if found[group] is not None), None)


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[3] or ""  # a line continuation is empty
    code = int(found[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"


def _quoted(text: str) -> str:
    return _TO_ESCAPE.sub(lambda found: f"\\{ord(found[0]):x} ", text)


def in_srcset(text: str, base: str, references: References) -> str | None:
    """Change the candidates of a `srcset`. Return None if none was changed.

    Source: WHATWG HTML, "parsing a srcset attribute".
    """
    candidates: list[str] = []
    changed = False
    for href, descriptor in _candidates(text):
        to = references.changed(href, ReferenceRole.PART, base)
        changed = changed or to is not None
        candidates.append(f"{href if to is None else to} {descriptor}".rstrip())
    return ", ".join(candidates) if changed else None


_CANDIDATE: Final = re.compile(r"[ \t\n\f\r,]*+([^ \t\n\f\r]++)")
_DESCRIPTOR: Final = re.compile(r"(?:[^(,]++|\([^)]*+(?:\)|\Z))*+(?:,|\Z)")


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (found := _CANDIDATE.match(text, at)) is not None:
        href, at = found[1], found.end()
        if href.endswith(","):
            yield href.rstrip(","), ""
            continue
        if descriptor := _DESCRIPTOR.match(text, at):
            at = descriptor.end()
            yield href, " ".join(descriptor[0].removesuffix(",").split())
