"""Values of rows, as the records and numbers that they must be. Anything else is an error of a
query, and never a zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

R = TypeVar("R", bound=Struct)


def record(kind: type[R], row: Sequence[object]) -> R:
    """Return the record whose fields are the columns of a row, in their order. Raises
    msgspec.ValidationError."""
    fields = dict(zip(kind.__struct_fields__, row, strict=True))
    return msgspec.convert(fields, kind, strict=False)


def number(value: object) -> float:
    """A number, or 0.0 for NULL. Raises TypeError."""
    if value is None:
        return 0.0
    if isinstance(value, int | float):
        return float(value)
    raise TypeError(f"expected a number, got {value!r}")


def whole(value: object) -> int:
    """An integer, or 0 for NULL. Raises TypeError."""
    if value is None:
        return 0
    if isinstance(value, int):
        return int(value)
    raise TypeError(f"expected an integer, got {value!r}")
