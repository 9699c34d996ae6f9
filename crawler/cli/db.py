"""`courtly db`: inspect and maintain a database."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from crawler.cli import process
from crawler.cli.options import DatabaseOptions, config_option, database_options, json_option
from crawler.cli.text import echo, echo_json, say
from crawler.explain.formatting import at, counted, plain

if TYPE_CHECKING:
    from crawler.config import Config
    from storage.copying import CopyProgress
    from storage.database_info import DatabaseInfo, Server
    from storage.location import Location

SHOWN_EVERY_S: Final = 5.0  # the progress of a copy


@click.group(short_help="Inspect and maintain a database: info, check, vacuum, copy.")
def db() -> None:
    """Inspect and maintain a database. `info` and `check` work while a crawl is running."""


@db.command(short_help="Show version, size and counts.")
@database_options
@json_option
def info(database: DatabaseOptions, as_json: bool) -> None:
    """Show the contents and size of a database, and which sessions wrote to it last."""
    location = database.location()

    from crawler.databases import database_info

    found = database_info(location)
    if as_json:
        echo_json(dataclasses.asdict(found) | {"bytes_per_url": found.bytes_per_url})
        return
    lines = _lines(found)
    width = max(len(name) for name, _ in lines)
    for name, words in lines:
        echo(f"{name:<{width}}  {words}".rstrip())


def _lines(found: DatabaseInfo) -> list[tuple[str, str]]:
    from crawler.config.units import format_bytes

    size = format_bytes(found.bytes)
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
        ("database", found.database),
        ("schema", f"version {found.schema}"),
        ("size", size),
        ("URLs", urls),
        ("hosts", hosts),
        ("last written", at(found.last_at)),
    ]
    for n, session in enumerate(found.sessions):
        end = "running or killed" if n == 0 or found.shared else "killed"
        if session.ended_at is not None:
            end = f"ended {at(session.ended_at)}"
        words = f"{session.id}: {plain(session.name)}, started {at(session.began_at)}, {end}"
        lines.append(("sessions" if n == 0 else "", words))
    return lines + (_server_lines(found.server) if found.server else [])


def _server_lines(server: Server) -> list[tuple[str, str]]:
    from crawler.config.units import format_bytes, format_duration

    words = f"PostgreSQL {server.version}{', a replica' if server.replica else ''}; "
    words += counted(server.workers, "live worker")
    if server.transaction_s is not None:
        words += f"; a transaction is open for {format_duration(round(server.transaction_s))}"
    lines = [("server", words)]
    for n, table in enumerate(server.tables):
        words = (
            f"{plain(table.name)}: {format_bytes(table.bytes)}, about {table.rows:,} rows,"
            f" {table.dead_rows:,} dead"
        )
        lines.append(("largest tables" if n == 0 else "", words))
    return lines


@db.command(short_help="Check the database for damage.")
@database_options
def check(database: DatabaseOptions) -> None:
    """Check a whole database for damage, dangling references, URLs that have no state or two, and
    wrong counters. The exit code is 1 if there are any problems."""
    location = database.location()

    _check(location)


def _check(location: Location) -> None:
    """Print the problems of a database, or that there are none. Exits with code 1 for problems."""
    from crawler.databases import check_database

    problems = check_database(location)
    for problem in problems:
        echo(plain(problem))
    if problems:
        raise SystemExit(1)
    echo(f"{location}: ok")


@db.command(short_help="Make the database smaller.")
@database_options
def vacuum(database: DatabaseOptions) -> None:
    """Rewrite a database without its free space. No crawl may be running on it. Needs temporary
    disk space of the size of the database, both in its folder and in the one for temporary files;
    on a server, of the size of the largest table.
    """
    location = database.location()

    from crawler.config.units import format_bytes
    from crawler.databases import vacuum_database

    before, after = vacuum_database(location)
    echo(f"{location}: {format_bytes(before)} before, {format_bytes(after)} now")


@db.command(short_help="Copy a crawl to another database.")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@config_option
def copy(source: str, target: str, config_file: Path | None) -> None:
    """Copy the crawl in the database SOURCE to TARGET, and check it there. Each is a path or a
    postgresql:// URL. TARGET must be empty, or a file that does not exist. No crawl may be running
    on either of them.

    If the copy is interrupted, run it again to complete it. Until then, no other command accepts
    TARGET. The password of a server may be where [storage] password of --config says.
    """
    from storage.location import FileLocation

    given = DatabaseOptions(config_file, source).config().storage.location
    if isinstance(given, FileLocation) and not given.path.is_file():
        raise click.UsageError(f"there is no database {given}")
    config = DatabaseOptions(config_file, target).config()
    process.run(_copy(given, config))
    _check(config.storage.location)


async def _copy(source: Location, config: Config) -> None:
    """Copy, and show the progress on standard error."""
    from crawler.databases import copy_database

    storage = config.storage
    copying = copy_database(
        source, storage.location, file_mode=storage.mode, lease_s=storage.lease_s
    )
    shown_s = time.monotonic()
    last: CopyProgress | None = None
    async with contextlib.aclosing(copying) as steps:
        async for step in steps:
            if last is not None and last.table != step.table:
                _show_progress(last)
            elif time.monotonic() - shown_s > SHOWN_EVERY_S:
                shown_s = time.monotonic()
                _show_progress(step)
            last = step
    if last is not None:
        _show_progress(last)


def _show_progress(step: CopyProgress) -> None:
    if step.rows:
        say(f"{step.table}: {counted(step.rows, 'row')} copied", err=True)
