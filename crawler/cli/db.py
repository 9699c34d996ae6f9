"""`courtly db`: inspect and maintain a database."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from crawler.cli.options import DatabaseOptions, database_options, json_option
from crawler.cli.text import echo, echo_json
from crawler.explain.formatting import at, counted, plain

if TYPE_CHECKING:
    from crawler.app import DatabaseInfo


@click.group(short_help="Inspect and maintain a database: info, check, vacuum.")
def db() -> None:
    """Inspect and maintain a database. `info` and `check` work while a crawl is running."""


@db.command(short_help="Show version, size and counts.")
@database_options
@json_option
def info(database: DatabaseOptions, as_json: bool) -> None:
    """Show the contents and size of a database, and which sessions wrote to it last."""
    path = database.path()

    from crawler.app import database_info

    found = database_info(path)
    if as_json:
        echo_json(dataclasses.asdict(found) | {"bytes_per_url": found.bytes_per_url})
        return
    lines = _lines(found)
    width = max(len(name) for name, _ in lines)
    for name, words in lines:
        echo(f"{name:<{width}}  {words}".rstrip())


def _lines(found: DatabaseInfo) -> list[tuple[str, str]]:
    from crawler.config.units import format_bytes

    size = format_bytes(found.file_bytes)
    if found.bytes_per_url is not None:
        size += f", {found.bytes_per_url:.0f} bytes per URL"
    if found.free_bytes:
        size += f"; `courtly db vacuum` frees {format_bytes(found.free_bytes)}"
    urls = (
        f"{found.urls:,} discovered: {found.visited:,} visited, {found.blocked:,} blocked, "
        f"{found.failed:,} failed, {found.queued:,} queued"
    )
    hosts = (
        f"{found.hosts:,} with {counted(found.origins, 'origin')}; copies of robots.txt: "
        f"{found.robots_copies:,}"
    )
    lines = [
        ("database", str(found.path)),
        ("schema", f"version {found.schema}"),
        ("size", size),
        ("URLs", urls),
        ("hosts", hosts),
        ("last written", at(found.last_at)),
    ]
    for n, session in enumerate(found.sessions):
        end = "running or killed" if n == 0 else "killed"
        if session.ended_at is not None:
            end = f"ended {at(session.ended_at)}"
        words = f"{session.id}: {plain(session.name)}, started {at(session.began_at)}, {end}"
        lines.append(("sessions" if n == 0 else "", words))
    return lines


@db.command(short_help="Check the database for damage.")
@database_options
def check(database: DatabaseOptions) -> None:
    """Check a whole database for damage, dangling references, URLs that have no state or two, and
    wrong counters. The exit code is 1 if there are any problems."""
    path = database.path()

    from crawler.app import check_database

    problems = check_database(path)
    for problem in problems:
        echo(plain(problem))
    if problems:
        raise SystemExit(1)
    echo(f"{path}: ok")


@db.command(short_help="Make the file smaller.")
@database_options
def vacuum(database: DatabaseOptions) -> None:
    """Rewrite a database without its free space. No crawl may be running on it. Needs temporary
    disk space of the size of the database, both in its folder and in the one for temporary files.
    """
    path = database.path()

    from crawler.app import vacuum_database
    from crawler.config.units import format_bytes

    before, after = vacuum_database(path)
    echo(f"{path}: {format_bytes(before)} before, {format_bytes(after)} now")
