"""A robots.txt as a table of lines: deciding lines are marked, and long files are folded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from crawler.threads import in_thread
from policies import robots
from policies.robots import Finding
from policies.robots.syntax import LineKind

LINES_READ: Final = 40_000  # of one file; real files are shorter
LINES_WHOLE: Final = 400  # files up to this length are shown in full
_AROUND: Final = 3  # lines shown before and after a marked one, in a longer file
_FIRST: Final = 60  # lines at the head of a longer file
_LINES_MAX: Final = 1_500  # shown of any file
_FINDINGS_PER_LINE: Final = 3
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The effect of a line. `kind` is its CSS class: blocked or allowed."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRow:
    """A line, or a number of `hidden` lines."""

    number: int = 0
    text: str = ""
    comment: bool = False
    ours: bool = False  # in the group that applies to the crawler
    marks: Sequence[Mark] = ()
    findings: Sequence[Finding] = ()
    hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """`name` is the prefix of the anchors of its lines: "tested-L12"."""

    name: str
    rows: Sequence[SheetRow]
    findings: Sequence[Finding] = field(default=())  # about the whole file, and about hidden lines
    cut: bool = False  # longer than LINES_READ; the rest was ignored


async def sheet(
    body: str,
    *,
    name: str,
    marks: Mapping[int, Sequence[Mark]],
    agents: Sequence[str] = (),
    dialect: Sequence[str] = (),
) -> Sheet:
    """Build the table. `agents` and `dialect`: the crawler whose group is highlighted; without
    agents, none is.

    Runs in a thread, since 500 KiB take a while; the latest results are cached."""
    hashable = tuple((line, tuple(few)) for line, few in sorted(marks.items()))
    return await in_thread(_sheet, body, name, hashable, tuple(agents), tuple(dialect))


@lru_cache(maxsize=16)  # of at most 500 KiB each
def _sheet(
    body: str,
    name: str,
    marked: tuple[tuple[int, tuple[Mark, ...]], ...],
    agents: tuple[str, ...],
    dialect: tuple[str, ...],
) -> Sheet:
    marks = dict(marked)
    pieces = _LINE_END.split(body, LINES_READ)
    cut = len(pieces) > LINES_READ
    if cut:
        body = "\n".join(pieces[:LINES_READ])
    file = robots.parse(body.encode("utf-8", "surrogateescape"))
    findings: dict[int, list[Finding]] = {}
    whole: list[Finding] = []
    for finding in robots.lint(file):
        if finding.line is None:
            whole.append(finding)
        else:
            findings.setdefault(finding.line, []).append(finding)
    ours = _ours(file, agents, dialect)
    lines = file.lines
    wanted = _wanted(len(lines), {*marks, *(line for line in findings if line in marks)})
    rows: list[SheetRow] = []
    last = 0
    for number in wanted:
        if number > last + 1:
            rows.append(SheetRow(hidden=number - last - 1))
        line = lines[number - 1]
        rows.append(
            SheetRow(
                number=number,
                text=line.text.lstrip("\ufeff").expandtabs(4),
                comment=line.kind is LineKind.COMMENT,
                ours=number in ours,
                marks=tuple(marks.get(number, ())),
                findings=tuple(findings.get(number, ()))[:_FINDINGS_PER_LINE],
            )
        )
        last = number
    if last < len(lines):
        rows.append(SheetRow(hidden=len(lines) - last))
    shown = set(wanted)
    whole += [each for line, few in findings.items() if line not in shown for each in few]
    return Sheet(name=name, rows=rows, findings=whole, cut=cut)


def _wanted(count: int, marked: set[int]) -> list[int]:
    """The numbers of the lines to show, ascending."""
    if count <= LINES_WHOLE:
        return list(range(1, count + 1))
    wanted = set(range(1, _FIRST + 1))
    for number in sorted(marked):
        if len(wanted) > _LINES_MAX:
            break
        wanted.update(range(number - _AROUND, number + _AROUND + 1))
    return sorted(number for number in wanted if 1 <= number <= count)


def _ours(file: robots.RobotsFile, agents: Sequence[str], dialect: Sequence[str]) -> set[int]:
    """The lines of the groups that apply: from each chosen User-agent line to the next group."""
    if not agents:
        return set()
    verdict = file.decide("/", agent=tuple(agents), dialect=tuple(dialect) or robots.SLURP)
    heads = set(verdict.group_lines)
    others = {line for line, _ in verdict.other_groups}
    found: set[int] = set()
    inside = False
    for line in file.lines:
        if line.number in heads:
            inside = True
        elif line.number in others:
            inside = False
        if inside and line.text.strip():
            found.add(line.number)
    return found
