"""Pages of queued, failed and visited URLs and of seeds, the newest first.

URLs are looked through in the order of their ids, a bounded number of them for a page. So with a
rare filter, a page may have few rows, or none, although another one follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from storage.columns import SEED_COLUMNS, VIEWS
from storage.engine.link_table import OUT, SITEMAP
from storage.engine.page_queries import contains, origins_of
from storage.engine.statements import Parameter, Statements, Values
from storage.paging import ascii_lower, check_limit, findable, mark, url_place
from storage.read_records import Row, RowPage, UrlFilter, UrlList
from storage.row_values import number
from storage.url_records import UrlState

LOOKED_THROUGH_MAX: Final = 10_000  # URLs, for one page
FAILURES_COUNTED_MAX: Final = 200_000
_AT_ONCE: Final = 500
_LARGEST: Final = 2**63 - 1
# The index of each origin's queue is read, some 0.2 s for a million URLs; the URLs are not.
_QUEUE: Final = " UNION ALL ".join(
    "SELECT u.id AS id FROM origins AS o CROSS JOIN urls AS u"  # noqa: S608 - constants
    f" WHERE {{origins}} AND u.origin = o.id AND u.state = 0 AND u.due_at {due} AND u.id < :before"
    for due in ("IS NULL", "IS NOT NULL")
)
_IDS: Final = {
    UrlList.QUEUED: f"SELECT id FROM ({_QUEUE}) AS q ORDER BY id DESC LIMIT :limit",  # noqa: S608
    UrlList.FAILED: "SELECT id FROM failures WHERE id < :before ORDER BY id DESC LIMIT :limit",
    UrlList.VISITED: "SELECT id FROM pages WHERE id < :before ORDER BY id DESC LIMIT :limit",
}


def urls_page(sql: Statements, wanted: UrlFilter, *, limit: int = 100, after: str = "") -> RowPage:
    """Return some rows of the view `wanted.state`, those found last first. A page may have
    fewer than `limit` rows, even none, although another follows: only some thousands of URLs
    are looked through for each. Raises ValueError as `hosts_page`."""
    check_limit(limit)
    before = url_place(after, wanted.state) if after else _LARGEST
    conditions, values = _conditions(wanted)
    columns = VIEWS[wanted.state]
    query = (
        f"SELECT {', '.join(columns)}, id FROM {wanted.state}"  # noqa: S608 - constants
        f" WHERE {' AND '.join(('id IN :ids', *conditions))}"
    )
    # Only the queue can be asked for the URLs of a host; those of other lists are among all of it.
    every_id_counts = not conditions and (wanted.host is None or wanted.state == UrlList.QUEUED)
    looked_through = limit + 1 if every_id_counts else LOOKED_THROUGH_MAX
    ids = _ids(sql, wanted, before, looked_through)
    found: list[Values] = []
    for start in range(0, len(ids), _AT_ONCE):
        rows = sql.select(query, {**values, "ids": ids[start : start + _AT_ONCE]})
        found += sorted(rows, key=_id_of, reverse=True)
        if len(found) > limit:
            return _page(columns, found[:limit], wanted.state, _id_of(found[limit - 1]))
    end = ids[-1] if len(ids) == looked_through else None
    return _page(columns, found, wanted.state, end)


def _ids(sql: Statements, wanted: UrlFilter, before: int, limit: int) -> list[int]:
    """Ids of URLs that may be wanted, the largest first."""
    if wanted.host is not None and wanted.state != UrlList.QUEUED:
        known = sql.read(list[int], "ids_of_host", findable(wanted.host))
        return sorted((key for key in known if key < before), reverse=True)[:limit]
    values: dict[str, Parameter] = {"before": before, "limit": limit}
    origins = "o.queued > 0"
    if wanted.host is not None:
        origins = "o.id IN :origins"
        values["origins"] = origins_of(sql, findable(wanted.host))
    query = _IDS[wanted.state].replace("{origins}", origins)
    return [_int(key) for (key,) in sql.select(query, values)]


def _conditions(wanted: UrlFilter) -> tuple[list[str], dict[str, Parameter]]:
    conditions: list[str] = []
    values: dict[str, Parameter] = {}
    if wanted.text:
        conditions.append(contains("lower(url)", "text"))
        values["text"] = findable(ascii_lower(wanted.text))
    if wanted.state == UrlList.FAILED and wanted.code:
        start = findable(f"{wanted.code}:")
        conditions.append(f"substr(error, 1, {len(start)}) = :code")
        values["code"] = start
    if wanted.state == UrlList.VISITED and wanted.status is not None:
        conditions.append("status = :status")
        values["status"] = wanted.status
    return conditions, values


def _page(columns: Sequence[str], found: Sequence[Values], kind: str, end: int | None) -> RowPage:
    rows = [dict(zip(columns, row, strict=False)) for row in found]
    return RowPage(rows=rows, after=None if end is None else mark(kind, (end, 0)))


def failures_by_code(sql: Statements) -> dict[str, int]:
    """Count the failed URLs by their failure code, the most frequent first; of more than
    200,000, those found last."""
    rows = sql.select(
        "SELECT t.text, q.urls FROM (SELECT f.error, count(*) AS urls FROM"
        " (SELECT error FROM failures ORDER BY id DESC LIMIT :limit) AS f GROUP BY f.error) AS q"
        " JOIN texts AS t ON t.id = q.error",
        {"limit": FAILURES_COUNTED_MAX},
    )
    codes: Counter[str] = Counter()
    for text, urls in rows:
        codes[str(text).partition(":")[0]] += _int(urls)
    return dict(sorted(codes.items(), key=lambda one: (-one[1], one[0])))


_SEEDS: Final = (
    "SELECT s.id, o.name || u.path, u.state, u.flags, k.status, t.text, u.depth, u.priority"
    " FROM (SELECT id FROM seeds WHERE id < :before ORDER BY id DESC LIMIT :limit) AS s"
    " JOIN urls AS u ON u.id = s.id JOIN origins AS o ON o.id = u.origin"
    " LEFT JOIN pages AS p ON p.id = s.id LEFT JOIN kinds AS k ON k.id = p.kind"
    " LEFT JOIN failures AS f ON f.id = s.id LEFT JOIN tries AS a ON a.id = s.id"
    " LEFT JOIN texts AS t ON t.id = coalesce(f.error, a.error) ORDER BY s.id DESC"
)
_STATES: Final = {
    UrlState.QUEUED: "queued",
    UrlState.VISITED: "visited",
    UrlState.BLOCKED: "blocked",
    UrlState.FAILED: "failed",
}


def seeds_page(
    sql: Statements, *, text: str = "", state: str = "", limit: int = 100, after: str = ""
) -> RowPage:
    """Return some seeds with the columns `storage.columns.SEED_COLUMNS`, those added last
    first; otherwise as `urls_page`. `state`: a view, or `sitemap` or `skipped` (out of
    scope)."""
    check_limit(limit)
    before = url_place(after, "seeds") if after else _LARGEST
    looked_through = LOOKED_THROUGH_MAX if text or state else limit + 1
    needle, last = ascii_lower(text), None
    rows: list[Row] = []
    found = sql.select(_SEEDS, {"before": before, "limit": looked_through})
    for key, url, state_number, flags, status, error, *rest in found:
        name = _seed_state(_int(state_number), _int(flags))
        if state in ("", name) and needle in ascii_lower(str(url)):
            if len(rows) == limit:
                break
            rows.append(dict(zip(SEED_COLUMNS, (url, name, status, error, *rest), strict=True)))
        last = _int(key)
    else:
        last = last if len(found) == looked_through else None
    return RowPage(rows=rows, after=None if last is None else mark("seeds", (last, 0)))


def _seed_state(number: int, flags: int) -> str:
    if number == OUT:
        return "sitemap" if flags & SITEMAP else "skipped"
    return _STATES[UrlState(number)]


def _id_of(row: Values) -> int:
    return _int(row[-1])


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


# Some URLs of an origin, chosen by their fingerprints: as good as at random.
_SAMPLE: Final = (
    "SELECT u.path, u.state FROM urls AS u WHERE u.id IN (SELECT k.id FROM known AS k"
    " WHERE k.origin = :origin AND k.id > 0 ORDER BY k.fingerprint LIMIT :limit)"
)


def sampled_urls(sql: Statements, origin: str, *, limit: int = 200) -> list[str]:
    """Return the queued and visited ones among up to `limit` URLs of an origin, in no order
    that has a meaning. Raises ValueError for an invalid limit."""
    check_limit(limit)
    name = findable(origin)
    found = sql.select("SELECT id FROM origins WHERE name = :name", {"name": name})
    if not found:
        return []
    rows = sql.select(_SAMPLE, {"origin": found[0][0], "limit": limit})
    return [f"{name}{path}" for path, state in rows if isinstance(path, str) and state in (0, 1)]


ORIGINS_MAX: Final = 32  # of one host; another order than theirs is rare
_NEXT_COLUMNS: Final = (
    "id", "url", "priority", "depth", "due_at", "attempts", "error", "sitemap", "turn",
)  # fmt: skip
_WITH_WORK: Final = (
    "SELECT id FROM origins WHERE id IN :origins AND queued > 0 ORDER BY id LIMIT :most"
)
_DUE: Final = (
    "SELECT u.id FROM urls AS u WHERE u.origin = :origin AND u.state = 0 AND u.due_at IS NULL"
    " ORDER BY u.priority DESC, u.turn, u.depth, u.id LIMIT :limit"
)
_WAITING: Final = (
    "SELECT u.id FROM urls AS u WHERE u.origin = :origin AND u.state = 0 AND u.due_at IS NOT NULL"
    " ORDER BY u.due_at LIMIT :limit"
)
_ROWS: Final = (
    f"SELECT u.id, o.name || u.path, u.priority, u.depth, u.due_at - (SELECT shift_s FROM crawl),"  # noqa: S608 - constants
    f" coalesce(t.attempts, 0), e.text, u.flags & {SITEMAP}, u.turn"
    " FROM urls AS u JOIN origins AS o ON o.id = u.origin"
    " LEFT JOIN tries AS t ON t.id = u.id LEFT JOIN texts AS e ON e.id = t.error"
    " WHERE u.id IN :ids AND u.state = 0"
)


def next_urls(sql: Statements, host: str, *, limit: int = 20, now_s: float) -> list[Row]:
    """Return queued URLs of a host in the order in which they would be leased: those that are
    due at `now_s` (Unix seconds) by priority, then the others by `due_at`.

    Each row has `id`, `url`, `priority`, `depth`, `due_at` (Unix seconds; None: now),
    `attempts`, `error` (of the last one, or None), and `sitemap` (whether it is one). Of a host
    with very many origins, some are left out. Raises ValueError for an invalid limit.
    """
    check_limit(limit)
    among: dict[str, Parameter] = {"origins": origins_of(sql, findable(host)), "most": ORIGINS_MAX}
    ids: list[int] = []
    for (origin,) in sql.select(_WITH_WORK, among):
        for query in (_DUE, _WAITING):
            found = sql.select(query, {"origin": origin, "limit": limit})
            ids += [key for (key,) in found if isinstance(key, int)]
    rows = [dict(zip(_NEXT_COLUMNS, row, strict=True)) for row in sql.select(_ROWS, {"ids": ids})]
    for row in rows:
        row["sitemap"] = bool(row["sitemap"])
    rows.sort(key=lambda row: _order(row, now_s))
    for row in rows:
        del row["turn"]
    return list(rows[:limit])


def _order(row: Row, now_s: float) -> tuple[float, ...]:
    """URLs that are due by priority, then the others by the time at which they are."""
    due_at = number(row["due_at"])
    best = (-number(row["priority"]), number(row["turn"]), number(row["depth"]))
    return (max(0.0, due_at - now_s), *best, number(row["id"]))
