"""Read the value of a config key, by the type and the `Key` of its field."""

from __future__ import annotations

import datetime as dt
import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from crawler.config.units import parse_duration_s, parse_size_bytes
from policies.config_key import Key, one_line
from policies.pacing import DELAY_S_MAX
from policies.robots.dialect import Dialect
from policies.robots.dialects import DIALECTS

# How messages name the types of JSON Schema, and the dates of TOML.
_WORDS: Final = {
    "boolean": "true or false", "integer": "a whole number", "number": "a number",
    "string": "a string", "array": "a list", "object": "a table", "date": "a date",
}  # fmt: skip
_TYPES: Final[Sequence[tuple[Any, str]]] = (  # in this order: a bool is an int, too
    (bool, "boolean"), (int, "integer"), (float, "number"), ((str, Path), "string"),
    ((list, tuple, set, frozenset), "array"), (Mapping, "object"), ((dt.date, dt.time), "date"),
)  # fmt: skip


class ProblemsError(ValueError):
    """All problems of a value: pairs of the path inside it and a sentence."""

    def __init__(self, *problems: tuple[tuple[str | int, ...], str]) -> None:
        super().__init__("; ".join(sentence for _, sentence in problems))
        self.problems = problems


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean "x"?`, or "" if no known name is similar."""
    import difflib  # only needed for mistakes

    near = difflib.get_close_matches(given.lower(), list(known), n=1, cutoff=0.6)
    return f'; did you mean "{near[0]}"?' if near else ""


@cache
def _base(type_: Any) -> Any:
    """`X` of `X | None`, `tuple` of `tuple[str, ...]`, `Mapping` of `Mapping[str, str]`."""
    args = get_args(type_)
    return args[0] if type(None) in args else get_origin(type_) or type_


def accepted_types(key: Key) -> tuple[str, ...]:
    """The JSON Schema types of the values that a key accepts."""
    base = _base(key.type)
    if base is tuple:
        return ("string", "array") if key.or_single else ("array",)
    if base in (int, float):
        number = "integer" if base is int else "number"
        return (number, "string") if key.unit in ("seconds", "bytes") else (number,)
    return ({bool: "boolean", Mapping: "object"}.get(base, "string"),)


def choices(key: Key) -> Sequence[str]:
    """The strings that a key accepts; empty if it is not limited to certain strings."""
    base = _base(key.type)
    return [*base] if isinstance(base, enum.EnumMeta) else key.choices


def read_value(key: Key, value: object, base_path: Path) -> object:
    """Return the value of a key's field, given a value from TOML or from a dict in its shape.

    base_path: the directory where relative paths start. Raises ValueError or `ProblemsError`.
    """
    value = _plain(value)
    _check_type(accepted_types(key), value)
    base = _base(key.type)
    if value == "" and key.default in (None, "", ()):
        return key.default
    meant: object
    match value:
        case bool():
            meant = value
        case Mapping():
            meant = _table(key, value)
        case str() if base is tuple:
            meant = _list(key, [value])
        case Iterable() if base is tuple:
            meant = _list(key, value)
        case int() | float() | str() if base in (int, float):
            meant = _number(key, value, whole=base is int or key.unit in ("bytes", "count"))
        case _ if base is Path:
            meant = base_path / _path(str(value))
        case _:
            meant = _string(key, str(value))
    return key.rooted(meant, base_path) if key.rooted else meant


def _plain(value: object) -> object:
    """The string that stands for a constant of the API in a file; any other value unchanged."""
    if isinstance(value, enum.Enum):
        return value.value
    if not isinstance(value, Dialect):
        return value
    if DIALECTS.get(value.name) is not value:
        raise ValueError(
            f'"{value.name}" is a dialect of your own: give one of policies.robots.DIALECTS'
        )
    return value.name


def _check_type(expected: Sequence[str], value: object) -> None:
    got = next((name for type_, name in _TYPES if isinstance(value, type_)), "")
    if got in expected or (got in ("integer", "number") and {"integer", "number"} & {*expected}):
        return
    words = _WORDS.get(got) or type(value).__name__
    raise ValueError(f"expected {' or '.join(_WORDS[name] for name in expected)}, got {words}")


def _number(key: Key, value: float | str, *, whole: bool) -> float:
    if isinstance(value, int) and abs(value) >= 2**63:  # TOML 1.0.0, section "Integer"
        raise ValueError("is out of range: TOML integers have 64 bits")
    number = parse_duration_s(value) if key.unit == "seconds" else parse_size_bytes(value)
    if math.isnan(number):
        raise ValueError("must be a number, not nan")
    if key.above is not None and number <= key.above:
        raise ValueError(f"must be more than {key.above:g}, not {number:.15g}")
    if number < key.minimum:
        raise ValueError(f"must be at least {key.minimum:g}, not {number:.15g}")
    if math.isinf(number):
        if not key.inf and key.default != math.inf:
            raise ValueError("must be finite: this limit cannot be switched off")
        return number
    if whole and number != int(number):
        or_inf = " or inf" if key.default == math.inf else ""
        raise ValueError(f"must be a whole number{or_inf}, not {number:.15g}")
    if key.maximum is not None and number > key.maximum:
        raise ValueError(f"must be at most {key.maximum:g}, not {number:.15g}")
    if key.unit == "seconds" and number > DELAY_S_MAX:
        raise ValueError(
            f"must be at most {DELAY_S_MAX:.0f} seconds (ten years), not {number:.15g}"
        )
    return int(number) if whole and key.unit != "count" else float(number)


def _string(key: Key, value: str) -> object:
    known = choices(key)
    if known and value not in known:
        quoted = [f'"{name}"' for name in known]
        listed = " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
        raise ValueError(f'must be {listed}, not "{value}"{did_you_mean(value, known)}')
    base = _base(key.type)
    if isinstance(base, enum.EnumMeta):
        return base(value)
    return key.parse(value) if key.parse else value


def _path(value: str) -> str:
    if not one_line(value).strip():
        raise ValueError("must be a path")
    return value


def _list(key: Key, values: Iterable[object]) -> tuple[object, ...]:
    strings = str in get_args(key.type)
    good: list[object] = []
    wrong: list[tuple[tuple[str | int, ...], str]] = []
    for index, value in enumerate(values):
        try:
            value = _plain(value)
            if strings:
                _check_type(("string",), value)
                good.append(_string(key, str(value)))
            elif key.parse is not None:
                good.append(key.parse(value))
        except ValueError as error:
            wrong.append(((index,), str(error)))
    if wrong:
        raise ProblemsError(*wrong)
    if len(good) < key.minimum:
        raise ValueError("must not be empty")
    return tuple(good)


def _table(key: Key, table: Mapping[str, object]) -> Mapping[str, str]:
    """Read every pair of a table of strings. Names are compared without regard to case."""
    assert key.parse is not None
    good: dict[str, str] = {}
    seen: set[str] = set()
    wrong: list[tuple[tuple[str | int, ...], str]] = []
    for name, value in table.items():
        try:
            _check_type(("string",), value)
            pair: tuple[str, str] = key.parse(name, str(value))
        except ValueError as error:
            wrong.append(((name,), str(error)))
            continue
        if pair[0].lower() in seen:
            wrong.append(((name,), f'"{name}" is given twice'))
        seen.add(pair[0].lower())
        good[pair[0]] = pair[1]
    if wrong:
        raise ProblemsError(*wrong)
    return good
