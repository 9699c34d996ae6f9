"""The SQL that both engines share: one source, which each engine reads in words of its own.

`storage/sql` has the statements, checks, reports and views of both engines. What differs between
them for a reason is in `storage/sqlite/sql` and `storage/postgres/sql`, as the engine takes it.

The source is SQL that both engines understand, with these additions:

- `$1::bigint`: a parameter and its type. `IN $1::ids`, `IN $1::names`: the integers, or the
  strings, in the JSON array that it is.
- `WITH v (id bigint, name text) AS ROWS`, at the beginning: the statement runs for many rows. Its
  other parameters are numbered from 1, and each is used once, in this order. An INSERT of the rows
  ends in `FROM v`, before ON CONFLICT; an UPDATE ends in `FROM v WHERE t.id = v.id`, and maybe
  further conditions.
- `AS ROWS OF name_row`: a server has a type for such rows. They are then one array, which takes
  less time than one for each column. For statements of every commit.
- `ON CONFLICT (…) DO REPLACE`, at the end: all columns are replaced that the INSERT names.
- `least(a, b)` and `greatest(a, b)`, of which neither is NULL.
- `json_rows(…)`: the rows as one JSON array; `json(…)`: JSON of a subquery; `hex16(…)`: 16 digits.
- `CROSS JOIN t ON …`: a join in this order. `1e3`: a number of double precision.
- `IS DISTINCT FROM`.
- `{sqlite: …}` and `{postgres: …}`: for one engine. Only a server locks rows, for example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

SHARED: Final = Path(__file__).parent / "sql"  # importlib.resources is slow to import

PARAMETER: Final = re.compile(r"\$(\d+)::(double precision|\w+)")
_NAMED: Final = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- |\Z)", re.MULTILINE | re.DOTALL)
_ALTERNATIVE: Final = re.compile(r"\{(\w+): ([^}]*)\}")
_ROWS: Final = re.compile(r"WITH v \(\s*(.*?)\s*\) AS ROWS(?: OF (\w+_row))?\s+", re.DOTALL)
_REPLACE: Final = re.compile(r"INSERT INTO \w+ \(([^)]*)\).*ON CONFLICT \(([^)]*)\) DO ", re.DOTALL)
_PARENTHESIS: Final = re.compile(r"[()]")


class Rows(NamedTuple):
    """The rows that a statement runs for, and what follows their declaration."""

    names: Sequence[str]
    types: Sequence[str]
    of: str | None  # the name of their type, where there is one
    body: str


class Dialect(Protocol):
    """What the source becomes in an engine."""

    name: str  # as in an alternative
    folder: Path  # of the SQL of this engine alone

    def words(self, source: str) -> str:
        """Replace the words that mean the same wherever they are."""

    def statement(self, sql: str) -> str:
        """Return a statement, of whose words that is done, with its parameters and rows."""


def statements_of(file: str, dialect: Dialect) -> dict[str, str]:
    """Return the statements of `FILE.sql` by name, for an engine: those that both engines share,
    and its own."""
    shared = _named(shared_script(file, dialect))
    own = dialect.folder / f"{file}.sql"
    return {name: dialect.statement(_replacing(sql)) for name, sql in shared.items()} | (
        _named(read_script(own)) if own.exists() else {}
    )


def shared_script(file: str, dialect: Dialect) -> str:
    """Return `FILE.sql` in the words of an engine."""

    def choose(found: re.Match[str]) -> str:
        return found[2] if found[1] == dialect.name else ""

    return dialect.words(_ALTERNATIVE.sub(choose, read_script(SHARED / f"{file}.sql")))


def read_script(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _named(text: str) -> dict[str, str]:
    return {found[1]: found[2].strip().rstrip(";").rstrip() for found in _NAMED.finditer(text)}


def rows_of(sql: str) -> Rows | None:
    """Return the rows that a statement runs for; None if it runs once."""
    found = _ROWS.match(sql)
    if found is None:
        return None
    columns = [column.split(maxsplit=1) for column in found[1].split(",")]
    names, types = zip(*columns, strict=True)
    return Rows(names, types, found[2], sql[found.end() :])


def row_types(file: str, dialect: Dialect) -> dict[str, Rows]:
    """Return the rows of the statements of `FILE.sql` that have a type, by its name."""
    every = map(rows_of, _named(shared_script(file, dialect)).values())
    return {rows.of: rows for rows in every if rows is not None and rows.of is not None}


def change_calls(sql: str, name: str, change: Callable[[str], str]) -> str:
    """Replace each `name(…)` by what `change` makes of the part in parentheses, the innermost
    first."""
    start = sql.rfind(f"{name}(")
    while start >= 0:
        begin = end = start + len(name) + 1
        depth = 1
        while depth:
            found = _PARENTHESIS.search(sql, end)
            assert found is not None, f"{name} without an end"
            depth += 1 if found[0] == "(" else -1
            end = found.end()
        sql = sql[:start] + change(sql[begin : end - 1]) + sql[end:]
        start = sql.rfind(f"{name}(", 0, start)
    return sql


def _replacing(sql: str) -> str:
    """Return a statement that names the columns it replaces."""
    if not sql.endswith("DO REPLACE"):
        return sql
    found = _REPLACE.match(sql, sql.index("INSERT INTO"))
    assert found is not None, sql
    columns, keys = (re.findall(r"\w+", part) for part in found.groups())
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in keys)
    return sql.removesuffix("REPLACE") + f"UPDATE SET {changes}"
