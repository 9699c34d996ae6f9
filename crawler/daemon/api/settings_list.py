"""The effective settings: each with its source, and without secrets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from crawler.config import Config
from crawler.config.keys import SECTIONS, SINK, SITE_SECTIONS
from crawler.daemon.responses import Setting
from policies.url import without_userinfo

DEFAULT: Final = "default"


def effective_settings(config: Config, host: str | None) -> list[Setting]:
    """Every key, for the whole crawl or for one host."""
    found: list[Setting] = []
    site = None if host is None else config.site(host)
    for section, keys in SECTIONS.items():
        if site is not None and section not in SITE_SECTIONS:
            continue
        values = getattr(config if site is None else site, section)
        for name, key in keys.items():
            value = getattr(values, key.field)
            if key.mask is not None:
                value = key.mask(value)
            place = _place(config, host, section, key.field)
            found.append(Setting(key=f"{section}.{name}", value=_json(value), source=place))
    return found if site is not None else found + _sinks(config)


def _sinks(config: Config) -> list[Setting]:
    """Each `[[sink]]`, numbered from 1 in the order of the config, with the keys it sets."""
    found: list[Setting] = []
    for index, sink in enumerate(config.given.sinks or ()):
        table: dict[str, object] = {}
        for name, key in SINK.items():
            if key.field in sink:
                value = _json(sink[key.field])
                table[name] = (
                    without_folder(value, config.given.base) if isinstance(value, str) else value
                )
        place = config.given.places.get(f"sink.{index}", DEFAULT)
        source = without_folder(place, config.given.base)
        found.append(Setting(key=f"sink.{index + 1}", value=table, source=source))
    return found


def _place(config: Config, host: str | None, section: str, field: str) -> str:
    """The source of a setting: a line of the config, an option, or DEFAULT."""
    places, base = config.given.places, config.given.base
    if host is not None:
        from crawler.config.host_patterns import matches

        for pattern in config.sites:
            place = places.get(f"site.{pattern}.{field}")
            if place is not None and matches(pattern, host):
                return without_folder(place, base)
    return without_folder(places.get(f"{section}.{field}", DEFAULT), base)


def without_folder(text: str, base: Path) -> str:
    """A message about the config without the path of its folder: readers on the network need not
    learn about the file system."""
    folder = f"{base}/"
    return text if folder in ("./", "/") else text.replace(folder, "")


def _json(value: object) -> object:
    """The value as in the TOML file."""
    match value:
        case Enum():
            return value.value
        case float() if math.isinf(value):
            return "inf"
        case str():
            return without_userinfo(value)
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {without_userinfo(str(key)): _json(each) for key, each in value.items()}
        case tuple() | list() | frozenset():
            return [_json(each) for each in value]
    return str(value)
