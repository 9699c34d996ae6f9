"""How a field of a config section is written in the config file.

The sections are frozen types whose fields carry a `Key`: `delay: Annotated[float, Key("…")] = 1.0`.
The reader of the config file, its error messages, the JSON Schema, config.example.toml and the
description of a reload are all derived from the field's type, default and `Key`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

from policies.url import canonical

_SCHEMES = ("http://", "https://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:[a-z0-9!#$&^_.+-]+|\*)\Z")


class Key(Struct, frozen=True):
    """One key of the config file, as an annotation of the field that holds its value.

    An empty string stands for a default of None, "" or (). A list is read element by element, a
    table pair by pair.
    """

    doc: str  # one phrase, without a full stop
    # "seconds" and "bytes" may be written as "10m" and "5MB"; a "count" is a whole number or inf.
    unit: Literal["", "seconds", "bytes", "count"] = ""
    name: str = ""  # in the config file; default: the field's name without its unit
    minimum: float = 0  # of a number, or of the length of a list
    above: float | None = None  # the value must be larger
    maximum: float | None = None
    inf: bool = False  # inf, which means no limit, is allowed although it is not the default
    choices: Sequence[str] = ()  # allowed strings; an enum brings its own
    parse: Callable[..., Any] | None = None  # a string, element or pair; raises ValueError
    rooted: Callable[..., Any] | None = None  # (value, directory): makes relative paths absolute
    or_single: bool = False  # a list of one may be written as a string
    own_sites_only: bool = False  # may be false only in a [site."…"] table
    restart: bool = False  # a change takes effect only after a restart
    mask: Callable[[Any], object] | None = None  # what may be shown of a value that is secret
    kinds: Sequence[str] = ()  # kinds of sinks that have the key; empty: all
    # Set by `keys_of` from the annotated field.
    field: str = ""
    type: Any = None
    default: Any = None


@cache
def keys_of(section: type[Struct]) -> Mapping[str, Key]:
    """Return the keys of a section by their names in the config file, in the order of the fields.

    A key whose field has no default is required; its `default` is `msgspec.NODEFAULT`.
    """
    fields, defaults = section.__struct_fields__, section.__struct_defaults__
    default_of = dict(zip(reversed(fields), reversed(defaults), strict=False))
    found: dict[str, Key] = {}
    for field, hint in get_type_hints(section, include_extras=True).items():
        for key in get_args(hint)[1:]:
            if isinstance(key, Key):
                default = default_of.get(field, NODEFAULT)
                found[key.name or _key_name(field, key.unit)] = replace(
                    key,
                    field=field,
                    type=get_args(hint)[0],
                    default=default.factory() if hasattr(default, "factory") else default,
                )
    return found


def _key_name(field: str, unit: str) -> str:
    return field.removesuffix({"seconds": "_s", "bytes": "_bytes"}.get(unit, "_"))


def one_line(value: str) -> str:
    """Return a string without control characters. Raises ValueError."""
    if _CONTROL.search(value):
        raise ValueError("must be one line without control characters")
    return value


def url_pattern(value: str) -> str:
    """Return a glob pattern for whole URLs.

    Raises ValueError for a pattern that cannot match any URL: an `exclude` would have no effect.
    """
    if not one_line(value):
        raise ValueError("an empty pattern matches no URL")
    head, star, _ = value.partition("*")
    begins = head.startswith(_SCHEMES) or (star and any(s.startswith(head) for s in _SCHEMES))
    if not begins:
        raise ValueError(
            f'"{value}" matches no URL: a pattern must match the whole URL; write "*{value}"'
        )
    return value


def media_type(value: str) -> str:
    """Return a media type or a range such as "text/*", in lower case. Raises ValueError."""
    if not _MEDIA_TYPE.match(value.lower()):
        raise ValueError(f'must be a type such as "text/html" or "image/*", not "{value}"')
    return value.lower()


def query_parameter(value: str) -> str:
    """Return the name, or a glob pattern for names, of query parameters. Raises ValueError."""
    if not value or re.search(r"[&=#?\s]", value):
        raise ValueError(f'must be a parameter name such as "sid" or "utm_*", not "{value}"')
    return value


def site_path(value: str) -> str:
    """Return a path other than that of the home page, with or without a query, in canonical form.

    Raises ValueError.
    """
    if not value.startswith("/") or value.startswith(("//", "/\\")):
        raise ValueError(f'"{value}" is not a path that begins with a single "/"')
    url = canonical(value, "http://x/")
    assert url is not None
    path = url.removeprefix("http://x")
    if path.partition("?")[0] == "/":
        raise ValueError(f'"{value}" is the home page, not a file')
    return path


def robots_token(value: str) -> str:
    """Return a product token for robots.txt. Raises ValueError."""
    if not one_line(value).strip():
        raise ValueError("a token must not be empty")
    return value.strip()
