"""What changed between two versions of a robots.txt, as a unified diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

CONTEXT: Final = 3  # lines around each change
# Lines of each version from the first to the last change, and pairs of equal lines among them: a
# comparison may look at all pairs once for each changed line, in half a second at the very most.
COMPARED_MAX: Final = 2_000
PAIRS_MAX: Final = 3 * COMPARED_MAX
SHOWN_MAX: Final = 1_000  # lines of a diff


class RobotsDiff(Struct, frozen=True, kw_only=True):
    """A diff. text: in the unified format, without file names. added, removed: lines. ordered: if
    not, the versions were too different to be compared line by line; the diff has the lines that
    only one of them has, and lines that were only moved are missing. cut: it has further lines."""

    text: str
    added: int
    removed: int
    ordered: bool
    cut: bool


def robots_diff(before: Sequence[str], after: Sequence[str]) -> RobotsDiff | None:
    """Compare two versions, given as lines; None if they are equal."""
    if list(before) == list(after):
        return None
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    ours, theirs = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(ours), len(theirs)) > COMPARED_MAX or _pairs(ours, theirs) > PAIRS_MAX:
        return _unordered(before, after)
    # The context is given back, and no more: everything else is equal.
    lead, trail = min(start, CONTEXT), min(end, CONTEXT)
    first = start - lead
    old = before[first : len(before) - end + trail]
    new = after[first : len(after) - end + trail]
    lines: list[str] = []
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        lines.append(
            f"@@ -{_range(first + group[0][1], first + group[-1][2])}"
            f" +{_range(first + group[0][3], first + group[-1][4])} @@"
        )
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[old_from:old_to]]
                continue
            lines += [f"-{line}" for line in old[old_from:old_to]]
            lines += [f"+{line}" for line in new[new_from:new_to]]
    return _diff(lines, ordered=True)


def _unordered(before: Sequence[str], after: Sequence[str]) -> RobotsDiff:
    old, new = Counter(before), Counter(after)
    lines = [f"-{line}" for line in (old - new).elements()]
    lines += [f"+{line}" for line in (new - old).elements()]
    return _diff(lines, ordered=False)


def _diff(lines: Sequence[str], *, ordered: bool) -> RobotsDiff:
    return RobotsDiff(
        text="\n".join(lines[:SHOWN_MAX]),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        ordered=ordered,
        cut=len(lines) > SHOWN_MAX,
    )


def _pairs(one: Sequence[str], other: Sequence[str]) -> int:
    """The pairs of equal lines that SequenceMatcher looks at: it ignores lines that make up more
    than 1 % of at least 200."""
    counts = Counter(other)
    if len(other) >= 200:
        popular = len(other) // 100 + 1
        counts = Counter({line: count for line, count in counts.items() if count <= popular})
    return sum(counts[line] for line in one)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines are equal at the beginning."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _range(start: int, stop: int) -> str:
    """Lines as in the unified format: numbered from 1; an empty range names the line before."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"
