"""The JSON Schema describes the keys that the reader accepts."""

from __future__ import annotations

import json

from crawler.config.json_schema import json_schema
from crawler.config.keys import SECTIONS, SINK, SITE_KEYS


def test_every_key_is_described() -> None:
    properties = json_schema()["properties"]
    for section, keys in SECTIONS.items():
        assert set(properties[section]["properties"]) == set(keys)  # type: ignore[index]
    assert set(properties["sink"]["items"]["properties"]) == set(SINK)  # type: ignore[index]
    site = properties["site"]["additionalProperties"]  # type: ignore[index]
    assert set(site["properties"]) == set(SITE_KEYS)


def test_defaults_stand_in_the_toml_s_terms() -> None:
    scope = json_schema()["properties"]["scope"]["properties"]  # type: ignore[index]
    assert scope["follow"]["default"] == "host"
    assert scope["follow"]["enum"] == ["host", "domain", "any"]
    assert "default" not in scope["max_pages_per_host"]  # JSON has no inf


def test_it_is_json() -> None:
    json.dumps(json_schema(), allow_nan=False)
