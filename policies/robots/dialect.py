"""What a dialect's row can say: the closed sets its columns take their values from."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct

from policies.robots.syntax import KIND_MASK, Leniency, LineKind

DAY_S = 86_400.0
HOUR_S = 3_600.0


class GroupSelection(enum.Enum):
    """Which records speak to us."""

    FIRST_CONTAINING = "first record with an agent value containing our token"
    ALL_EQUAL = "all groups whose agent token equals ours, merged"
    FIRST_EQUAL = "the first group whose agent token equals ours"


class Agent(enum.Enum):
    """How the names of crawlers are compared, always without regard to case."""

    WHOLE = "whole"
    NAME = "up to the first byte that no name has: other than letters, digits, `-` and `_`"
    LIBRARY = "the file's up to the first byte outside [A-Za-z_-], our own as it is"


class Precedence(enum.Enum):
    LONGEST = "longest rule, Allow on ties"
    FIRST = "first match in file order"
    ANY_DISALLOW = "any Disallow; Allow is unknown"


class Wildcard(enum.Enum):
    ANY = "any characters"
    TRAILING = "only at the end, where it adds nothing to a prefix"
    LITERAL = "an ordinary character"


class Dollar(enum.Enum):
    CUT = "anchors at the end, and ends the rule"
    LAST = "anchors where it is the last character"
    LITERAL = "an ordinary character"


class Escapes(enum.Enum):
    DECODE = "all but %2F are decoded, on both sides"
    RFC = "RFC 9309 section 2.2.2, on both sides"
    GOOGLE = "the rule's other octets are escaped, its hexadecimals raised; the URL as given"
    NONE = "as written"


class Delay(enum.Enum):
    """How Crawl-delay is read."""

    IGNORED = "ignored"
    SECONDS = "seconds, decimals allowed, the largest of the chosen records"
    WHOLE_OR_STAR = "seconds, fractions rounded up, of the section or else of `*`"


class Fallback(enum.StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Lifetime(enum.Enum):
    """What says for how long an answer is kept."""

    FIXED = "fixed"
    CACHE_CONTROL = "Cache-Control"
    EXPIRES = "Expires"


class Aspect(enum.StrEnum):
    """The parts of a reading that a verdict may rest on."""

    CHOICE = "choice"
    AGENT_LIST = "agent list"
    PRECEDENCE = "precedence"
    LENGTH = "length"
    WILDCARD = "wildcard"
    DOLLAR = "dollar"
    ESCAPES = "escapes"
    ROBOTS_TXT = "robots.txt"
    CRAWL_DELAY = "crawl-delay"
    DENIED = "401 and 403"
    MISSING = "other 4xx"
    UNREACHABLE = "unreachable"
    KEPT = "kept for"


class Dialect(Struct, frozen=True, kw_only=True, eq=False):
    """One reading of robots.txt. Rows are compared by identity: there is one of each."""

    name: str
    source: str  # where the reading comes from, as a verdict names it
    choice: GroupSelection
    agent: Agent
    library_lines: bool = False  # lines are read as Google's library reads them
    index_pages: bool = False  # `Allow: /a/index.html` allows `/a/`, too
    star_with_text: bool = False  # `* and more` counts as `*`
    longest_token_first: bool = False  # of several tokens the most specific is tried first
    list_ends: frozenset[LineKind] | None  # what ends an agent list; None: any line but User-agent
    blank_ends: bool = False  # a blank line ends the record
    precedence: Precedence
    wildcard: Wildcard
    trailing_star_counts: bool = True
    dollar: Dollar
    escapes: Escapes
    robots_txt_allowed: bool
    crawl_delay: Delay
    crawl_delay_range: tuple[float, float] | None = None  # named by its engine; a lint note only
    noindex: bool = False  # Noindex lines compete as a Disallow and un-index
    lenient: Leniency = Leniency.MISSPELT | Leniency.NO_COLON
    # What follows is for policies.robots_state: a robots.txt that could not be read.
    denied: Fallback = Fallback.OPEN  # 401, 403
    missing: Fallback = Fallback.OPEN  # other 4xx but 429
    unreachable: Fallback  # 429, 5xx, network failure, broken body
    keeps_trying: bool = True  # on the retry clock; else asked again when the lifetime ends
    closed_first_s: float = 0.0  # closed for so long at first, whatever copy there is
    copy_max_s: float = 30 * DAY_S  # for so long the last good copy stays while a refresh fails
    open_if_answering: bool = False  # after copy_max_s: open if the site answers, else closed
    lifetime: Lifetime = Lifetime.FIXED
    lifetime_min_s: float = HOUR_S
    lifetime_max_s: float = DAY_S
    lifetime_s: float = DAY_S  # where nothing is said, or the lifetime is fixed
    ours: Mapping[Aspect, str]  # what no source says, and what we do

    def base_kinds(self) -> bytes:
        """A table for bytes.translate: kinds with leniency flags to kinds as this row reads."""
        return _BASE_KINDS[self.lenient]


def _base_kinds(lenient: Leniency) -> bytes:
    table = bytearray(range(256))
    for byte in range(256):
        flags = byte & ~KIND_MASK
        if flags:
            table[byte] = byte & KIND_MASK if not flags & ~int(lenient) else LineKind.UNKNOWN
    return bytes(table)


_ALL_LENIENCIES = [Leniency(i << 5) for i in range(8)]
_BASE_KINDS = {lenient: _base_kinds(lenient) for lenient in _ALL_LENIENCIES}
