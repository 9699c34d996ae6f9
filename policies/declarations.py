"""What an answer declares about the use of its page, in a form to be stored and compared.

A revisit compares it with what the answer before declared: a page that stays the same may allow
less, or more, than before. The header of a 304 replaces the stored fields that it repeats, and
leaves the others as they were (RFC 9111, 3.2 and 4.3.4).

The stored form holds one item for each field that was sent: the directives of `X-Robots-Tag` for
this crawler, and hashes of fields that are only compared.

Signals about the use of content are recorded, not enforced: `Content-Usage` (IETF,
draft-ietf-aipref-attach), `Content-Signal` (contentsignals.org) and the TDM Reservation Protocol
(W3C Community Group, TDMRep: `tdm-reservation`, `tdm-policy`), in headers and meta elements of a
page, the first two also in robots.txt.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from policies.indexing import Directives, from_header

Header = Callable[[str], Sequence[str]]

X_ROBOTS_TAG: Final = "X-Robots-Tag"
UNKNOWN: Final = "?"
"""The stored form where the page must be read again, because its answer's body is not known to go
with what is declared now."""

_TAG: Final = X_ROBOTS_TAG.lower()
_BODY: Final = "body"  # until when the body of the page says that it is available
_ROBOTS: Final = "robots.txt"
_LINKS: Final = "links"
_HASH_BYTES: Final = 8
NAMES: Final = ("content-usage", "content-signal", "tdm-reservation", "tdm-policy")
SIGNALS_MAX: Final = 20  # of one page; "…" stands for more
_VALUE_CHARS_MAX: Final = 1_000  # a longer value ends with "…"


class Declared(Struct, frozen=True):
    """The items of one page by name, in their stored form."""

    items: Mapping[str, str]

    def __str__(self) -> str:
        """The form to be stored: no more than a few hundred characters, "" if nothing is said."""
        return ";".join(f"{name}={value}" for name, value in sorted(self.items.items()))

    def directives(self, now_s: float) -> Directives:
        """Return what the header, and the end of the page's availability, demand at a time."""
        tag, body = (_directives(self.items.get(name, "")) for name in (_TAG, _BODY))
        return tag.merge(body).at(now_s)

    def changed(self, other: Declared, *, at: tuple[float, float]) -> bool:
        """Return whether this says something else than another did. at: the times of that and this,
        in Unix seconds. The end of its availability counts when it has come."""
        then_s, now_s = at
        return _compared(other, then_s) != _compared(self, now_s)

    def ban(self, now_s: float) -> str | None:
        """Return why sinks may not keep the page as it was, in the word of a directive."""
        found = self.directives(now_s)
        return "noindex" if not found.index else None if found.archive else "noarchive"

    def unavailable_at(self, now_s: float) -> float | None:
        """Return when the page stops being available, if that is still to come."""
        at = self.directives(now_s).unavailable_at
        return at if at is not None and at > now_s else None


NOTHING: Final = Declared({})


def parse(stored: str | None) -> Declared | None:
    """The inverse of `str`; None if it is not known what was declared."""
    if stored is None or stored == UNKNOWN:
        return None
    return Declared(dict(item.split("=", 1) for item in stored.split(";") if "=" in item))


def declared(
    header: Header,
    *,
    tokens: Sequence[str],
    links: str | None = None,
    robots: Iterable[tuple[str, str]] | None = (),
    body: Directives | None = None,
    before: Declared | None = None,
    whole: bool = True,
) -> Declared:
    """Collect what an answer declares.

    header: returns the values of all fields of a name. tokens: of this crawler. links: those of the
    header, as one string; None: it has no such fields. robots: (name, value) pairs of the lines of
    robots.txt on the use of the page; None: they are not known, and what was said before holds.
    body: the directives of the page's meta elements; None: it was not read, because it is as
    before. before: what was declared before. whole: this is no 304, and replaces all fields.
    """
    items = {} if before is None else dict(before.items)
    if whole and items:
        items = {name: value for name, value in items.items() if name in (_ROBOTS, _BODY)}
    if values := header(X_ROBOTS_TAG):
        _put(items, _TAG, _stored(from_header(values, tokens)))
    for name in NAMES:
        if values := header(name):
            _put(items, name, _hash(", ".join(values)))
    if links is not None:
        _put(items, _LINKS, _hash(links))
    if robots is not None:
        _put(items, _ROBOTS, _hash("\n".join(f"{name}: {value}" for name, value in robots)))
    if body is not None:
        _put(items, _BODY, _stored(Directives(unavailable_at=body.unavailable_at)))
    return Declared(items) if items else NOTHING


def _put(items: dict[str, str], name: str, value: str) -> None:
    """Replace an item. An empty one says as much as none."""
    items.pop(name, None)
    if value:
        items[name] = value


def _compared(one: Declared, at_s: float) -> tuple[tuple[bool, bool, bool], dict[str, str]]:
    found = one.directives(at_s)
    others = {name: value for name, value in one.items.items() if name not in (_TAG, _BODY)}
    return (found.index, found.follow, found.archive), others


def _hash(text: str) -> str:
    """A hash of a text that is compared, white space collapsed; "" for an empty one."""
    text = " ".join(text.split())
    data = text.encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=_HASH_BYTES).hexdigest() if text else ""


_NAMES: Final = (("index", "noindex"), ("follow", "nofollow"), ("archive", "noarchive"))


def _stored(found: Directives) -> str:
    """Such as "noindex,noarchive@1700000000.0"."""
    said = ",".join(name for field, name in _NAMES if not getattr(found, field))
    return said if found.unavailable_at is None else f"{said}@{found.unavailable_at!r}"


def _directives(stored: str) -> Directives:
    said, _, until = stored.partition("@")
    words = said.split(",")
    return Directives(
        index="noindex" not in words,
        follow="nofollow" not in words,
        archive="noarchive" not in words,
        unavailable_at=float(until) if until else None,
    )


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
