"""The dialects of robots.txt, each a row of data.

A row holds only what differs from the defaults of `Dialect`, and no other code refers to a dialect
by name. Where no source settles an entry, the row lists its aspect under `ours`, and verdicts that
rely on it mention it.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from policies.robots.dialect import (
    DAY_S,
    HOUR_S,
    RULES,
    Agent,
    Aspect,
    Delay,
    Dialect,
    Dollar,
    Escapes,
    Fallback,
    GroupSelection,
    Lifetime,
    Precedence,
    Wildcard,
)
from policies.robots.syntax import Leniency, LineKind

_COUNTING = "we count a rule's length in octets as compared, including `$`"
_TYPOS = Leniency.MISSPELT | Leniency.NO_COLON


def _ours(**texts: str) -> Mapping[Aspect, str]:
    return MappingProxyType({Aspect[name.upper()]: text for name, text in texts.items()})


SLURP = Dialect(
    name="slurp",
    source="Yahoo! Slurp's help page and its announcement of November 2006",
    choice=GroupSelection.FIRST_CONTAINING,
    agent=Agent.WHOLE,
    list_ends=RULES | {LineKind.CRAWL_DELAY},
    trailing_star_counts=False,
    dollar=Dollar.CUT,
    escapes=Escapes.DECODE,
    crawl_delay=Delay.SECONDS,
    crawl_delay_range=(0, 10),
    unreachable=Fallback.OPEN,
    ours=_ours(
        length=_COUNTING,
        agent_list="we assume that Crawl-delay ends an agent list and a blank line ends nothing",
        denied="the help page says that a file that cannot be retrieved means no restrictions; the "
        "1996 standard, which it also names, would close the site: we follow the page",
        kept="we keep a copy for 24 hours",
    ),
)

RFC9309 = Dialect(
    name="rfc9309",
    source="RFC 9309",
    crawl_delay=Delay.SECONDS,
    unreachable=Fallback.CLOSED,
    lifetime=Lifetime.CACHE_CONTROL,
    ours=_ours(
        length="the RFC counts octets; we count `*` and `$` as well",
        crawl_delay="the RFC has no Crawl-delay; we read seconds and take the largest of the "
        "merged groups",
        kept="the RFC sets a maximum of 24 hours; the minimum of one hour is ours",
    ),
)

GOOGLE = Dialect(
    name="google",
    source="Google's published library and documentation",
    agent=Agent.LIBRARY,
    library_lines=True,
    index_pages=True,
    star_with_text=True,
    longest_token_first=True,
    escapes=Escapes.GOOGLE,
    robots_txt_allowed=False,
    lenient=_TYPOS | Leniency.LONGER_NAME,
    closed_first_s=12 * HOUR_S,
    open_if_answering=True,
    lifetime=Lifetime.CACHE_CONTROL,
    lifetime_max_s=30 * DAY_S,
    unreachable=Fallback.OPEN,
    ours=_ours(kept="the minimum of one hour and the maximum of 30 days are ours"),
)

GOOGLE2010 = Dialect(
    name="google2010",
    source="the REP reference guide of August 2010",
    choice=GroupSelection.FIRST_EQUAL,
    star_with_text=True,
    longest_token_first=True,
    list_ends=RULES | {LineKind.NOINDEX},
    escapes=Escapes.GOOGLE,
    robots_txt_allowed=False,
    noindex=True,
    lenient=_TYPOS | Leniency.LONGER_NAME,
    closed_first_s=12 * HOUR_S,
    open_if_answering=True,
    lifetime=Lifetime.CACHE_CONTROL,
    lifetime_max_s=30 * DAY_S,
    unreachable=Fallback.OPEN,
    ours=_ours(
        length=_COUNTING,
        unreachable="the guide does not mention files that cannot be fetched; we follow later "
        "rules",
        kept="the guide gives 24 hours as an example; the limits on Cache-Control are ours",
    ),
)

BING = Dialect(
    name="bing",
    source="Bing's help and its 2012 post about Crawl-delay",
    choice=GroupSelection.FIRST_EQUAL,
    crawl_delay=Delay.WHOLE_OR_STAR,
    crawl_delay_range=(1, 10),
    unreachable=Fallback.CLOSED,
    ours=_ours(
        length=_COUNTING,
        escapes="Bing does not document how escapes are compared; we compare them as RFC 9309 does",
        unreachable="we assume that Bing's crawler does not crawl the site while the file cannot "
        "be fetched",
        kept="we keep a copy for 24 hours",
    ),
)

TEOMA = Dialect(
    name="teoma",
    source="Ask.com's page for webmasters",
    wildcard=Wildcard.TRAILING,
    trailing_star_counts=False,
    dollar=Dollar.LITERAL,
    crawl_delay=Delay.SECONDS,
    unreachable=Fallback.OPEN,
    ours=_ours(
        choice="how Teoma chose its group is unknown; we choose as RFC 9309 does",
        precedence="which of several matching rules Teoma obeyed is unknown; we take the longest",
        length=_COUNTING,
        wildcard="all that is known of `*` is that Teoma read it differently; we match prefixes, "
        "drop a trailing `*` and treat any other as an ordinary character",
        dollar="we assume that `$` was an ordinary character for Teoma",
        escapes="how Teoma compared escapes is unknown; we compare them as RFC 9309 does",
        unreachable="what Teoma did without a file is unknown; we treat it as open and keep trying",
        denied="what Teoma did on 401 and 403 is unknown; we treat them as open",
        kept="we keep a copy for 24 hours",
    ),
)

RES1996 = Dialect(
    name="res1996",
    source="the 1996 Internet-Draft",
    choice=GroupSelection.FIRST_CONTAINING,
    agent=Agent.WHOLE,
    list_ends=None,
    blank_ends=True,
    precedence=Precedence.FIRST,
    wildcard=Wildcard.LITERAL,
    dollar=Dollar.LITERAL,
    escapes=Escapes.DECODE,
    lenient=Leniency.NONE,
    denied=Fallback.CLOSED,
    unreachable=Fallback.CLOSED,
    lifetime=Lifetime.EXPIRES,
    lifetime_max_s=7 * DAY_S,
    lifetime_s=7 * DAY_S,
    ours=_ours(
        kept="the draft keeps a copy for 7 days by default; the minimum of one hour is ours",
    ),
)

RES1994 = Dialect(
    name="res1994",
    source="the 1994 standard",
    choice=GroupSelection.FIRST_CONTAINING,
    agent=Agent.WHOLE,
    list_ends=frozenset({LineKind.DISALLOW}),
    blank_ends=True,
    precedence=Precedence.ANY_DISALLOW,
    wildcard=Wildcard.LITERAL,
    dollar=Dollar.LITERAL,
    escapes=Escapes.NONE,
    robots_txt_allowed=False,
    lenient=Leniency.NONE,
    keeps_trying=False,
    unreachable=Fallback.OPEN,
    ours=_ours(
        escapes="the 1994 document does not mention escapes; we compare as written",
        denied="the 1994 document has no rule for 401 and 403; we treat them as open",
        missing="in the 1994 document, an empty file forbids nothing; we treat a missing file "
        "the same way",
        unreachable="the 1994 document does not mention files that cannot be fetched; we treat "
        "them as open",
        kept="we keep a copy for 24 hours",
    ),
)

YANDEX = Dialect(
    name="yandex",
    source="Yandex's help for webmasters",
    longest_token_first=True,
    # Rules are sorted by length and the last applicable one wins, Allow on ties: the longest rule.
    trailing_star_counts=False,
    unreachable=Fallback.OPEN,
    ours=_ours(
        length=_COUNTING,
        escapes="Yandex does not document how escapes are compared; we compare them as RFC 9309 "
        "does",
        kept="we keep a copy for 24 hours",
    ),
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        row.name: row
        for row in (SLURP, RFC9309, GOOGLE, GOOGLE2010, BING, TEOMA, RES1996, RES1994, YANDEX)
    }
)


class UnknownDialectError(ValueError):
    """Raised for a name that no dialect has. The message lists the existing ones."""


def dialects(names: str | Dialect | Iterable[str | Dialect]) -> tuple[Dialect, ...]:
    """The dialects of these names, in order and without repetition. Raises UnknownDialectError."""
    wanted = (names,) if isinstance(names, (str, Dialect)) else tuple(names)
    rows: dict[str, Dialect] = {}
    for each in wanted:
        row = each if isinstance(each, Dialect) else _named(each)
        rows[row.name] = row
    if not rows:
        raise UnknownDialectError(f"no dialect was given; choose one of {', '.join(DIALECTS)}")
    return tuple(rows.values())


def _named(name: str) -> Dialect:
    row = DIALECTS.get(name.lower())
    if row is None:
        import difflib  # needed only for mistakes

        near = difflib.get_close_matches(name.lower(), DIALECTS, n=1)
        hint = f"did you mean {near[0]!r}? Otherwise, " if near else ""
        raise UnknownDialectError(
            f"there is no dialect {name!r}; {hint}choose one of {', '.join(DIALECTS)}"
        )
    return row


# ---------------------------------------------------------------- pickling


def _reduced(row: Dialect) -> tuple[Callable[..., Dialect], tuple[Any, ...]]:
    """Pickle a dialect by name, because dialects are compared by identity; one that is not in
    DIALECTS by its options."""
    if DIALECTS.get(row.name) is row:
        return _named, (row.name,)
    return _restored, ({**msgspec.structs.asdict(row), "ours": dict(row.ours)},)


def _restored(options: dict[str, Any]) -> Dialect:
    return Dialect(**options)


copyreg.pickle(Dialect, _reduced)  # DIALECTS is out of reach of the module that defines the class
