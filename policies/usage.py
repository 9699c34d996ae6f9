"""Content usage: signals of a site about the use of its content, which are recorded, not enforced.

`Content-Usage` (IETF, draft-ietf-aipref-attach), `Content-Signal` (contentsignals.org) and the TDM
Reservation Protocol (W3C Community Group, TDMRep: `tdm-reservation`, `tdm-policy`), in headers and
meta elements of a page, the first two also in robots.txt.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

NAMES: Final = ("content-usage", "content-signal", "tdm-reservation", "tdm-policy")
SIGNALS_MAX: Final = 20  # of one page; "…" stands for more
_VALUE_CHARS_MAX: Final = 1_000  # a longer value ends with "…"


class Where(enum.StrEnum):
    HEADER = "header"
    META = "meta"
    ROBOTS = "robots.txt"


class Signal(Struct, frozen=True, kw_only=True):
    """One signal as given, with white space collapsed. name: one of NAMES."""

    where: Where
    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}: {self.value} ({self.where})"


class Usage(Struct, frozen=True, kw_only=True):
    """All signals of one page, those in its header first."""

    signals: tuple[Signal, ...] = ()
    more: bool = False  # there were more than SIGNALS_MAX

    def __bool__(self) -> bool:
        return bool(self.signals)

    def __str__(self) -> str:
        """`tdm-reservation: 1 (header); content-signal: ai-train=no (robots.txt)`."""
        return "; ".join([*map(str, self.signals), *(["…"] if self.more else [])])

    @property
    def tdm_reserved(self) -> bool | None:
        """Whether any signal reserves the rights of text and data mining; None: unspecified."""
        said = [one.value for one in self.signals if one.name == "tdm-reservation"]
        return None if not said else any(value == "1" for value in said)


NONE: Final = Usage()


def usage_of(
    header: Callable[[str], Sequence[str]],
    metas: Iterable[tuple[str, str]] = (),
    robots: Iterable[tuple[str, str]] = (),
) -> Usage:
    """Collect the signals of a page.

    header: returns the values of all fields of a name. metas: (name, content) pairs. robots: (name,
    value) pairs of the lines of robots.txt that apply to the page.
    """
    found: dict[Signal, None] = {}
    for name in NAMES:
        for value in header(name):
            _add(found, Where.HEADER, name, value)
    for name, value in metas:
        _add(found, Where.META, name, value)
    for name, value in robots:
        _add(found, Where.ROBOTS, name, value)
    signals = tuple(found)
    return Usage(signals=signals[:SIGNALS_MAX], more=len(found) > SIGNALS_MAX) if found else NONE


def _add(found: dict[Signal, None], where: Where, name: str, value: str) -> None:
    name = name.strip().lower()
    if name not in NAMES or len(found) > SIGNALS_MAX:
        return
    end = "…" if len(value) > _VALUE_CHARS_MAX else ""
    if value := " ".join(value[:_VALUE_CHARS_MAX].split()) + end:
        found[Signal(where=where, name=name, value=value)] = None
