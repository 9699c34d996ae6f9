"""`courtly config`: check a config file, or print the schema of config files."""

from __future__ import annotations

import enum
import math
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from crawler.cli.text import echo, echo_json, say
from crawler.config.keys import SECTIONS, SINK, SINK_REQUIRED, SITE_KEYS, Keys
from crawler.config.readers import accepted_types, choices
from policies.config_key import Key

if TYPE_CHECKING:
    from crawler.config import Config

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_STRINGS = {"type": "string"}


@click.group()
def config() -> None:
    """Check a config file, or print the JSON Schema of config files."""


@config.command(short_help="Check a config file.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
def check(file: Path) -> None:
    """Check a config file. Print all problems with their lines, or a summary of the config."""
    from crawler.config import ConfigError, check_identity, load, problems_of, seeds_of
    from crawler.fetching.site_settings import SiteSettingsTable
    from storage.location import ServerLocation
    from storage.secret_sources import SecretError

    if problems := problems_of(file):
        raise ConfigError(*problems)
    read = load(file)
    seeds = seeds_of(read)
    warnings = list(read.warnings)
    for also_check in (lambda: check_identity(read, seeds), lambda: SiteSettingsTable(read)):
        try:
            also_check()
        except ConfigError as error:
            warnings += error.problems
    location = read.storage.location
    if isinstance(location, ServerLocation):
        try:
            location.read_password()
        except SecretError as error:
            warnings.append(f"{read.given.place('storage.password')}: storage.password: {error}")
    for warning in warnings:
        say(f"warning: {warning}", err=True)
    echo(f"{file}: ok")
    for name, words in _lines(read, len(seeds)):
        say(f"  {name:<12} {words}", hang=13)


def _lines(read: Config, seeds: int) -> list[tuple[str, str]]:
    from crawler.config.units import format_bytes, format_duration

    pacing, robots, fetch, follow = read.politeness, read.robots, read.fetch, read.scope.follow
    links = "all links" if str(follow) == "any" else f"links to the same {follow}"
    limits = f"{format_duration(fetch.timeout_s)} and {format_bytes(fetch.max_body_bytes)} per page"
    lines = [
        ("user agent", f"{read.user_agent_sent} (robots.txt: {', '.join(read.token(''))})"),
        ("seeds", f"{seeds:,}, following {links}"),
        ("politeness", f"a delay of {format_duration(pacing.delay)} per {pacing.per}"),
        ("robots", f"dialect {', '.join(robots.dialect)}"),
        ("fetch", limits),
        ("database", read.storage.location.shown),
    ]
    if read.revisit.on:
        lines.append(
            ("revisits", f"{read.revisit.mode}, {format_duration(read.revisit.interval_s)}")
        )
    lines += (("sink", f"{sink.kind}: {sink.path}") for sink in read.sinks)
    if read.sites:
        lines.append(("sites", ", ".join(read.sites)))
    return lines


@config.command()
def schema() -> None:
    """Print the JSON Schema of config files, for editors."""
    echo_json(json_schema(), readable=True, indent=2)


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
