"""Changes of the state of URLs, collected and written in a few statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from storage.engine.counters import (
    BLOCKED,
    BODY_BYTES,
    FAILED,
    JUDGED,
    QUEUED,
    UNGOVERNED,
    VISITED,
    CounterChanges,
)
from storage.engine.link_table import FETCHED, OUT, SEED, SITEMAP, SUSPECT, TRIED, hops_of
from storage.engine.name_ids import NameIds, PageKind, VerdictKey
from storage.engine.recrawl_plans import plan_row
from storage.engine.statements import Statements, Values
from storage.records import WAIT_S_MAX
from storage.url_records import (
    Blocked,
    BlockReason,
    Failed,
    Plan,
    Rel,
    Retry,
    SitemapRead,
    UrlState,
    Visited,
)


class UrlRow(NamedTuple):
    """A URL, its state, and what its state depends on."""

    id: int
    origin: int
    slot: int | None
    slot_name: str | None
    state: int
    flags: int
    body_bytes: int
    ungoverned: int
    judged: int
    withdrawn: int
    planned: int  # a sitemap that was read, and has a plan

    @property
    def fetched(self) -> bool:
        """Whether it was visited before it was queued."""
        return bool(self.flags & FETCHED)


_COUNTED = {
    UrlState.QUEUED: QUEUED,
    UrlState.VISITED: VISITED,
    UrlState.BLOCKED: BLOCKED,
    UrlState.FAILED: FAILED,
}


_RELS = {rel: place for place, rel in enumerate(Rel, start=1)}


def _signed(digits: str) -> int:
    """Convert 16 hexadecimal digits to a signed integer."""
    return int.from_bytes(bytes.fromhex(digits), signed=True)


def url_rows(sql: Statements, ids: Iterable[int]) -> dict[int, UrlRow]:
    """Return URLs by id; they are not changed by other sessions until the transaction ends."""
    rows: list[Values] = [(key,) for key in dict.fromkeys(ids)]
    if sql.shared:
        sql.many("lock_urls", rows)
    return {row.id: row for row in sql.read_many(list[UrlRow], "url_states", rows)}


class UrlChanges:
    """The changes of one transaction. `write` may be called more than once."""

    def __init__(self, sql: Statements, names: NameIds, tally: CounterChanges) -> None:
        self._sql = sql
        self._names = names
        self._tally = tally
        self._rows: dict[str, list[Values]] = {}
        self.replanned: set[int | None] = set()  # hosts whose plans changed
        self._texts: list[str] = []

    # Deletes before inserts: a URL may leave a table and return to it in one transaction.
    _ORDER = (
        "drop_tries", "drop_pages", "drop_plans", "drop_edges", "drop_hrefs", "drop_pointers",
        "drop_elements", "drop_ungoverned", "drop_redirects", "drop_blocks", "drop_failures",
        "move_urls", "put_tries", "new_pages", "new_edges", "new_hrefs", "new_pointers",
        "new_elements", "new_ungoverned", "put_redirects", "new_blocks", "new_failures",
        "put_readings", "put_plans", "new_seeds",
    )  # fmt: skip

    def write(self) -> None:
        for name in self._ORDER:
            rows = self._rows.pop(name, None)
            if rows is not None:
                self._sql.many(name, rows)
        if self.replanned:
            slots: list[Values] = [(slot,) for slot in self.replanned if slot is not None]
            self._sql.many("settle_revisits", slots)
            self.replanned.clear()

    def _put(self, name: str, *values: str | bytes | float | None) -> None:
        self._rows.setdefault(name, []).append(values)

    def _leave(self, row: UrlRow, *, keep_redirect: bool = False) -> None:
        """Remove a URL from its state; the caller sets the new one."""
        if row.state == OUT:
            if row.planned:
                self._put("drop_plans", row.id)
                self.replanned.add(row.slot)
            return
        count = self._tally.count
        count(row.origin, row.slot, _COUNTED[UrlState(row.state)], -1)
        if row.state == UrlState.QUEUED:
            if row.flags & TRIED:
                self._put("drop_tries", row.id)
            return
        if row.state == UrlState.FAILED:
            self._put("drop_failures", row.id)
            return
        if not keep_redirect:
            self._put("drop_redirects", row.id)
        if row.state == UrlState.VISITED:
            count(row.origin, row.slot, BODY_BYTES, -row.body_bytes)
            self._put("drop_pages", row.id)
            for name in ("drop_edges", "drop_hrefs", "drop_pointers", "drop_elements"):
                self._put(name, row.id)
            self._put("drop_plans", row.id)
            self.replanned.add(row.slot)
            if row.ungoverned:
                self.govern(row)
        else:
            self._put("drop_blocks", row.origin, row.id)
            if row.judged:
                count(row.origin, row.slot, JUDGED, -1)

    def _enter(self, row: UrlRow, state: UrlState, *, flags: int | None = None) -> None:
        flags = row.flags & ~(TRIED | SUSPECT) if flags is None else flags
        self._put("move_urls", row.id, int(state), 0, None, flags)
        self._tally.count(row.origin, row.slot, _COUNTED[state], 1)

    def govern(self, row: UrlRow) -> None:
        """Remove the `ungoverned` mark of a page."""
        self._put("drop_ungoverned", row.origin, row.id)
        self._tally.count(row.origin, row.slot, UNGOVERNED, -1)

    def visited(self, row: UrlRow, page: Visited, ids: Mapping[str, int]) -> None:
        """Change a URL to visited. `ids`: of the URLs that the page refers to."""
        self._leave(row)
        self._enter(row, UrlState.VISITED)
        self._tally.count(row.origin, row.slot, BODY_BYTES, page.body_bytes)
        self._put(
            "new_pages", row.id, self._names.kind(PageKind.of(page)), round(page.fetched_at * 1e3),
            page.body_bytes, round(page.elapsed_s * 1e6), page.title,
            None if page.canonical_url is None else ids[page.canonical_url],
            None if page.body_hash is None else _signed(page.body_hash),
        )  # fmt: skip
        for link in page.outlinks:
            rel = None if link.rel is None else _RELS[link.rel]
            self._put("new_edges", row.id, ids[link.url], link.anchor, rel)
        for place, bad in enumerate(page.malformed):
            self._put("new_hrefs", row.id, place, bad.href, bad.reason)
        for place, to in enumerate(page.pointers):
            self._put("new_pointers", row.id, place, ids[to.url], to.fragment, to.decoded)
        for name in page.elements:
            self._put("new_elements", row.id, name)
        if page.ungoverned:
            self._put("new_ungoverned", row.origin, row.id)
            self._tally.count(row.origin, row.slot, UNGOVERNED, 1)
        if page.redirect_url is not None:
            self._put("put_redirects", row.id, ids[page.redirect_url])
        elif hops_of(row.flags) and row.flags & SEED:
            self._put("new_seeds", row.id)

    def cleared(self, row: UrlRow) -> None:
        """Remove the mark of a suspect from a visited URL."""
        self._put("move_urls", row.id, row.state, 0, None, row.flags & ~SUSPECT)

    def plan(self, row: UrlRow, plan: Plan | None, now_s: float) -> None:
        """Store or remove a recrawl plan."""
        self.replanned.add(row.slot)
        if plan is None:
            self._put("drop_plans", row.id)
        else:
            self._put("put_plans", *plan_row(row.id, row.slot or 0, plan, now_s))

    def read(self, row: UrlRow, read: SitemapRead, texts: Mapping[str, int], now_s: float) -> None:
        """Move a sitemap out of the queue."""
        self._leave(row)
        if read.plan is not None:
            self.plan(row, read.plan, now_s)
        self._put("move_urls", row.id, OUT, 0, None, (row.flags & ~(TRIED | SUSPECT)) | SITEMAP)
        self._put(
            "put_readings", row.id, read.kind, read.status, round(read.fetched_at * 1e3),
            read.body_bytes, read.urls, None if read.error is None else texts[read.error],
        )  # fmt: skip

    def blocked(self, row: UrlRow, block: Blocked, *, withdrawn: bool) -> None:
        verdict = VerdictKey.of(block, self._names.body_of(row.origin))
        self._leave(row)
        self._enter(row, UrlState.BLOCKED)
        self._block(row, verdict, block.blocked_at, withdrawn=withdrawn)

    def _block(self, row: UrlRow, verdict: VerdictKey, at: float, *, withdrawn: bool) -> None:
        judged = verdict.reason != BlockReason.REDIRECT
        key = self._names.verdict(verdict)
        self._put("new_blocks", row.origin, row.id, key, judged, at, withdrawn)
        if judged:
            self._tally.count(row.origin, row.slot, JUDGED, 1)

    def failed(self, row: UrlRow, failure: Failed, texts: Mapping[str, int]) -> None:
        self._leave(row)
        self._enter(row, UrlState.FAILED)
        self._put("new_failures", row.id, texts[failure.error], failure.attempts, failure.last_at)

    def retry(
        self, row: UrlRow, retry: Retry, texts: Mapping[str, int], *, turn: int, now_s: float
    ) -> None:
        due_at = now_s + min(retry.due_in_s, WAIT_S_MAX) if retry.due_in_s > 0 else None
        self._put("move_urls", row.id, int(UrlState.QUEUED), turn, due_at, row.flags | TRIED)
        self._put("put_tries", row.id, retry.attempts, retry.refusals, texts[retry.error])

    def dropped(self, row: UrlRow, texts: Mapping[str, int], reason: str) -> None:
        """Move a URL out of all views. The reason is stored like the last error of a queued URL."""
        self._leave(row._replace(flags=row.flags & ~TRIED))
        self._put("move_urls", row.id, OUT, 0, None, row.flags | TRIED)
        self._put("put_tries", row.id, 0, 0, texts[reason])

    def requeued(self, row: UrlRow) -> None:
        """Queue a URL again as if it were new."""
        fetched = row.state == UrlState.VISITED or (
            row.state == UrlState.BLOCKED and (row.withdrawn or not row.judged)
        )
        self._leave(row)
        flags = (row.flags & ~TRIED) | (FETCHED if fetched else 0)
        self._enter(row, UrlState.QUEUED, flags=flags)
        self._tally.arrived(row.slot or 0, row.slot_name or "", 1)

    def follow(self, row: UrlRow, verdict: VerdictKey, at: float, *, withdrawn: bool) -> None:
        """Block a page because of the URL it redirects to."""
        self._leave(row, keep_redirect=True)
        self._enter(row, UrlState.BLOCKED)
        self._block(row, verdict, at, withdrawn=withdrawn)
