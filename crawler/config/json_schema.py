"""The config file as a JSON Schema (draft 2020-12), for editors and other checkers of TOML."""

from __future__ import annotations

import enum
import math
from typing import get_args

from crawler.config.keys import SECTIONS, SINK, SINK_REQUIRED, SITE_KEYS, Keys
from crawler.config.readers import accepted_types, choices
from policies.config_key import Key

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_STRINGS = {"type": "string"}


def json_schema() -> dict[str, object]:
    """Return the schema that `courtly config schema` prints."""
    sink = {**_table(SINK, defaults=False), "required": list(SINK_REQUIRED)}
    return {
        "$schema": _DRAFT,
        "title": "courtly's config",
        "type": "object",
        "properties": {
            **{name: _table(keys) for name, keys in SECTIONS.items()},
            "sink": {"type": "array", "items": sink},
            "site": {"type": "object", "additionalProperties": _table(SITE_KEYS, defaults=False)},
        },
        "additionalProperties": False,
    }


def _table(keys: Keys, *, defaults: bool = True) -> dict[str, object]:
    properties = {}
    for name, key in keys.items():
        properties[name] = _property(key)
        if defaults and (default := default_of(key)) != math.inf:  # which JSON lacks
            properties[name]["default"] = default
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _property(key: Key) -> dict[str, object]:
    types = accepted_types(key)
    schema: dict[str, object] = {
        "type": types[0] if len(types) == 1 else list(types),
        "description": key.doc,
    }
    known = list(choices(key))
    if "array" in types:
        strings = str in get_args(key.type)
        schema["items"] = {"type": "string" if strings else ["integer", "string"]}
    if "object" in types:
        schema["additionalProperties"] = {"type": "string"}
    if known and types == ("string",):
        schema["enum"] = ["", *known] if key.default is None else known
    return schema


def default_of(key: Key) -> object:
    """Return the default of a key as a value of TOML."""
    match key.default:
        case None:
            return ""
        case enum.Enum():
            return key.default.value
        case tuple():
            return list(key.default)
    return key.default
