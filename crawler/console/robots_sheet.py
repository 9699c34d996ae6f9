"""A robots.txt as lines: deciding lines in their context, and the rest of a long file folded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from crawler.console.filters import plain
from crawler.threads import in_thread
from policies import robots
from policies.robots import Finding
from policies.robots.syntax import LineKind

LINES_READ: Final = 40_000  # of one file; real files are shorter
LINES_WHOLE: Final = 60  # files up to this length are not folded
_AROUND: Final = 2  # lines shown before and after a marked one, in a longer file
_FIRST: Final = 12  # lines shown of a longer file without marked lines, and of our group in it
_FOLDED_MIN: Final = 4  # fewer lines than these are shown
_LINES_MAX: Final = 1_500  # shown of any file; the others are folded
_FINDINGS_PER_LINE: Final = 3
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMark:
    """The effect of a line. `kind` is its CSS class: blocked or allowed."""

    kind: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetRow:
    """A line."""

    number: int
    text: str
    comment: bool = False
    ours: bool = False  # in the group that applies to the crawler
    marks: Sequence[LineMark] = ()
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetBlock:
    """Consecutive lines: `rows`, or, if they are folded, their `numbers` and their `text`."""

    first: int
    last: int
    rows: Sequence[SheetRow] = ()
    numbers: str = ""
    text: str = ""

    @property
    def count(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A robots.txt as shown. `name`: the prefix of the anchors of marked lines: "tested-L12"."""

    name: str
    blocks: Sequence[SheetBlock]
    findings: Sequence[Finding] = field(default=())  # about the whole file, and about folded lines
    cut: bool = False  # longer than LINES_READ; the rest was ignored


async def sheet(
    body: str,
    *,
    name: str,
    marks: Mapping[int, Sequence[LineMark]],
    agents: Sequence[str] = (),
    dialect: Sequence[str] = (),
) -> Sheet:
    """Build the blocks. `agents` and `dialect`: the crawler whose group is highlighted; without
    agents, none is.

    Runs in a thread, since 500 KiB take a while; the latest results are cached."""
    hashable = tuple((line, tuple(few)) for line, few in sorted(marks.items()))
    return await in_thread(_sheet, body, name, hashable, tuple(agents), tuple(dialect))


@lru_cache(maxsize=16)  # of at most 500 KiB each
def _sheet(
    body: str,
    name: str,
    marked: tuple[tuple[int, tuple[LineMark, ...]], ...],
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
    wanted = _wanted(file, sorted(marks), sorted(ours))

    def row(number: int) -> SheetRow:
        line = file.lines[number - 1]
        return SheetRow(
            number=number,
            text=_shown(line.text),
            comment=line.kind is LineKind.COMMENT,
            ours=number in ours,
            marks=tuple(marks.get(number, ())),
            findings=tuple(findings.get(number, ()))[:_FINDINGS_PER_LINE],
        )

    blocks: list[SheetBlock] = []
    for first, last, shown in _spans(wanted, len(file.lines)):
        numbers = range(first, last + 1)
        if shown:
            blocks.append(SheetBlock(first=first, last=last, rows=[row(each) for each in numbers]))
            continue
        text = "\n".join(_shown(file.lines[each - 1].text) for each in numbers)
        blocks.append(
            SheetBlock(first=first, last=last, numbers="\n".join(map(str, numbers)), text=text)
        )
    whole += [each for line, few in findings.items() if line not in wanted for each in few]
    return Sheet(name=name, blocks=blocks, findings=whole, cut=cut)


def _shown(text: str) -> str:
    return plain(text.lstrip("\ufeff").expandtabs(4))


def _wanted(file: robots.RobotsFile, marked: Sequence[int], ours: Sequence[int]) -> set[int]:
    """The numbers of the lines to show: marked ones in their context, with the User-agent lines of
    their groups; without any, the beginnings of the file and of our group."""
    count = len(file.lines)
    if count <= LINES_WHOLE:
        return set(range(1, count + 1))
    heads = _heads(file)
    wanted: set[int] = set()
    for number in marked:
        if len(wanted) > _LINES_MAX:
            break
        wanted.update(range(number - _AROUND, number + _AROUND + 1))
        wanted.update(heads.get(number, ()))
    if not marked:
        wanted.update(range(1, _FIRST + 1))
        wanted.update(ours[:_FIRST])
    wanted &= set(range(1, count + 1))
    for before, after in zip(sorted(wanted), sorted(wanted)[1:], strict=False):
        if after - before <= _FOLDED_MIN:
            wanted.update(range(before, after))
    return wanted


def _heads(file: robots.RobotsFile) -> dict[int, Sequence[int]]:
    """The User-agent lines of the group that each line is in."""
    found: dict[int, Sequence[int]] = {}
    heads: list[int] = []
    open_ = False  # the last line that counts was a User-agent line
    for line in file.lines:
        if line.kind is LineKind.AGENT:
            heads = [*heads, line.number] if open_ else [line.number]
            open_ = True
        elif line.kind not in (LineKind.BLANK, LineKind.COMMENT):
            open_ = False
        found[line.number] = heads
    return found


def _spans(wanted: set[int], count: int) -> list[tuple[int, int, bool]]:
    """The lines as runs of those that are shown and those that are not: first, last, shown."""
    spans: list[tuple[int, int, bool]] = []
    for number in range(1, count + 1):
        shown = number in wanted
        if spans and spans[-1][2] is shown:
            spans[-1] = (spans[-1][0], number, shown)
        else:
            spans.append((number, number, shown))
    return spans


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
