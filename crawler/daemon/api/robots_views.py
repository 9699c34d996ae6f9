"""What robots.txt files say, and which URLs they block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawler.daemon.api.robots_diff import RobotsDiff, robots_diff
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
