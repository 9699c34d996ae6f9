"""What robots.txt files say, and which URLs they block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

from crawler.daemon.problem import Problem, as_problems, invalid
from crawler.daemon.responses import from_row, from_rows
from crawler.daemon.robots_responses import (
    BlockedPage,
    BlockedRow,
    BlockedRule,
    BlockedRules,
    RobotsChange,
    RobotsCopy,
    RobotsLine,
)
from crawler.steering.control import Control
from crawler.steering.execution import stored_name
from crawler.threads import in_thread
from policies import robots as robots_txt
from policies.url import canonical, host_of, origin_of, without_userinfo
from storage.columns import robots_state
from storage.paging import ROWS_MAX
from storage.reader import Reader
from storage.store import BlockReason

LIMIT_DEFAULT = 100  # rows of a page
SAMPLED = 200  # URLs of an origin that are judged again, to find out which lines allow URLs
CONTEXT: Final = 3  # lines around each change
# Lines of each version from the first to the last change, and pairs of equal lines among them: a
# comparison may look at all pairs once for each changed line, in half a second at the very most.
COMPARED_MAX: Final = 2_000
PAIRS_MAX: Final = 3 * COMPARED_MAX
SHOWN_MAX: Final = 1_000  # lines of a diff


class RobotsViews:
    """Reads what a crawl knows of robots.txt files."""

    def __init__(self, control: Control, reader: Reader) -> None:
        self._control = control
        self._reader = reader

    async def blocked(
        self,
        *,
        host: str = "",
        rule: str = "",
        exact: bool = False,
        reason: str = "",
        limit: int = LIMIT_DEFAULT,
        after: str = "",
    ) -> BlockedPage:
        """A page of blocked URLs: of one host, for one reason (a BlockReason), and by rules that
        contain a string, case ignored, or (`exact`) by exactly this rule. Raises Problem."""
        name = await self._checked(host, reason, limit)
        try:
            page = await self._reader.blocked_page(
                host=name, rule=rule, exact=exact, reason=reason, limit=limit, after=after
            )
        except ValueError as error:
            raise Problem(422, str(error), field="after") from None
        return BlockedPage(blocked=from_rows(BlockedRow, list(page.rows)), after=page.after)

    async def blocked_rules(
        self,
        *,
        host: str = "",
        rule: str = "",
        exact: bool = False,
        reason: str = "",
        limit: int = LIMIT_DEFAULT,
    ) -> BlockedRules:
        """Blocked URLs counted by host, reason and rule. Filters as of `blocked`. Raises
        Problem."""
        name = await self._checked(host, reason, limit)
        found = await self._reader.blocked_groups(
            host=name, rule=rule, exact=exact, reason=reason, limit=limit
        )
        return BlockedRules(
            rules=[from_row(BlockedRule, row) for row in found.rows],
            more=found.more,
            complete=found.complete,
        )

    async def _checked(self, host: str, reason: str, limit: int) -> str | None:
        """The name of the host, if there is one. Raises Problem."""
        if not 1 <= limit <= ROWS_MAX:
            raise invalid("limit", f"must be a whole number from 1 to {ROWS_MAX}")
        if reason and reason not in tuple(BlockReason):
            raise invalid("reason", f"must be one of {', '.join(BlockReason)}")
        if not host:
            return None
        with as_problems():
            return await stored_name(self._reader, host)

    async def robots(self, origin: str) -> RobotsCopy:
        """The robots.txt stored for an origin ("https://example.com"), line by line."""
        url = canonical(origin)
        if url is None:
            raise invalid("origin", "must be an origin such as https://example.com")
        name = origin_of(url)
        copy = await self._reader.robots_copy(name)
        if copy is None:
            raise Problem(404, f"{name}/robots.txt is unknown", field="origin")
        counts = await self._reader.blocked_lines(name)
        before = await self._reader.robots_before(name)
        sample = await self._reader.sampled_urls(name, limit=SAMPLED) if copy.body else ()
        rules, tokens = self._control.config.robots_of(host_of(url))

        def read() -> tuple[list[RobotsLine], RobotsDiff | None]:
            file = robots_txt.parse(copy.body or b"")
            allowed = _allowing(file, sample, tokens, rules.dialect)
            lines = [
                RobotsLine(
                    line=each.number,
                    text=without_userinfo(each.text),
                    blocked=counts.get(each.number, 0),
                    allowed=allowed[each.number],
                )
                for each in (file.lines if copy.body is not None else ())
            ]
            if before is None:
                return lines, None
            old = [without_userinfo(each.text) for each in robots_txt.parse(before.body).lines]
            return lines, robots_diff(old, [line.text for line in lines])

        lines, diff = await in_thread(read)
        change = None
        if diff is not None and before is not None:
            change = RobotsChange(
                changed_at=before.replaced_at,
                copy_at=before.copy_at,
                diff=diff.text,
                added=diff.added,
                removed=diff.removed,
                ordered=diff.ordered,
                cut=diff.cut,
            )
        return RobotsCopy(
            origin=name,
            state=robots_state(copy),
            status=copy.status,
            lines=lines,
            fetched_at=copy.fetched_at,
            truncated=copy.truncated,
            sampled=len(sample),
            change=change,
        )


def _allowing(
    file: robots_txt.RobotsFile,
    urls: Sequence[str],
    tokens: Sequence[str],
    dialect: Sequence[str],
) -> Counter[int]:
    """How many of these URLs each line allows."""
    found = Counter[int]()
    for url in urls:
        verdict = file.decide(url, agent=tokens, dialect=dialect)
        if verdict.allowed and verdict.line is not None:
            found[verdict.line] += 1
    return found


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
