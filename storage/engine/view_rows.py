"""Rows of the views, a few hundred at a time by key. No transaction is open in between, so a reader
that pauses (a pager, a slow pipe) keeps no old rows, and no write-ahead log, from being removed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from storage.columns import VIEWS
from storage.engine.page_queries import origins_of
from storage.engine.statements import Parameter, Statements, Value
from storage.read_records import Row

ROWS_AT_ONCE: Final = 500
_IDS_AT_ONCE: Final = 500
# The sort keys of the views: unique, and indexed.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "hosts": ("host",),
    "robots": ("origin",),
    "skipped": ("reason",),
    "links": ("id", "target_id"),
    "malformed": ("id", "place"),
    "fragments": ("id", "place"),
}
_TEXT_KEYS: Final = frozenset({"host", "origin", "reason"})


class ViewRows:
    """The rows of a view in their order, of one host or of all. For the reader's thread."""

    def __init__(self, view: str, host: str | None) -> None:
        """Names come from VIEWS, never from outside."""
        self._columns = VIEWS[view]
        self._keys = _KEYS.get(view, ("id",))
        self._view = view
        self._host = host
        self._last: Sequence[Value] | None = None  # the key of the last row
        self._ids: array[int] | None = None  # of the host's URLs, those not read yet last
        self._done = False

    def read(self, sql: Statements, limit: int) -> list[Row]:
        """The next rows, at most `limit`; none at the end. Can be repeated after an exception."""
        if self._host is not None and self._ids is None and self._is_of_urls:
            found = sql.read(list[int], "ids_of_host", self._host)
            self._ids = array("q", sorted(found, reverse=True))
        rows: list[Row] = []
        while not rows and not self._done:
            rows = self._some(sql, limit)
        return rows

    @property
    def _is_of_urls(self) -> bool:
        return self._keys[0] == "id"

    def _some(self, sql: Statements, limit: int) -> list[Row]:
        ids = None if self._ids is None else self._ids[-_IDS_AT_ONCE:]
        query, values = self._query(sql, ids, limit)
        found = sql.select(query, values)
        if found:
            self._last = found[-1][len(self._columns) :]
        if len(found) < limit:
            if self._ids:
                del self._ids[-_IDS_AT_ONCE:]
            self._done = not self._ids
        return [dict(zip(self._columns, row, strict=False)) for row in found]

    def _query(
        self, sql: Statements, ids: Sequence[int] | None, limit: int
    ) -> tuple[str, dict[str, Parameter]]:
        values: dict[str, Parameter] = {"limit": limit}
        conditions = ["TRUE"]
        if ids is not None:
            conditions.append("id IN :ids")
            values["ids"] = ids
        elif self._host is not None and self._view == "hosts":
            conditions.append("host = :host")
            values["host"] = self._host
        elif self._host is not None:
            conditions.append("id IN :origins")
            values["origins"] = origins_of(sql, self._host)
        keys = [sql.exact(key) if key in _TEXT_KEYS else key for key in self._keys]
        if self._last is not None:
            names = [f":last{n}" for n in range(len(keys))]
            values |= {name[1:]: value for name, value in zip(names, self._last, strict=True)}
            if self._keys[0] in _TEXT_KEYS:
                names = [f"CAST({name} AS TEXT)" for name in names]
            conditions.append(f"({', '.join(self._keys)}) > ({', '.join(names)})")
        query = (
            f"SELECT {', '.join((*self._columns, *keys))} FROM {self._view}"  # noqa: S608
            f" WHERE {' AND '.join(conditions)} ORDER BY {', '.join(self._keys)} LIMIT :limit"
        )
        return query, values
