"""A parsed robots.txt: verdicts, rule sets for many verdicts, and the fields other than rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial

from policies.pacing import Window, common_windows
from policies.robots import fields
from policies.robots.agent_rules import AgentRules
from policies.robots.dialect import Dialect
from policies.robots.dialects import DIALECTS, SLURP, dialects
from policies.robots.library_lines import LibrarySource
from policies.robots.syntax import FIELDS, Line, LineKind, RobotsSource
from policies.robots.verdict import Verdict, path_of

_RULE_SETS_MAX = 64
"""Rule sets (agents times dialects) that one file caches; a crawl needs one or a few."""

_LINE_S = 1e-6
_BYTE_S = 1e-7

_Key = tuple[str | tuple[str, ...], Dialect | tuple[Dialect, ...]]


class RuleSet:
    """The rules of one file for one crawler, under one dialect or the strictest of several.

    `allowed(path_and_query) -> bool` is the fast path. Its first call compiles the rules.
    """

    __slots__ = ("_names", "_usages", "allowed", "by_dialect", "memory_bytes")

    allowed: Callable[[str], bool]

    def __init__(self, readings: tuple[AgentRules, ...]) -> None:
        self.by_dialect = readings
        self._usages: tuple[fields.ContentUsage, ...] | None = None
        self.memory_bytes = 0
        """What it takes in memory, the file included, as estimated by `read_whole`."""
        self._names = tuple(reading.dialect.name for reading in readings)
        one = readings[0].allowed
        self.allowed = one if len(readings) == 1 else partial(_all_allow, readings)

    def read_whole(self) -> None:
        """Compile the rules and read the other fields now instead of at the first verdict.

        For a large file this takes long enough to be done in a thread.
        """
        for reading in self.by_dialect:
            reading.read_whole()
        self.usages  # noqa: B018
        sources = {id(reading.source): reading.source for reading in self.by_dialect}
        self.memory_bytes = sum(source.memory_bytes for source in sources.values())
        self.memory_bytes += sum(reading.memory_bytes for reading in self.by_dialect)

    def verdict(self, url: str) -> Verdict:
        """Judge a URL, or a path and query, as given. Of several dialects, disallow beats allow."""
        path = path_of(url)
        if len(self.by_dialect) == 1:
            return Verdict(self.by_dialect[0], path, self._names)
        first: Verdict | None = None
        for reading in self.by_dialect:
            verdict = Verdict(reading, path, self._names)
            if not verdict.allowed:
                return verdict
            first = first or verdict
        assert first is not None
        return first

    @property
    def crawl_delay_s(self) -> float | None:
        """The largest Crawl-delay of all dialects; None: there is none."""
        return _largest(reading.crawl_delay_s for reading in self.by_dialect)

    @property
    def request_rate_s(self) -> float | None:
        """Seconds per page, by the slowest Request-rate; None: there is none."""
        return _largest(reading.request_rate_s for reading in self.by_dialect)

    @property
    def visit_windows(self) -> tuple[Window, ...]:
        """The hours (UTC) during which visits are welcome in all dialects. Empty: always."""
        windows: tuple[Window, ...] = ()
        for reading in self.by_dialect:
            windows = common_windows(windows, reading.visit_windows)
        return windows

    @property
    def usages(self) -> tuple[fields.ContentUsage, ...]:
        """Content-Usage and Content-Signal of the chosen groups: reported, not enforced."""
        if self._usages is None:  # used for every page
            found = (usage for reading in self.by_dialect for usage in reading.usages)
            self._usages = tuple(dict.fromkeys(found))
        return self._usages


class RobotsFile:
    """A robots.txt, parsed once; immutable apart from its caches."""

    def __init__(self, body: bytes) -> None:
        self.source = RobotsSource(body)
        self._rule_sets: dict[_Key, RuleSet] = {}

    # ------------------------------------------------------------ verdicts

    def decide(
        self,
        url: str,
        *,
        agent: str | Sequence[str],
        dialect: str | Dialect | Sequence[str | Dialect] = SLURP,
    ) -> Verdict:
        """Judge `url` (or a path and query) as given.

        agent: the crawler's product token, or several, the most preferred first.
        dialect: of several dialects the strictest verdict applies.

        Raises UnknownDialectError.
        """
        return self.rule_set(agent, dialect).verdict(url)

    def compare(self, url: str, *, agent: str | Sequence[str]) -> dict[str, Verdict]:
        """The verdict of every dialect, by name."""
        return {name: self.decide(url, agent=agent, dialect=row) for name, row in DIALECTS.items()}

    def rule_set(
        self,
        agent: str | Sequence[str],
        dialect: str | Dialect | Sequence[str | Dialect] = SLURP,
    ) -> RuleSet:
        """The rules of this file for `agent`, cached, and compiled when first used."""
        agents = agent if isinstance(agent, str) else tuple(agent)
        rows = dialect if isinstance(dialect, Dialect) else dialects(dialect)
        rule_set = self._rule_sets.get((agents, rows))
        if rule_set is None:
            if len(self._rule_sets) >= _RULE_SETS_MAX:
                self._rule_sets.clear()
            named = (agents,) if isinstance(agents, str) else agents
            many = (rows,) if isinstance(rows, Dialect) else rows
            readings = [
                AgentRules(self._lines_for(row), named, row, share=len(many)) for row in many
            ]
            rule_set = RuleSet(tuple(readings))
            self._rule_sets[agents, rows] = rule_set
        return rule_set

    def _lines_for(self, row: Dialect) -> RobotsSource:
        return self._library if row.library_lines else self.source

    @cached_property
    def _library(self) -> RobotsSource:
        return LibrarySource(self.source)

    # ------------------------------------------------------------ the text

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines. Their `raw` bytes followed by `tail` are the body."""
        return self.source.lines

    @property
    def tail(self) -> bytes:
        """The bytes beyond the limit."""
        return self.source.tail

    # ------------------------------------------------------------ beside rules

    def _texts(self, kind: LineKind) -> list[tuple[int, str]]:
        return [(i + 1, self.source.text(i)) for i in self.source.indexes(kind)]

    @cached_property
    def sitemaps(self) -> tuple[str, ...]:
        """The values of Sitemap lines, as written, without duplicates. They belong to no group."""
        return tuple(dict.fromkeys(text for _, text in self._texts(LineKind.SITEMAP) if text))

    @cached_property
    def host(self) -> str | None:
        """The first Host line's value: the name that the site prefers. Reported only."""
        return next((text for _, text in self._texts(LineKind.HOST) if text), None)

    @cached_property
    def clean_params(self) -> tuple[fields.CleanParam, ...]:
        """Clean-param lines, which belong to no group. Reported only."""
        found = [fields.clean_param(text, line) for line, text in self._texts(LineKind.CLEAN_PARAM)]
        return tuple(param for param in found if param is not None)

    @cached_property
    def usages(self) -> tuple[fields.ContentUsage, ...]:
        """All Content-Usage and Content-Signal lines, of any group. Reported only."""
        return tuple(
            fields.content_usage(FIELDS[kind], text, line)
            for kind in (LineKind.CONTENT_USAGE, LineKind.CONTENT_SIGNAL)
            for line, text in self._texts(kind)
        )


def parse(body: bytes) -> RobotsFile:
    """Parse the body of a robots.txt. Accepts any bytes and never raises.

    Only the first 500 KiB are used, without a line that is cut there.
    """
    return RobotsFile(body)


def parsing_cost_s(body: bytes) -> float:
    """Return the seconds of a processor that parsing a file takes for each dialect, as estimated:
    most of it depends on the number of lines."""
    lines = body.count(b"\n") + body.count(b"\r")
    return lines * _LINE_S + len(body) * _BYTE_S


def _all_allow(readings: Sequence[AgentRules], path: str) -> bool:
    return all(reading.allowed(path) for reading in readings)


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
