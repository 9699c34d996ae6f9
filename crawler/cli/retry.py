"""`courtly retry`: another chance for what failed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from crawler.cli.options import config_option, db_option, existing_database, host_name


@click.command(short_help="Queue failed URLs again.")
@click.argument("what", type=click.Choice(["failed"]), metavar="failed")
@click.option("--host", metavar="H", help="Only the URLs of this host.")
@db_option
@config_option
def retry(what: str, host: str | None, db: str | None, config_file: Path | None) -> None:
    """Queue failed URLs again; the next `courtly crawl` on the database asks for them."""
    del what  # so far there is nothing else to retry
    name = None if host is None else host_name(host)
    path = existing_database(config_file, db)

    from crawler.app import retry_failed

    count = asyncio.run(retry_failed(path, name))
    click.echo(f"{count:,} failed URL{'' if count == 1 else 's'} queued again")
