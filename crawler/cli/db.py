"""`courtly db`: what a database holds, whether it is sound, making it smaller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli.options import config_option, db_option, existing_database
from crawler.cli.text import echo, echo_json

if TYPE_CHECKING:
    from crawler.app import DatabaseInfo as Info


@click.group(short_help="Look after a database: info, check, vacuum.")
def db() -> None:
    """Look after a database. `info` and `check` work beside a crawl."""


@db.command(short_help="Version, size and counts.")
@db_option
@config_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(db: str | None, config_file: Path | None, as_json: bool) -> None:
    """Show what a database holds, how large it is, and who wrote to it last."""
    path = existing_database(config_file, db)

    from crawler.app import database_info

    found = database_info(path)
    if as_json:
        import dataclasses

        fields = dataclasses.asdict(found)
        echo_json(fields | {"bytes_per_url": found.bytes_per_url})
        return
    width = max(len(name) for name, _ in _account(found))
    for name, words in _account(found):
        echo(f"{name:<{width}}  {words}".rstrip())


def _account(found: Info) -> list[tuple[str, str]]:
    from crawler.config.units import format_bytes
    from crawler.telling.words import at, plain

    size = format_bytes(found.file_bytes)
    if found.bytes_per_url is not None:
        size += f", {found.bytes_per_url:.0f} bytes a URL"
    if found.free_bytes:
        size += f"; `courtly db vacuum` gives {format_bytes(found.free_bytes)} back"
    urls = (
        f"{found.urls:,} ever met: {found.visited:,} visited, {found.blocked:,} blocked,"
        f" {found.failed:,} failed, {found.queued:,} queued"
    )
    hosts = (
        f"{found.hosts:,}, of {found.origins:,} origins, {found.robots_copies:,} robots.txt kept"
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
        if session.ended_at is not None:
            end = f"ended {at(session.ended_at)}"
        else:
            end = "goes on, or ended without a farewell" if n == 0 else "ended without a farewell"
        lines.append(
            (
                "sessions" if n == 0 else "",
                f"{session.id}: {plain(session.name)}, began {at(session.began_at)}, {end}",
            )
        )
    return lines


@db.command(short_help="Is it sound?")
@db_option
@config_option
def check(db: str | None, config_file: Path | None) -> None:
    """Read a whole database and say what is wrong with it: damage, references to nothing, URLs in
    no state or in two, counters that do not count. Exit code 1 if there is anything."""
    path = existing_database(config_file, db)

    from crawler.app import check_database
    from crawler.telling.words import plain

    problems = check_database(path)
    for problem in problems:
        echo(plain(problem))
    if problems:
        raise SystemExit(1)
    echo(f"{path}: ok")


@db.command(short_help="Make the file smaller.")
@db_option
@config_option
def vacuum(db: str | None, config_file: Path | None) -> None:
    """Write a database anew without the room that is free in it. No crawl may hold it; while it
    runs it takes as much room again, beside it and where temporary files go."""
    path = existing_database(config_file, db)

    from crawler.app import vacuum_database
    from crawler.config.units import format_bytes

    before, after = vacuum_database(path)
    echo(f"{path}: {format_bytes(before)} before, {format_bytes(after)} now")
