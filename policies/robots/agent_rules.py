"""The rules of one file for one crawler under one dialect: groups chosen, rules compiled.

Ranks are numbers that order rules by the dialect's precedence: the lowest rank that matches
decides. A rank also contains the line of its rule and whether it allows, so that matching needs no
rule objects.
"""

from __future__ import annotations

import heapq
import math
import string
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from policies.pacing import Window, merged_windows
from policies.robots import fields
from policies.robots.compiling import CompiledRules, Ranks, compile_rules
from policies.robots.dialect import Delay, Dialect, Escapes, Precedence
from policies.robots.escapes import octets, path_forms
from policies.robots.groups import ChosenGroups, Group, choose, groups, is_star, names_token
from policies.robots.index import TOO_COMPLEX, Index
from policies.robots.pattern import NONE, Compiled, compile_path, index_page
from policies.robots.search import WORK_MAX, Search
from policies.robots.syntax import FIELDS, LineKind, RobotsSource

_LINE_BITS = 20  # a file of 500 KiB has fewer lines than 2**20
_CLASS_BITS = 2
_LINE_MASK = (1 << _LINE_BITS) - 1
_CLASS_MASK = (1 << _CLASS_BITS) - 1
_ALLOW, _NOINDEX, _DISALLOW = 0, 1, 2  # in the order in which they win a tie
_ORDER_SHIFT = _LINE_BITS + _CLASS_BITS
BLOCKS = (_NOINDEX | _DISALLOW) << _LINE_BITS  # bits of a rank whose rule does not allow
_OCTETS_MAX = 1 << 17  # more than the longest line has when all of it is escaped

RULES_SHOWN_MAX = 100  # of the rules that match a path
_WINDOWS_MAX = 8  # more are merged, because each check of a host's schedule tests them all
_SHARE_MAX = 6  # the number of dialects with wildcards; the others cost little
_TRIED_OCTETS_MAX = 16_384  # of rules that are tried one by one to explain a verdict
_RULE_OCTETS = 64  # added for each rule

# Octets that both forms of RFC 9309 leave unchanged.
_BARE = (string.ascii_letters + string.digits + "-._~/").encode()


class Rule(Struct, frozen=True, kw_only=True):
    """A rule of the chosen groups, as one dialect compares it."""

    line: int  # from 1
    allow: bool
    noindex: bool
    quote: str  # the line without its comment
    text: str  # as compared and counted
    octets: int

    @property
    def says(self) -> str:
        return "Allow" if self.allow else "Noindex" if self.noindex else "Disallow"


