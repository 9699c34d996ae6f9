"""Values of rows, as the numbers that they must be. Anything else is an error of a query, and never
a zero."""

from __future__ import annotations


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
