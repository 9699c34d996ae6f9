"""From a TOML value to what a rule means, or a sentence that says what is wrong.

A reader takes a value that already has the shape its key accepts (msgspec has seen to that) and
returns the meaning, or raises `ProblemsError` (or ValueError with a sentence).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from crawler.config.units import parse_duration_s, parse_size_bytes
from policies.pacing import REST_S_MAX

Reader = Callable[[Any], object]


class ProblemsError(ValueError):
    """What is wrong with a value: (where inside it, sentence) pairs."""

    def __init__(self, *problems: tuple[tuple[str | int, ...], str]) -> None:
        super().__init__("; ".join(sentence for _, sentence in problems))
        self.problems = problems


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing when nothing comes near."""
    import difflib  # for mistakes alone

    near = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


def _or(names: Sequence[str]) -> str:
    quoted = [f'"{name}"' for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


# ---------------------------------------------------------------- numbers


def number(*, least: float = 0, above: bool = False, inf: bool = False) -> Reader:
    """A number of at least `least` (`above`: larger than it); `inf` only where it has a meaning."""

    def read(value: float) -> float:
        if math.isnan(value):
            raise ValueError("nan is not a number to go by")
        if value < least or (above and value == least):
            raise ValueError(
                f"must be {'more than' if above else 'at least'} {least:g}, not {value:g}"
            )
        if math.isinf(value) and not inf:
            raise ValueError("must be finite: this limit cannot be switched off")
        return value

    return read


def whole(*, least: int = 0, most: int | None = None) -> Reader:
    """A whole number within bounds."""

    def read(value: float) -> int:
        number(least=least)(value)
        if value != int(value):
            raise ValueError(f"must be a whole number, not {value:g}")
        if most is not None and value > most:
            raise ValueError(f"must be at most {most}, not {value}")
        return int(value)

    return read


def count(*, least: int = 0) -> Reader:
    """A whole number, or inf for no limit."""

    def read(value: float) -> float:
        number(least=least, inf=True)(value)
        if not math.isinf(value) and value != int(value):
            raise ValueError(f"must be a whole number or inf, not {value:g}")
        return value

    return read


def duration_s(*, above: bool = False, inf: bool = False) -> Reader:
    """Seconds from a number or a text such as "10m"; at most ten years, or inf where that has a
    meaning."""

    def read(value: float | str) -> object:
        found_s = parse_duration_s(value)
        number(above=above, inf=inf)(found_s)
        if REST_S_MAX < found_s < math.inf:
            raise ValueError(
                f"must be at most {REST_S_MAX:.0f} seconds (ten years), not {found_s:g}"
            )
        return found_s

    return read


def size_bytes(value: float | str) -> object:
    """Bytes from a whole number or a text such as "10MB"."""
    return whole(least=1)(parse_size_bytes(value))


def size_limit(value: float | str) -> object:
    """Bytes as `size_bytes` reads them, or inf for no limit."""
    if isinstance(value, float) and math.isinf(value):
        return number(inf=True)(value)
    return size_bytes(value)


def size_or_none(value: float | str) -> object:
    """Bytes as `size_bytes` reads them, or 0."""
    return whole(least=0)(parse_size_bytes(value))


# ---------------------------------------------------------------- texts


def text(value: object) -> str:
    """An element of a list or a table of texts: a text."""
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {value!r}")  # noqa: TRY004 - a sentence for people
    return value


def one_of(names: Callable[[], Sequence[str]], then: Callable[[str], object] = str) -> Reader:
    def read(value: str) -> object:
        known = names()
        if value not in known:
            raise ValueError(f'must be {_or(known)}, not "{value}"{did_you_mean(value, known)}')
        return then(value)

    return read


def maybe(reader: Reader, empty: object = None) -> Reader:
    """The empty text means `empty`."""

    def read(value: object) -> object:
        return empty if value == "" else reader(value)

    return read


def each(reader: Reader) -> Reader:
    """Every element of a list by `reader`; all that is wrong at once."""

    def read(values: Iterable[object]) -> tuple[object, ...]:
        good, wrong = [], []
        for index, value in enumerate(values):
            try:
                good.append(reader(text(value)))
            except ValueError as error:
                wrong.append(((index,), str(error)))
        if wrong:
            raise ProblemsError(*wrong)
        return tuple(good)

    return read


def one_or_many(reader: Reader) -> Reader:
    """A text, or a list of texts; a tuple in any case."""
    many = each(reader)

    def read(value: str | Iterable[str]) -> object:
        if isinstance(value, str):
            return (reader(value),)
        return many(value)

    return read


def at_least_one(reader: Reader) -> Reader:
    def read(value: object) -> object:
        if not value:
            raise ValueError("must not be empty")
        return reader(value)

    return read


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def line(value: str) -> str:
    """One line of text without control characters."""
    if _CONTROL.search(value):
        raise ValueError("must be one line without control characters")
    return value
