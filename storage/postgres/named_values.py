"""Queries with named values, in the words of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from storage.engine.statements import Parameter

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
