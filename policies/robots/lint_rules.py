"""What lint finds in rules: those that cannot decide, and those on which dialects differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from policies.robots.dialect import Dialect, Dollar, Precedence, Wildcard
from policies.robots.dialects import DIALECTS, RFC9309, SLURP
from policies.robots.groups import groups
from policies.robots.pattern import compile_path
from policies.robots.syntax import LineKind, RobotsSource

Found = tuple[int, str, str, str]
"""Line (from 1), severity, code, why."""

_ROWS = DIALECTS.values()


def those(rows: Iterable[Dialect]) -> str:
    """The names of some dialects, as a sentence has them."""
    names = [row.name for row in rows]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


_LITERAL = those(row for row in _ROWS if row.wildcard is not Wildcard.ANY)
_UNCOUNTED = those(row for row in _ROWS if not row.trailing_star_counts)
_IN_ORDER = those(row for row in _ROWS if row.precedence is Precedence.FIRST)
_ALLOWLESS = those(row for row in _ROWS if row.precedence is Precedence.ANY_DISALLOW)
_NOINDEXING = those(row for row in _ROWS if row.noindex)
_CUTTING = those(row for row in _ROWS if row.dollar is Dollar.CUT)


def _found(line: int, severity: str, code: str, why: str) -> Found:
    return line, severity, code, why


class _Rule(Struct, frozen=True):
    line: int  # from 1
    allow: bool
    path: str  # as RFC 9309 compares it, wildcards and all

    @property
    def wild(self) -> bool:
        return "*" in self.path or self.path.endswith("$")


def rule_findings(source: RobotsSource) -> Iterator[Found]:
    """Findings on single rules, then on rules within their groups."""
    for i in source.indexes(LineKind.ALLOW, LineKind.DISALLOW, LineKind.NOINDEX):
        value = source.octets(i)
        if value:
            yield from _single(i + 1, value)
    for i in source.indexes(LineKind.NOINDEX):
        yield _found(
            i + 1,
            "note",
            "noindex",
            f"of the dialects known here only {_NOINDEXING} reads Noindex",
        )
    for record in groups(source, RFC9309):
        rules: list[_Rule] = []
        for i in range(record.start, record.end):
            kind, value = source.kinds[i] & 0x1F, source.octets(i)
            if kind in (LineKind.ALLOW, LineKind.DISALLOW) and value:
                rules.append(
                    _Rule(i + 1, kind == LineKind.ALLOW, compile_path(value, RFC9309).text)
                )
        yield from _within_group(rules)


def _single(line: int, value: str) -> Iterator[Found]:
    lower = value.lower()
    if lower.startswith(("http:", "https:", "//", "/http:", "/https:", "www.")):
        yield _found(
            line,
            "error",
            "domain",
            "a rule is a path on this host: leave out scheme and domain",
        )
    elif value[0] not in "/*":
        yield _found(
            line,
            "error",
            "no-slash",
            "a rule beginning with neither `/` nor `*` matches nothing",
        )
    body = value.rstrip("$")
    if "$" in body:
        cut = compile_path(value, SLURP).text
        yield _found(
            line,
            "warning",
            "dollar",
            f"{_CUTTING} ends a rule at its first `$` (and reads `{cut}`); others take "
            "that `$` for an ordinary character",
        )
    if body.endswith("*") and body == value:
        yield _found(
            line,
            "note",
            "trailing-star",
            "a trailing `*` adds nothing to what is matched, but one "
            f"to the length, except for {_UNCOUNTED}",
        )
    elif "*" in value or value.endswith("$"):
        yield _found(
            line,
            "warning",
            "wildcard",
            f"{_LITERAL} take `*` and `$` in a path for ordinary characters",
        )
    if "%" in value:
        pairs = [part[:2] for part in value.split("%")[1:]]
        if any(len(pair) < 2 or not _is_hex(pair) for pair in pairs):
            yield _found(line, "warning", "percent", "a `%` that begins no escape is written %25")
        if any(pair.lower() == "2f" for pair in pairs):
            yield _found(
                line, "note", "slash-escape", "`%2F` and `/` are two things in every dialect"
            )
    if " " in value:
        yield _found(line, "warning", "blank", "a blank within a path is written %20")


def _is_hex(text: str) -> bool:
    return all(char in "0123456789abcdefABCDEF" for char in text)


def _within_group(rules: list[_Rule]) -> Iterator[Found]:
    seen: dict[str, _Rule] = {}  # the first rule of each path
    order_matters = False
    by_path: dict[str, list[_Rule]] = {}
    for rule in rules:
        by_path.setdefault(rule.path, []).append(rule)
    allows = any(rule.allow for rule in rules)
    lengths = sorted({len(path) for path in by_path})
    wild_kinds = {rule.allow for rule in rules if rule.wild}
    kinds = {rule.allow for rule in rules}
    for rule in rules:
        same = seen.get(rule.path)
        if same is None:
            seen[rule.path] = rule
        elif same.allow == rule.allow:
            yield _found(
                rule.line, "note", "duplicate", f"the same rule stands at line {same.line}"
            )
            continue
        else:
            yield _found(
                rule.line,
                "warning",
                "contradiction",
                f"line {same.line} says the opposite of the same "
                f"path: Allow wins where the longest rule counts, the first line for {_IN_ORDER}",
            )
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
            yield _found(
                rule.line,
                "warning",
                "order",
                f"for {_IN_ORDER} line {against.line} matches all of this "
                "first, so that this rule is never reached: put it before",
            )
        elif _shadowed(rule, by_path, lengths, opposed=(not rule.allow) in wild_kinds):
            yield _shadow(rule, next(r for path in shorter for r in by_path.get(path, [])))
    if allows and not order_matters:
        first = next(rule for rule in rules if rule.allow)
        yield _found(first.line, "note", "allow", f"{_ALLOWLESS} does not know Allow")


def _shadowed(
    rule: _Rule, by_path: dict[str, list[_Rule]], lengths: list[int], *, opposed: bool
) -> bool:
    """Whether shorter rules of its kind cover `rule`, and none of the other comes between."""
    if opposed:
        return False
    kinds = [
        each.allow for n in lengths if n < len(rule.path) for each in by_path.get(rule.path[:n], [])
    ]
    return bool(kinds) and all(kind == rule.allow for kind in kinds)


def _owner(rule: _Rule, by_path: dict[str, list[_Rule]], lengths: list[int]) -> _Rule | None:
    """A plain rule that matches all that `rule`, which has wildcards, can match."""
    head = rule.path.partition("*")[0]
    head = head.removesuffix("$") if head == rule.path else head
    starts = [head[:n] for n in lengths if n <= len(head)]
    return next((by_path[start][0] for start in starts if start in by_path), None)


def _shadow(rule: _Rule, owner: _Rule) -> Found:
    return _found(rule.line, "note", "shadowed", f"line {owner.line} covers this already")
