"""Config files that tests write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_toml(config: Mapping[str, Any]) -> str:
    """Write sections: each a table, or a list of tables for `[[section]]`."""
    lines = []
    for section, given in config.items():
        one = isinstance(given, Mapping)
        for keys in [given] if one else given:
            lines.append(f"[{section}]" if one else f"[[{section}]]")
            lines += [f"{key} = {toml_value(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def toml_value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return f'"{value}"'
        case list() | tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case Mapping():
            return "{ " + ", ".join(f'"{k}" = {toml_value(v)}' for k, v in value.items()) + " }"
        case _:
            raise TypeError(value)
