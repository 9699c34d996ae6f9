"""Lint for rules: those that have no effect, and those on which dialects differ."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from msgspec import Struct

from policies.robots.dialect import Dialect, Dollar, Precedence, Wildcard
from policies.robots.dialects import DIALECTS, RFC9309, SLURP
from policies.robots.groups import groups
from policies.robots.pattern import compile_path
from policies.robots.syntax import LineKind, RobotsSource


class Severity(enum.StrEnum):
    ERROR = "error"  # the line does not have the intended effect
    WARNING = "warning"  # crawlers differ on it, or it is probably a mistake
    NOTE = "note"


ERROR, WARNING, NOTE = Severity


class Finding(Struct, frozen=True):
    """One finding. `code` is stable; `line` counts from 1, None means the whole file."""

    line: int | None
    severity: Severity
    code: str
    why: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.severity}: {self.why} [{self.code}]"


def names_of(dialects: Iterable[Dialect]) -> str:
    """The names of some dialects, as an enumeration."""
    names = [dialect.name for dialect in dialects]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_ALL = DIALECTS.values()
_LITERAL = names_of(one for one in _ALL if one.wildcard is not Wildcard.ANY)
_UNCOUNTED = names_of(one for one in _ALL if not one.trailing_star_counts)
_IN_ORDER = names_of(one for one in _ALL if one.precedence is Precedence.FIRST)
_ALLOWLESS = names_of(one for one in _ALL if one.precedence is Precedence.ANY_DISALLOW)
_NOINDEXING = names_of(one for one in _ALL if one.noindex)
_CUTTING = names_of(one for one in _ALL if one.dollar is Dollar.CUT)


class _Rule(Struct, frozen=True):
    line: int  # from 1
    allow: bool
    path: str  # as RFC 9309 compares it, with its wildcards

    @property
    def wild(self) -> bool:
        return "*" in self.path or self.path.endswith("$")


def rule_findings(source: RobotsSource) -> Iterator[Finding]:
    """Findings on single rules, then on rules within their groups."""
    for i in source.indexes(LineKind.ALLOW, LineKind.DISALLOW, LineKind.NOINDEX):
        if value := source.octets(i):
            yield from _single(i + 1, value)
    for i in source.indexes(LineKind.NOINDEX):
        why = f"among the known dialects only {_NOINDEXING} reads Noindex"
        yield Finding(i + 1, NOTE, "noindex", why)
    for group in groups(source, RFC9309):
        rules: list[_Rule] = []
        for i in range(group.start, group.end):
            kind, value = source.kinds[i] & 0x1F, source.octets(i)
            if kind in (LineKind.ALLOW, LineKind.DISALLOW) and value:
                path = compile_path(value, RFC9309).text
                rules.append(_Rule(i + 1, kind == LineKind.ALLOW, path))
        yield from _within_group(rules)


def _single(line: int, value: str) -> Iterator[Finding]:
    lower = value.lower()
    if lower.startswith(("http:", "https:", "//", "/http:", "/https:", "www.")):
        why = "a rule is a path on this host: remove the scheme and the domain"
        yield Finding(line, ERROR, "domain", why)
    elif value[0] not in "/*":
        why = "a rule that begins with neither `/` nor `*` matches nothing"
        yield Finding(line, ERROR, "no-slash", why)
    body = value.rstrip("$")
    if "$" in body:
        why = (
            f"{_CUTTING} ends a rule at its first `$` (and reads "
            f"`{compile_path(value, SLURP).text}`); others treat that `$` as an ordinary character"
        )
        yield Finding(line, WARNING, "dollar", why)
    if body.endswith("*") and body == value:
        why = (
            "a trailing `*` does not change what the rule matches, but adds one to its length, "
            f"except for {_UNCOUNTED}"
        )
        yield Finding(line, NOTE, "trailing-star", why)
    elif "*" in value or value.endswith("$"):
        why = f"{_LITERAL} treat `*` and `$` in a path as ordinary characters"
        yield Finding(line, WARNING, "wildcard", why)
    if "%" in value:
        pairs = [part[:2] for part in value.split("%")[1:]]
        if any(len(pair) < 2 or not _is_hex(pair) for pair in pairs):
            why = "a `%` that does not begin an escape must be written %25"
            yield Finding(line, WARNING, "percent", why)
        if any(pair.lower() == "2f" for pair in pairs):
            yield Finding(line, NOTE, "slash-escape", "`%2F` and `/` differ in every dialect")
    if " " in value:
        yield Finding(line, WARNING, "blank", "a space in a path must be written %20")


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdefABCDEF" for char in text)


def _within_group(rules: list[_Rule]) -> Iterator[Finding]:
    seen: dict[str, _Rule] = {}  # the first rule of each path
    order_matters = False
    by_path: dict[str, list[_Rule]] = {}
    for rule in rules:
        by_path.setdefault(rule.path, []).append(rule)
    lengths = sorted({len(path) for path in by_path})
    wild_kinds = {rule.allow for rule in rules if rule.wild}
    kinds = {rule.allow for rule in rules}
    for rule in rules:
        same = seen.setdefault(rule.path, rule)
        if same is not rule and same.allow == rule.allow:
            yield Finding(rule.line, NOTE, "duplicate", f"line {same.line} has the same rule")
            continue
        if same is not rule:
            why = (
                f"line {same.line} has the opposite rule for the same path: Allow wins where the "
                f"longest rule applies, the first line for {_IN_ORDER}"
            )
            yield Finding(rule.line, WARNING, "contradiction", why)
            continue
        if rule.wild:
            owner = _owner(rule, by_path, lengths) if len(kinds) == 1 else None
            if owner is not None:
                yield _shadow(rule, owner)
            continue
        shorter = [rule.path[:n] for n in lengths if n < len(rule.path)]
        covering = [seen[path] for path in shorter if path in seen]
        against = next((r for r in covering if r.allow != rule.allow), None)
        if against is not None:
            order_matters = True
            why = (
                f"for {_IN_ORDER} line {against.line} matches all of these paths first, so this "
                "rule is never reached: put it before that line"
            )
            yield Finding(rule.line, WARNING, "order", why)
        elif _shadowed(rule, by_path, lengths, opposed=(not rule.allow) in wild_kinds):
            yield _shadow(rule, next(r for path in shorter for r in by_path.get(path, [])))
    if True in kinds and not order_matters:
        first = next(rule for rule in rules if rule.allow)
        yield Finding(first.line, NOTE, "allow", f"{_ALLOWLESS} ignores Allow")


def _shadowed(
    rule: _Rule, by_path: dict[str, list[_Rule]], lengths: list[int], *, opposed: bool
) -> bool:
    """Whether shorter rules of the same kind cover `rule`, and none of the other kind does."""
    if opposed:
        return False
    kinds = [
        each.allow for n in lengths if n < len(rule.path) for each in by_path.get(rule.path[:n], [])
    ]
    return bool(kinds) and all(kind == rule.allow for kind in kinds)


def _owner(rule: _Rule, by_path: dict[str, list[_Rule]], lengths: list[int]) -> _Rule | None:
    """A rule without wildcards that matches everything that `rule`, which has some, can match."""
    head = rule.path.partition("*")[0]
    head = head.removesuffix("$") if head == rule.path else head
    starts = [head[:n] for n in lengths if n <= len(head)]
    return next((by_path[start][0] for start in starts if start in by_path), None)


def _shadow(rule: _Rule, owner: _Rule) -> Finding:
    return Finding(rule.line, NOTE, "shadowed", f"line {owner.line} already covers this")
