"""The dialects of robots.txt, each a row of data.

A row holds what differs between readings and nothing else; the code that reads a row knows no
dialect by name. Where no source settles an entry, the row lists its aspect under `ours`, and
verdicts say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from policies.robots.dialect import (
    DAY_S,
    HOUR_S,
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

_RULES = frozenset({LineKind.DISALLOW, LineKind.ALLOW})
_COUNTING = "that a rule's length is its octets as compared, `$` included, is our counting"
_TYPOS = Leniency.MISSPELT | Leniency.NO_COLON


def _ours(**texts: str) -> Mapping[Aspect, str]:
    return MappingProxyType({Aspect[name.upper()]: text for name, text in texts.items()})


SLURP = Dialect(
    name="slurp",
    source="Yahoo! Slurp's help page and its announcement of November 2006",
    choice=GroupSelection.FIRST_CONTAINING,
    agent=Agent.WHOLE,
    list_ends=_RULES | {LineKind.CRAWL_DELAY},
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.ANY,
    trailing_star_counts=False,
    dollar=Dollar.CUT,
    escapes=Escapes.DECODE,
    robots_txt_allowed=True,
    crawl_delay=Delay.SECONDS,
    crawl_delay_range=(0, 10),
    unreachable=Fallback.OPEN,
    ours=_ours(
        length=_COUNTING,
        agent_list="that Crawl-delay ends an agent list, and a blank line ends nothing, "
        "is our reading",
        denied="the help page says of a file that cannot be retrieved that there are no "
        "restrictions; the 1996 standard, which it also names, would close: we follow the page",
        kept="that a copy is kept for 24 hours is ours",
    ),
)

RFC9309 = Dialect(
    name="rfc9309",
    source="RFC 9309",
    choice=GroupSelection.ALL_EQUAL,
    agent=Agent.NAME,
    list_ends=_RULES,
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.ANY,
    dollar=Dollar.LAST,
    escapes=Escapes.RFC,
    robots_txt_allowed=True,
    crawl_delay=Delay.SECONDS,
    unreachable=Fallback.CLOSED,
    lifetime=Lifetime.CACHE_CONTROL,
    ours=_ours(
        length="the RFC counts octets; that `*` and `$` are counted, too, is our reading",
        crawl_delay="the RFC has no Crawl-delay; we read seconds, the largest of the merged groups",
        kept="the RFC names 24 hours as the most; that an hour is the least is ours",
    ),
)

GOOGLE = Dialect(
    name="google",
    source="Google's published library and documentation",
    choice=GroupSelection.ALL_EQUAL,
    agent=Agent.LIBRARY,
    library_lines=True,
    index_pages=True,
    star_with_text=True,
    longest_token_first=True,
    list_ends=_RULES,
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.ANY,
    dollar=Dollar.LAST,
    escapes=Escapes.GOOGLE,
    robots_txt_allowed=False,
    crawl_delay=Delay.IGNORED,
    lenient=_TYPOS | Leniency.LONGER_NAME,
    unreachable=Fallback.OPEN,
    closed_first_s=12 * HOUR_S,
    open_if_answering=True,
    lifetime=Lifetime.CACHE_CONTROL,
    lifetime_max_s=30 * DAY_S,
    ours=_ours(kept="that an hour is the least and 30 days the most a copy is kept is ours"),
)

GOOGLE2010 = Dialect(
    name="google2010",
    source="the REP reference guide of August 2010",
    choice=GroupSelection.FIRST_EQUAL,
    agent=Agent.NAME,
    star_with_text=True,
    longest_token_first=True,
    list_ends=_RULES | {LineKind.NOINDEX},
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.ANY,
    dollar=Dollar.LAST,
    escapes=Escapes.GOOGLE,
    robots_txt_allowed=False,
    crawl_delay=Delay.IGNORED,
    noindex=True,
    lenient=_TYPOS | Leniency.LONGER_NAME,
    unreachable=Fallback.OPEN,
    closed_first_s=12 * HOUR_S,
    open_if_answering=True,
    lifetime=Lifetime.CACHE_CONTROL,
    lifetime_max_s=30 * DAY_S,
    ours=_ours(
        length=_COUNTING,
        unreachable="the guide is silent on files that cannot be had; we follow later rules",
        kept="the guide gives 24 hours as an example; the bounds on Cache-Control are ours",
    ),
)

BING = Dialect(
    name="bing",
    source="Bing's help and its post of 2012 on Crawl-delay",
    choice=GroupSelection.FIRST_EQUAL,
    agent=Agent.NAME,
    list_ends=_RULES,
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.ANY,
    dollar=Dollar.LAST,
    escapes=Escapes.RFC,
    robots_txt_allowed=True,
    crawl_delay=Delay.WHOLE_OR_STAR,
    crawl_delay_range=(1, 10),
    unreachable=Fallback.CLOSED,
    ours=_ours(
        length=_COUNTING,
        escapes="Bing does not say how escapes are compared; we compare them as RFC 9309 does",
        unreachable="that Bing's robot stays away while the file cannot be had is our reading",
        kept="that a copy is kept for 24 hours is ours",
    ),
)

TEOMA = Dialect(
    name="teoma",
    source="Ask.com's page for webmasters",
    choice=GroupSelection.ALL_EQUAL,
    agent=Agent.NAME,
    list_ends=_RULES,
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.TRAILING,
    trailing_star_counts=False,
    dollar=Dollar.LITERAL,
    escapes=Escapes.RFC,
    robots_txt_allowed=True,
    crawl_delay=Delay.SECONDS,
    unreachable=Fallback.OPEN,
    ours=_ours(
        choice="how Teoma chose its group is not known; we choose as RFC 9309 does",
        precedence="which of several matching rules Teoma obeyed is not known; we take the longest",
        length=_COUNTING,
        wildcard="what `*` meant to Teoma is known only to have been different; we match prefixes, "
        "drop a trailing `*` and take any other as an ordinary character",
        dollar="that `$` was an ordinary character to Teoma is our reading",
        escapes="how Teoma compared escapes is not known; we compare them as RFC 9309 does",
        unreachable="what Teoma did without a file is not known; we take it as open, and ask on",
        denied="what Teoma did on 401 and 403 is not known; we take them as open",
        kept="that a copy is kept for 24 hours is ours",
    ),
)

RES1996 = Dialect(
    name="res1996",
    source="the Internet-Draft of 1996",
    choice=GroupSelection.FIRST_CONTAINING,
    agent=Agent.WHOLE,
    list_ends=None,
    blank_ends=True,
    precedence=Precedence.FIRST,
    wildcard=Wildcard.LITERAL,
    dollar=Dollar.LITERAL,
    escapes=Escapes.DECODE,
    robots_txt_allowed=True,
    crawl_delay=Delay.IGNORED,
    lenient=Leniency.NONE,
    denied=Fallback.CLOSED,
    unreachable=Fallback.CLOSED,
    lifetime=Lifetime.EXPIRES,
    lifetime_max_s=7 * DAY_S,
    lifetime_s=7 * DAY_S,
    ours=_ours(
        kept="the draft keeps a copy for 7 days unless told otherwise; the least is ours",
    ),
)

RES1994 = Dialect(
    name="res1994",
    source="the standard of 1994",
    choice=GroupSelection.FIRST_CONTAINING,
    agent=Agent.WHOLE,
    list_ends=frozenset({LineKind.DISALLOW}),
    blank_ends=True,
    precedence=Precedence.ANY_DISALLOW,
    wildcard=Wildcard.LITERAL,
    dollar=Dollar.LITERAL,
    escapes=Escapes.NONE,
    robots_txt_allowed=False,
    crawl_delay=Delay.IGNORED,
    lenient=Leniency.NONE,
    unreachable=Fallback.OPEN,
    keeps_trying=False,
    ours=_ours(
        escapes="the text of 1994 does not mention escapes; we compare as written",
        denied="the text of 1994 has no rule for 401 and 403; we take them as open",
        missing="the text of 1994 has an empty file forbid nothing; we take a missing one alike",
        unreachable="the text of 1994 is silent on a file that cannot be had; we take it as open",
        kept="that a copy is kept for 24 hours is ours",
    ),
)

YANDEX = Dialect(
    name="yandex",
    source="Yandex's help for webmasters",
    choice=GroupSelection.ALL_EQUAL,
    agent=Agent.NAME,
    longest_token_first=True,
    list_ends=_RULES,
    # Rules sorted by length, the last applicable one wins, Allow on ties: the longest, that is.
    precedence=Precedence.LONGEST,
    wildcard=Wildcard.ANY,
    trailing_star_counts=False,
    dollar=Dollar.LAST,
    escapes=Escapes.RFC,
    robots_txt_allowed=True,
    crawl_delay=Delay.IGNORED,
    unreachable=Fallback.OPEN,
    ours=_ours(
        length=_COUNTING,
        escapes="how Yandex compares escapes is not said; we compare them as RFC 9309 does",
        kept="that a copy is kept for 24 hours is ours",
    ),
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        row.name: row
        for row in (SLURP, RFC9309, GOOGLE, GOOGLE2010, BING, TEOMA, RES1996, RES1994, YANDEX)
    }
)


class UnknownDialectError(ValueError):
    """There is no dialect of that name; the message names those there are."""


def dialects(names: str | Dialect | Iterable[str | Dialect]) -> tuple[Dialect, ...]:
    """The rows of `names`, in order and without repetition. Raises UnknownDialectError."""
    wanted = (names,) if isinstance(names, (str, Dialect)) else tuple(names)
    rows: dict[str, Dialect] = {}
    for each in wanted:
        row = each if isinstance(each, Dialect) else _named(each)
        rows[row.name] = row
    if not rows:
        raise UnknownDialectError(f"a dialect is needed; there are {', '.join(DIALECTS)}")
    return tuple(rows.values())


def _named(name: str) -> Dialect:
    row = DIALECTS.get(name.lower())
    if row is None:
        import difflib  # for mistakes alone

        near = difflib.get_close_matches(name.lower(), DIALECTS, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ";"
        raise UnknownDialectError(
            f"there is no dialect {name!r}{meant} there are {', '.join(DIALECTS)}"
        )
    return row
