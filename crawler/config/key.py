"""What is known of a key of the config file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from crawler.config.readers import Reader

TEXTS = tuple[str, ...]
NAMED_TEXTS = dict[str, str]


class Key(Struct, frozen=True, kw_only=True):
    """One key. `accepts` is the TOML shape as a msgspec type; `field` its name in the rule type."""

    accepts: object
    read: Reader
    note: str
    field: str = ""  # empty: the key's own name
    choices: Sequence[str] = ()  # for the JSON Schema
    only_in_site: bool = False  # other values than the default only in a [site."…"] table
    rooted: Callable[[object, Path], object] | None = None  # makes paths in it whole


def as_given(value: object) -> object:
    return value


def whole_path(value: object, base: Path) -> object:
    return None if value is None else base / str(value)
