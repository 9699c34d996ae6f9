"""The shared SQL in the words of SQLite; see `storage.sql_source`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from storage.sql_source import PARAMETER, rows_of

name: Final = "sqlite"
folder: Final = Path(__file__).parent / "sql"

_ARRAY: Final = re.compile(r"IN (\$\d+)::(?:ids|names)")
_ONLY_ROWS: Final = re.compile(r"FROM v(?=\s*(?:\Z|ON CONFLICT))")
_HEX: Final = re.compile(r"hex16\(([^()]*)\)")
_WORDS: Final = (
    ("least(", "min("), ("greatest(", "max("), ("json_rows(", "json_group_array("),
    ("IS DISTINCT FROM", "IS NOT"),
)  # fmt: skip


def words(source: str) -> str:
    """Implement `Dialect.words`."""
    for word, own in _WORDS:
        source = source.replace(word, own)
    source = _ARRAY.sub(r"IN (SELECT value FROM json_each(\1::text))", source)
    return _HEX.sub(r"iif(\1 IS NULL, NULL, printf('%016x', \1))", source)


def statement(sql: str) -> str:
    """Implement `Dialect.statement`. Where rows are padding, their first column is NULL."""
    rows = rows_of(sql)
    if rows is None:
        return PARAMETER.sub(r"?\1", sql)
    places = ", ".join("?" * len(rows.names))
    body = _ONLY_ROWS.sub(f"FROM v WHERE v.{rows.names[0]} IS NOT NULL", rows.body)
    # Parameters are not numbered: it depends on how many rows there are.
    return f"WITH v({', '.join(rows.names)}) AS (VALUES ({places}))\n" + PARAMETER.sub("?", body)
