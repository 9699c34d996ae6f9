"""Redirects to a blocked URL are blocked with it, and freed with it, through any chain.

Hundreds of thousands may lead to one URL, so they are processed some at a time; the rest waits in a
table, for the transactions that follow or for the next session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from storage.engine.name_ids import VerdictKey
from storage.engine.statements import Statements, Values
from storage.engine.url_changes import UrlChanges, UrlRow, url_rows
from storage.url_records import UrlState

URLS_AT_ONCE: Final = 2_000  # in one transaction: some 50 ms
_ROOTS_AT_ONCE: Final = 100
_Root = tuple[int, int]  # a URL, and the last processed id of those that redirect to it


class _Block(NamedTuple):
    """A stored verdict on a URL."""

    id: int
    withdrawn: int
    reason: str
    dialect: str
    rule: str | None
    line: int | None
    robots_url: str
    body: int | None


class Chains:
    """Blocks and frees redirects with the URL they lead to. For the store's thread only."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._left: bool | None = None

    @property
    def left(self) -> bool:
        """Whether redirects are waiting: call `proceed` in another transaction."""
        if self._left is None:
            self._left = bool(self._sql.read(list[_Root], "some_chains", 1))
        return self._left

    def arrived(self, targets: Mapping[int, int], changes: UrlChanges, wall_s: float) -> list[int]:
        """Block new pages (keys of `targets`) that redirect to a blocked URL; return them."""
        blocks = self._blocks(dict.fromkeys(targets.values()))
        if not blocks:
            return []
        blocked: list[int] = []
        for row in url_rows(self._sql, targets).values():
            block = blocks.get(targets[row.id])
            if block is not None and row.state == UrlState.VISITED:
                _block(changes, row, block, wall_s)
                blocked.append(row.id)
        changes.write()
        return blocked

    def settle(self, roots: Iterable[int], changes: UrlChanges, wall_s: float) -> None:
        """Process what redirects to URLs that were blocked or freed, through any chain. All changes
        must have been written."""
        self._follow([(root, 0) for root in self._redirect_targets(roots)], changes, wall_s)

    def proceed(self, changes: UrlChanges, wall_s: float) -> None:
        """Process some of the waiting redirects."""
        roots = self._sql.read(list[_Root], "some_chains", _ROOTS_AT_ONCE)
        self._sql.many("drop_chains", [(root,) for root, _ in roots])
        self._left = None
        self._follow(roots, changes, wall_s)

    def _follow(self, roots: Sequence[_Root], changes: UrlChanges, wall_s: float) -> None:
        room, todo = URLS_AT_ONCE, list(reversed(roots))
        while todo and room:
            root, after = todo.pop()
            some = self._sql.read(list[int], "leading_to", root, after, room)
            if not some:
                continue
            if len(some) == room:
                todo.append((root, some[-1]))
            room -= len(some)
            changed = self._treat(root, some, changes, wall_s)
            changes.write()
            todo += [(one, 0) for one in self._redirect_targets(changed)]
        if todo:
            self._sql.many("put_chains", list(todo))
            self._left = True

    def _treat(
        self, root: int, sources: Sequence[int], changes: UrlChanges, wall_s: float
    ) -> list[int]:
        """Apply the present state of the root to URLs; return those that changed."""
        block = self._blocks([root]).get(root)
        changed: list[int] = []
        for row in url_rows(self._sql, sources).values():
            if block is not None and row.state == UrlState.VISITED:
                _block(changes, row, block, wall_s)
            elif block is None and row.state == UrlState.BLOCKED and not row.judged:
                changes.requeued(row)
            else:
                continue
            changed.append(row.id)
        return changed

    def _redirect_targets(self, urls: Iterable[int]) -> list[int]:
        """Return the URLs that anything redirects to."""
        rows: list[Values] = [(key,) for key in dict.fromkeys(urls)]
        return self._sql.read_many(list[int], "redirect_targets", rows)

    def _blocks(self, urls: Iterable[int]) -> dict[int, _Block]:
        rows: list[Values] = [(key,) for key in urls]
        return {one.id: one for one in self._sql.read_many(list[_Block], "verdicts_of", rows)}


def _block(changes: UrlChanges, row: UrlRow, block: _Block, wall_s: float) -> None:
    verdict = VerdictKey(*block[2:]).for_redirect()
    changes.follow(row, verdict, wall_s, withdrawn=bool(block.withdrawn))
