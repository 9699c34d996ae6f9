"""The config file as a JSON Schema (draft 2020-12), for editors and other checkers of TOML."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

import msgspec

from crawler.config.key import Key
from crawler.config.keys import SECTIONS, SITE_SECTIONS
from crawler.config.sections import (
    CrawlConfig,
    DaemonConfig,
    FetchConfig,
    NetworkConfig,
    StorageConfig,
)
from crawler.config.sink_keys import SINK, SINK_REQUIRED
from policies.access import RobotsRules
from policies.pacing import PacingRules
from policies.revisit import RevisitRules
from policies.scope import ScopeRules

DEFAULTS: Mapping[str, object] = {
    "crawl": CrawlConfig(),
    "scope": ScopeRules(),
    "politeness": PacingRules(),
    "robots": RobotsRules(),
    "fetch": FetchConfig(),
    "revisit": RevisitRules(),
    "network": NetworkConfig(),
    "storage": StorageConfig(),
    "daemon": DaemonConfig(),
}
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, object]:
    """What `courtly config schema` prints."""
    sections: dict[str, object] = {
        name: _table(keys, DEFAULTS[name]) for name, keys in SECTIONS.items()
    }
    of_site = {
        key: _property(spec, None)
        for section in SITE_SECTIONS
        for key, spec in SECTIONS[section].items()
    }
    site = {"type": "object", "properties": of_site, "additionalProperties": False}
    sink = {**_table(SINK, None), "required": list(SINK_REQUIRED)}
    return {
        "$schema": _DRAFT,
        "title": "courtly's config",
        "type": "object",
        "properties": {
            **sections,
            "sink": {"type": "array", "items": sink},
            "site": {"type": "object", "additionalProperties": site},
        },
        "additionalProperties": False,
    }


def _table(keys: Mapping[str, Key], defaults: object) -> dict[str, object]:
    return {
        "type": "object",
        "properties": {
            name: _property(key, _default(defaults, key, name)) for name, key in keys.items()
        },
        "additionalProperties": False,
    }


def _property(key: Key, default: object) -> dict[str, object]:
    schema: dict[str, object] = {**msgspec.json.schema(key.accepts), "description": key.note}
    if key.choices and "anyOf" not in schema:
        schema["enum"] = list(key.choices)
    if default is not None:
        schema["default"] = default
    return schema


def _default(defaults: object, key: Key, name: str) -> object:
    """In the TOML's terms; None where JSON cannot say it (inf)."""
    if defaults is None:
        return None
    value = getattr(defaults, key.field or name)
    if value is None:
        return ""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float) and math.isinf(value):
        return None
    return list(value) if isinstance(value, tuple) else value
