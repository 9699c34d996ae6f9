"""Text that a site controls, and the one way in which it enters each medium.

A site writes its URLs, titles, header values, robots.txt, redirect targets and link texts, and
parts of the sentences of errors. None of it may command a terminal, a spreadsheet, a browser, a
reader of a log or a language model. `SiteText` is no `str`: mypy refuses it where a string is
expected, and formatting it raises TypeError, so it reaches an output through one of the functions.
Rows of the database are strings; the writer of each medium applies its function to all of them.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from typing import Final, final

from crawler.explain.formatting import plain, printable

# Characters that show nothing, though Unicode counts them as letters, marks or symbols: fillers,
# the blank of braille, joiners and variation selectors.
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Me", "Mn", "Zl", "Zp", "Zs"})
# What a spreadsheet computes (OWASP, CSV injection); a bar begins a command of DDE. Compatible
# forms, such as the full-width ones, are reduced to these; U+2212 is a minus sign of its own.
_FORMULA: Final = frozenset("=+-@|%\N{MINUS SIGN}")
_SAFE: Final = re.compile(r"[0-9A-Za-z/#.(\[{\"_]")
LINE_END: Final = "\r\n"


@final
class SiteText:
    """A string from a site. Compare it, measure it and cut it; write it with a function below."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        raise TypeError("text of a site needs the escape of its medium: for_model(), for_html(), …")

    def __format__(self, spec: str) -> str:
        return str(self)

    def __repr__(self) -> str:
        return f"<SiteText of {len(self._text)} characters>"

    def __html__(self) -> str:
        return for_html(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SiteText) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __len__(self) -> int:
        return len(self._text)

    def cut(self, start: int, end: int) -> SiteText:
        return SiteText(self._text[start:end])

    def for_model(self) -> str:
        """Lines for the quoted part of an answer to a language model, and nowhere else in it."""
        return printable(self._text)

    def for_terminal(self) -> str:
        return for_terminal(self._text)

    def for_log(self) -> str:
        return for_log(self._text)


def for_terminal(text: str) -> str:
    """Return a line without characters that a terminal interprets or that reorder or hide text."""
    return plain(text)


def for_log(text: str) -> str:
    """A part of a line in a log for people. The daemon's log is JSON: `json_printable`."""
    return plain(text)


def for_html(text: str) -> str:
    """HTML: text that shows what it is. Line feeds and tabs stay: they are white space."""
    from markupsafe import escape

    return str(escape(printable(text)))


def for_csv(value: object) -> object:
    """A value as a cell of a CSV file: one line, and no formula for a spreadsheet.

    A string gets the prefix `'` if it begins with a character that shows nothing, other than a
    space, or if the first one that shows something begins a formula.
    """
    if not isinstance(value, str):
        return value
    return f"'{plain(value)}" if _is_formula(value) else plain(value)


def _is_formula(text: str) -> bool:
    if not text or _SAFE.match(text):
        return False
    for char in text:
        if char == " ":
            continue
        if char in _BLANK or unicodedata.category(char) in _INVISIBLE:
            return True
        return unicodedata.normalize("NFKC", char)[:1] in _FORMULA
    return False


def csv_text(rows: Iterable[Iterable[object]], *, line_end: str = LINE_END) -> str:
    """Return lines of CSV (RFC 4180), for every CSV file and for standard output. Strings become
    cells by `for_csv`; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end)
    writer.writerows([for_csv(value) for value in row] for row in rows)
    return text.getvalue()
