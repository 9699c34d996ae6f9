"""What defines a dialect of robots.txt: its options, and the values that each of them can take."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct

from policies.robots.syntax import KIND_MASK, Leniency, LineKind

DAY_S = 86_400.0
HOUR_S = 3_600.0
RULES = frozenset({LineKind.DISALLOW, LineKind.ALLOW})


class GroupSelection(enum.Enum):
    """The choice of the groups that apply to a crawler."""

    FIRST_CONTAINING = "the first group with an agent value that contains the crawler's token"
    ALL_EQUAL = "all groups with the crawler's token, merged"
    FIRST_EQUAL = "the first group with the crawler's token"


class Agent(enum.Enum):
    """The way in which names of crawlers are compared, always ignoring case."""

    WHOLE = "whole"
    NAME = "up to the first byte other than letters, digits, `-` and `_`"
    LIBRARY = "the file's up to the first byte outside [A-Za-z_-], the crawler's own in full"


class Precedence(enum.Enum):
    LONGEST = "longest rule, Allow on ties"
    FIRST = "first match in file order"
    ANY_DISALLOW = "any Disallow; Allow is ignored"


class Wildcard(enum.Enum):
    ANY = "any characters"
    TRAILING = "only at the end, where it does not change what matches"
    LITERAL = "an ordinary character"


class Dollar(enum.Enum):
    CUT = "anchors the rule at the end of the path; anything after it is ignored"
    LAST = "anchors the rule at the end of the path, as the last character"
    LITERAL = "an ordinary character"


class Escapes(enum.Enum):
    DECODE = "all but %2F are decoded, on both sides"
    RFC = "RFC 9309, section 2.2.2, on both sides"
    GOOGLE = (
        "in rules, other octets are escaped and hex digits uppercased; the URL is used as given"
    )
    NONE = "as written"


class Delay(enum.Enum):
    """The way in which Crawl-delay is read."""

    IGNORED = "ignored"
    SECONDS = "seconds, fractions allowed; the largest value in the matching groups"
    WHOLE_OR_STAR = "seconds, fractions rounded up; of the group, or else of `*`"


class Fallback(enum.StrEnum):
    """The verdict while there is no file."""

    OPEN = "open"
    CLOSED = "closed"


class Lifetime(enum.Enum):
    """The rule for how long an answer is kept."""

    FIXED = "fixed"
    CACHE_CONTROL = "Cache-Control"
    EXPIRES = "Expires"


class Aspect(enum.StrEnum):
    """The parts of a dialect that a verdict may rely on."""

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
    """One way to read robots.txt. There is one instance of each, compared by identity."""

    name: str
    source: str  # where the interpretation comes from
    choice: GroupSelection = GroupSelection.ALL_EQUAL
    agent: Agent = Agent.NAME
    library_lines: bool = False  # lines are read as Google's library reads them
    index_pages: bool = False  # `Allow: /a/index.html` also allows `/a/`
    star_with_text: bool = False  # `* and more` counts as `*`
    longest_token_first: bool = False  # of several tokens the most specific is tried first
    list_ends: frozenset[LineKind] | None = RULES  # what ends an agent list; None: any other line
    blank_ends: bool = False  # a blank line ends the group
    precedence: Precedence = Precedence.LONGEST
    wildcard: Wildcard = Wildcard.ANY
    trailing_star_counts: bool = True
    dollar: Dollar = Dollar.LAST
    escapes: Escapes = Escapes.RFC
    robots_txt_allowed: bool = True  # /robots.txt itself, whatever the rules
    crawl_delay: Delay = Delay.IGNORED
    crawl_delay_range: tuple[float, float] | None = None  # documented by the engine; only for lint
    noindex: bool = False  # Noindex lines count as Disallow and exclude from the index
    lenient: Leniency = Leniency.MISSPELT | Leniency.NO_COLON
    # The following is for policies.robots_state: files that could not be fetched.
    denied: Fallback = Fallback.OPEN  # 401, 403
    missing: Fallback = Fallback.OPEN  # other 4xx except 429
    unreachable: Fallback  # 429, 5xx, network failure, broken body
    keeps_trying: bool = True  # with the delays of retries; else when the lifetime ends
    closed_first_s: float = 0.0  # closed at first for this time, even if there is a copy
    copy_max_s: float = 30 * DAY_S  # for this time the last good copy is used while it is stale
    open_if_answering: bool = False  # after copy_max_s: open if the site answers, else closed
    lifetime: Lifetime = Lifetime.FIXED
    lifetime_min_s: float = HOUR_S
    lifetime_max_s: float = DAY_S
    lifetime_s: float = DAY_S  # if fixed, or not specified by the answer
    ours: Mapping[Aspect, str]  # our own interpretation where no source has one

    def __copy__(self) -> Dialect:
        return self

    def __deepcopy__(self, memo: object) -> Dialect:
        return self

    def base_kinds(self) -> bytes:
        """A table for bytes.translate: kinds with leniency flags to kinds in this dialect."""
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
