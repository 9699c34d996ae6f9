"""The shared SQL in the words of PostgreSQL; see `storage.sql_source`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from storage.engine.statements import Parameter
from storage.sql_source import PARAMETER, change_calls, rows_of

name: Final = "postgres"
folder: Final = Path(__file__).parent / "sql"

_IDS: Final = r"(SELECT value::bigint FROM json_array_elements_text($\1::json))"
_NAMES: Final = r"(SELECT value FROM json_array_elements_text($\1::json))"
_RULES: Final = (
    (re.compile(r"NOT IN \$(\d+)::ids"), f"NOT IN {_IDS}"),
    (re.compile(r"IN \$(\d+)::ids"), f"= ANY (ARRAY{_IDS})"),
    (re.compile(r"IN \$(\d+)::names"), f"IN {_NAMES}"),
    (re.compile(r"CROSS JOIN (\w+ AS \w+ ON)"), r"JOIN \1"),
    (re.compile(r"\b(1e\d+)\b"), r"\1::double precision"),
    (re.compile(r"\b(pending|governs) = 1\b"), r"\1"),  # generated columns
    (re.compile(r"\bjson\("), "("),
    (re.compile(r"\bjson_array\("), "json_build_array("),
    (re.compile(r"hex16\(([^()]*)\)"), r"lpad(to_hex(\1), 16, '0')"),
)
_UPDATE: Final = re.compile(r"UPDATE (\w+) SET(.*?)\s+FROM v\s+WHERE (.*)", re.DOTALL)
_DELETE: Final = re.compile(r"(DELETE FROM \w+ WHERE \w+) IN \(SELECT v\.\w+ FROM v\)")
_UPSERT: Final = re.compile(r"FROM v(?=\s+ON CONFLICT \(([^)]*)\) DO)")


def words(source: str) -> str:
    """Implement `Dialect.words`."""
    for pattern, own in _RULES:
        source = pattern.sub(own, source)
    return change_calls(source, "json_rows", "coalesce(json_agg({}), '[]')".format)


def statement(sql: str) -> str:
    """Implement `Dialect.statement`, with one array of rows, or one for each of their columns."""
    rows = rows_of(sql)
    if rows is None:
        return sql
    if rows.of is not None:
        count, v = 1, f"FROM unnest($1::{rows.of}[]) AS v"
    else:
        count = len(rows.names)
        arrays = ", ".join(f"${n + 1}::{kind}[]" for n, kind in enumerate(rows.types))
        v = f"FROM unnest({arrays}) AS v ({', '.join(rows.names)})"
    body = PARAMETER.sub(lambda found: f"${int(found[1]) + count}::{found[2]}", rows.body)
    if found := _UPDATE.fullmatch(body):
        return _with_locks(v, table=found[1], changes=found[2], where=found[3])
    if len(rows.names) == 1 and (found := _DELETE.fullmatch(body)):
        return f"{found[1]} = ANY ($1::{rows.types[0]}[])"
    body = _UPSERT.sub(lambda found: f"{v} ORDER BY {_of_rows(found[1])}", body)
    return re.sub(r"FROM v\b", v, body)


def _with_locks(v: str, *, table: str, changes: str, where: str) -> str:
    """Return an UPDATE that first locks its rows in the order of their keys, as all statements do,
    so that workers seldom deadlock."""
    of_key = rf"{table}\.\w+ = v\.\w+"
    keys = [part for part in re.split(r"\s+AND\s+", where) if re.fullmatch(of_key, part)]
    order = ", ".join(key.partition(" ")[0] for key in keys)
    return (
        f"WITH v AS (\n  SELECT v.* {v} JOIN {table} ON {where}\n"
        f"  ORDER BY {order} FOR NO KEY UPDATE OF {table}\n)\n"
        f"UPDATE {table} SET{changes}\nFROM v WHERE {' AND '.join(keys)}"
    )


def _of_rows(keys: str) -> str:
    return ", ".join(f"v.{key.strip()}" for key in keys.split(","))


_VALUE: Final = re.compile(r"(IN )?(?<!:):([a-z]\w*)")
# The server cannot always infer a type: not of `-1e300 < $1`, and of others not the one we mean.
_TYPES: Final[Mapping[type, str]] = {
    str: "text", bytes: "bytea", int: "bigint", float: "double precision",
}  # fmt: skip


def with_numbers(sql: str, values: Mapping[str, Parameter]) -> tuple[str, list[Parameter]]:
    """Return a query for `Statements.select` with numbers in place of names, and its arguments."""
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        several, name = found.groups()
        mark = f"${numbers.setdefault(name, len(numbers) + 1)}"
        if several:
            return f"= ANY ({mark}::bigint[])"
        return f"{mark}::{_TYPES.get(type(values[name]), 'text')}"

    sql = _VALUE.sub(numbered, sql)
    return sql, [values[name] for name in numbers]