class AgentRules:
    """The rules of `source` for a crawler with the tokens `agents`, the most preferred first.

    share: the number of dialects that share the limit on the work of one verdict.
    """

    def __init__(
        self, source: RobotsSource, agents: Sequence[str], dialect: Dialect, *, share: int = 1
    ) -> None:
        self.source = source
        self.agents = tuple(agents)
        self.dialect = dialect
        self._work_max = WORK_MAX // min(share, _SHARE_MAX)
        self._kinds = source.kinds.translate(dialect.base_kinds())
        self._groups = groups(source, dialect)
        self.chosen: ChosenGroups = choose(self._groups, self.agents, dialect)
        self.acap: ChosenGroups | None = None  # ACAP groups apply in addition
        if self._kinds.find(LineKind.ACAP_CRAWLER) >= 0:
            self.acap = choose(groups(source, dialect, acap=True), self.agents, dialect)
        self._rules: CompiledRules | None = None
        self._plain_best: Callable[[str], int] | None = None  # for paths without escapes
        self.exempt_path = "/robots.txt" if dialect.robots_txt_allowed else None

    # ------------------------------------------------------------ the hot path

    def allowed(self, path: str) -> bool:
        """Return whether `path` (path and query, beginning with "/") may be fetched."""
        best = self._plain_best
        if best is not None and "%" not in path and path.isascii():
            return not best(path) & BLOCKS or path == self.exempt_path
        return not self.rank(path) & BLOCKS or path == self.exempt_path

    def rank(self, path: str) -> int:
        """The rank of the rule that decides over `path`, or NONE."""
        asked = self._asked(path)
        if len(asked) == 1:
            index, form = asked[0]
            return index.best(form)
        search = Search(self._work_max)  # one for all forms
        return min([index.best(form, search) for index, form in asked])

    def names_us(self, value: str) -> bool:
        """Return whether an agent value is one for which the groups were chosen."""
        dialect = self.dialect
        for chosen in (self.chosen, self.acap):
            if chosen is None or not chosen.groups:
                continue
            if chosen.star:
                if is_star(value, dialect):
                    return True
            elif names_token(value, chosen.token, dialect):
                return True
        return False

    def _asked(self, path: str) -> list[tuple[Index, str]]:
        """The indexes to search for a path, each with the spelling to search."""
        rules = self._rules or self._compile()
        if self._plain_best and "%" not in path and path.isascii():
            return [(rules.bare, path)]
        escapes = self.dialect.escapes
        if escapes is not Escapes.RFC:
            return [(rules.bare, form) for form in path_forms(octets(path), escapes)]
        if path.isascii() and not path.encode().translate(None, _BARE):
            return [(rules.bare, path)]
        forms = path_forms(octets(path), escapes)
        if "%" in forms[0]:
            # With an escape on either side, a rule is compared in both of its forms.
            indexes = [one for one in (rules.bare, rules.escaped, rules.full) if one is not None]
            return [(index, form) for form in forms for index in indexes]
        if rules.escaped is None or len(forms) == 1:
            return [(rules.bare, forms[0])]
        # A rule with an escape matches no path without one.
        return [(rules.bare, forms[0]), (rules.escaped, forms[1])]

    def _compile(self) -> CompiledRules:
        lines: list[int] = []
        kinds: list[int] = []
        for i, kind in self._rule_lines():
            lines.append(i)
            kinds.append(kind)
        paths = self.source.paths(lines)
        if self.dialect.index_pages:
            for i, kind, path in list(zip(lines, kinds, paths, strict=True)):
                if kind == _ALLOW and (page := index_page(path)):
                    lines.append(i)
                    kinds.append(kind)
                    paths.append(page)
        if not all(paths):
            kept = [n for n, path in enumerate(paths) if path]
            lines = [lines[n] for n in kept]
            kinds = [kinds[n] for n in kept]
            paths = [paths[n] for n in kept]
        self._rules = rules = compile_rules(
            lines, kinds, paths, self.dialect, ranks=self._ranks, work_max=self._work_max
        )
        if rules.escaped is None:
            self._plain_best = rules.bare.best
        return rules

    def read_whole(self) -> None:
        """Compute now what is otherwise computed on demand."""
        self.allowed("/")
        self.crawl_delay_s, self.request_rates, self.visit_windows  # noqa: B018

    @property
    def memory_bytes(self) -> int:
        """The memory of the groups and the compiled rules, without the file, as estimated."""
        agents = sum(len(group.agent_lines) for group in self._groups)
        size_bytes = len(self._kinds) + 300 * len(self._groups) + 120 * agents
        rules = self._rules
        for index in () if rules is None else (rules.bare, rules.escaped, rules.full):
            size_bytes += 0 if index is None else index.memory_bytes
        return size_bytes

    @cached_property
    def _ranks(self) -> Ranks:
        if self.dialect.precedence is Precedence.LONGEST:
            longest = _OCTETS_MAX << _CLASS_BITS
            starts = tuple((longest | kind) << _LINE_BITS for kind in range(3))
            return Ranks(starts, 1 << _ORDER_SHIFT, 1)
        return Ranks(tuple(kind << _LINE_BITS for kind in range(3)), 0, (1 << _ORDER_SHIFT) + 1)

    def _rank(self, line: int, kind: int, size: int) -> int:
        ranks = self._ranks
        return ranks.starts[kind] - size * ranks.by_octet + line * ranks.by_line

    def _rule_lines(self) -> Iterator[tuple[int, int]]:
        """The rule lines (from 0) of the chosen groups, each with its class."""
        classes = {int(LineKind.DISALLOW): _DISALLOW}
        if self.dialect.precedence is not Precedence.ANY_DISALLOW:
            classes[LineKind.ALLOW] = _ALLOW
        if self.dialect.noindex:
            classes[LineKind.NOINDEX] = _NOINDEX
        acap = {int(LineKind.ACAP_DISALLOW): _DISALLOW}
        if LineKind.ALLOW in classes:
            acap[LineKind.ACAP_ALLOW] = _ALLOW
        kinds = self._kinds
        if self.acap is None:
            classes |= acap  # without ACAP groups, ACAP rules belong to the ordinary group
        else:
            for group in self.acap.groups:
                for i in range(group.start, group.end):
                    if kinds[i] in acap:
                        yield i, acap[kinds[i]]
        for group in self.chosen.groups:
            for i in range(group.start, group.end):
                if kinds[i] in classes:
                    yield i, classes[kinds[i]]

    # ------------------------------------------------------------ explaining

    def _compiled(self) -> Iterator[tuple[int, int, Compiled]]:
        for i, kind in self._rule_lines():
            path = self.source.octets(i)
            if path:
                yield i, kind, compile_path(path, self.dialect)
            if kind == _ALLOW and self.dialect.index_pages and (page := index_page(path)):
                yield i, kind, compile_path(page, self.dialect)

    def rule_of(self, rank: int) -> Rule | None:
        """The rule of a rank; None for NONE and TOO_COMPLEX."""
        if rank in (NONE, TOO_COMPLEX):
            return None
        line, kind = rank & _LINE_MASK, rank >> _LINE_BITS & _CLASS_MASK
        path = self.source.octets(line)
        compiled = compile_path(path, self.dialect)
        if self.dialect.index_pages and rank != self._rank(line, kind, len(compiled.text)):
            compiled = compile_path(index_page(path) or path, self.dialect)
        return self._rule(line, kind, compiled)

    def _rule(self, line: int, kind: int, compiled: Compiled) -> Rule:
        return Rule(
            line=line + 1,
            allow=kind == _ALLOW,
            noindex=kind == _NOINDEX,
            quote=self.source.quote(line),
            text=compiled.text,
            octets=len(compiled.text),
        )

    def matching(self, path: str) -> list[Rule]:
        """The rules that match, the deciding one first; for a large file at most RULES_SHOWN_MAX,
        and only the first of rules that are compared alike."""
        ranks = set(self._tried(path) if self._few else self._found(path))
        rules = map(self.rule_of, heapq.nsmallest(RULES_SHOWN_MAX, ranks))
        return [rule for rule in rules if rule is not None]

    def _tried(self, path: str) -> Iterator[int]:
        """The ranks of the rules that match, each tried without the index."""
        forms = path_forms(octets(path), self.dialect.escapes)
        for i, kind, compiled in self._compiled():
            patterns, spellings = compiled.patterns, forms
            if "%" not in compiled.text and "%" not in forms[0]:
                patterns, spellings = patterns[:1], forms[:1]
            if any(pattern.matches(form) for pattern in patterns for form in spellings):
                yield self._rank(i, kind, len(compiled.text))

    def _found(self, path: str) -> Iterator[int]:
        """The ranks of the rules that match, found by the index."""
        for index, form in self._asked(path):
            yield from index.every(form, RULES_SHOWN_MAX)

    @cached_property
    def _few(self) -> bool:
        """Whether trying every rule costs little."""
        raw = self.source.raw_lines
        octets_left = _TRIED_OCTETS_MAX
        for i, _ in self._rule_lines():
            octets_left -= _RULE_OCTETS + len(raw[i])
            if octets_left < 0:
                return False
        return True

    def compared(self, path: str) -> str:
        """Return `path` as the dialect compares it, for people."""
        forms = path_forms(octets(path), self.dialect.escapes)
        rules = self._rules or self._compile()
        form = forms[-1 if "%" in forms[0] or rules.escaped else 0]
        return form.encode("latin-1").decode("utf-8", "replace")

    @cached_property
    def has_rules(self) -> bool:
        """Whether the chosen groups have any rule."""
        return any(self.source.value(i) for i, _ in self._rule_lines())

    @cached_property
    def special(self) -> frozenset[str]:
        """Which of `*`, `$` and `%` occur in the rules, apart from a `*` at the end."""
        values = b"\n".join(self.source.value(i).rstrip(b"*") for i, _ in self._rule_lines())
        return frozenset(char for char in "*$%" if char.encode() in values)

    # ------------------------------------------------------------ pace

    def _values(
        self, kind: LineKind, chosen: Sequence[Group] | None = None
    ) -> Iterator[tuple[int, str]]:
        """Number (from 1) and value of each line of `kind` in the chosen groups."""
        for group in self.chosen.groups if chosen is None else chosen:
            for i in range(group.start, group.end):
                if self._kinds[i] == kind:
                    yield i + 1, self.source.text(i)

    @cached_property
    def crawl_delay_s(self) -> float | None:
        """The Crawl-delay as this dialect reads it, or None."""
        reading = self.dialect.crawl_delay
        if reading is Delay.IGNORED:
            return None
        found = self._delay_of(self.chosen.groups)
        if found is None and reading is Delay.WHOLE_OR_STAR:
            stars = [r for r in self._groups if any(is_star(a, self.dialect) for a in r.agents)]
            found = self._delay_of(stars[:1])
        if found is not None and reading is Delay.WHOLE_OR_STAR:
            found = float(math.ceil(found))
        return found

    def _delay_of(self, chosen: Sequence[Group]) -> float | None:
        values = [fields.delay_s(text) for _, text in self._values(LineKind.CRAWL_DELAY, chosen)]
        return max((value for value in values if value is not None), default=None)

    @cached_property
    def request_rates(self) -> tuple[fields.RequestRate, ...]:
        """The Request-rates of the chosen groups."""
        found = [
            fields.request_rate(text, line) for line, text in self._values(LineKind.REQUEST_RATE)
        ]
        return tuple(rate for rate in found if rate is not None)

    @property
    def request_rate_s(self) -> float | None:
        """Seconds per page by the slowest rate; the hours of a rate are ignored."""
        return max((rate.seconds_per_page for rate in self.request_rates), default=None)

    @cached_property
    def visit_windows(self) -> tuple[Window, ...]:
        """The hours (UTC) during which visits are welcome, in any window. Empty: always."""
        found = [fields.visit_window(text) for _, text in self._values(LineKind.VISIT_TIME)]
        windows = tuple(dict.fromkeys(window for window in found if window is not None))
        return windows if len(windows) <= _WINDOWS_MAX else merged_windows(windows)

    @cached_property
    def usages(self) -> tuple[fields.ContentUsage, ...]:
        """Content-Usage and Content-Signal of the chosen groups: reported, not enforced."""
        return tuple(
            fields.content_usage(FIELDS[kind], text, line)
            for kind in (LineKind.CONTENT_USAGE, LineKind.CONTENT_SIGNAL)
            for line, text in self._values(kind)
        )
