"""`courtly config`: check a config file, or print the schema of config files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli.text import echo, echo_json, say

if TYPE_CHECKING:
    from crawler.config import Config


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
    from crawler.config.json_schema import json_schema

    echo_json(json_schema(), readable=True, indent=2)
