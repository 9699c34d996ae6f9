"""`courtly host`: one host paused, slowed, let go on; obeyed by a crawl that runs at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from crawler.cli import interpreter, living
from crawler.cli.options import config_option, db_option, existing_database, host_name
from crawler.cli.text import say


@click.group(short_help="Pause, slow or resume one host.")
def host() -> None:
    """Pause, slow or resume one host: durable, and obeyed by a running crawl at once."""


@host.command(short_help="Make no contact with a host until it is resumed.")
@click.argument("name", metavar="HOST")
@db_option
@config_option
def pause(name: str, db: str | None, config_file: Path | None) -> None:
    """Make no contact with HOST until it is resumed. What is being fetched ends; its URLs stay
    queued."""
    wanted = host_name(name)
    known = steer(existing_database(config_file, db), wanted, "pause")
    say(f"{known} is paused; `courtly host resume {known}` lets it go on")


@host.command(short_help="Undo pause and slow.")
@click.argument("name", metavar="HOST")
@db_option
@config_option
def resume(name: str, db: str | None, config_file: Path | None) -> None:
    """Undo both pause and slow of HOST."""
    wanted = host_name(name)
    known = steer(existing_database(config_file, db), wanted, "resume")
    say(f"{known} goes on at its own pace")


@host.command(short_help="Rest longer after each contact with a host.")
@click.argument("name", metavar="HOST")
@click.option(
    "--delay",
    required=True,
    metavar="S",
    help='The least rest after each contact: seconds, or "5m". A longer rest, such as a '
    "Crawl-delay, stands.",
)
@db_option
@config_option
def slow(name: str, delay: str, db: str | None, config_file: Path | None) -> None:
    """Rest at least so long after each contact with HOST, until it is resumed."""
    from crawler.config.units import format_duration

    delay_s = seconds(delay)
    wanted = host_name(name)
    known = steer(existing_database(config_file, db), wanted, "slow", delay_s)
    say(f"{known} rests at least {format_duration(delay_s)} after each contact")


def seconds(text: str) -> float:
    """A delay of the command line. Raises UsageError."""
    from crawler.config.units import parse_duration_s
    from crawler.steering.control import checked_delay_s

    try:
        try:
            value = float(text)
        except ValueError:
            value = parse_duration_s(text)
        return checked_delay_s(value)
    except ValueError as error:
        raise click.UsageError(f"--delay: {error}") from None


def steer(database: Path, name: str, what: str, delay_s: float | None = None) -> str:
    """Ask the crawl that holds the database; where there is none, do it. Gives the host's name in
    the database. Raises UsageError for a host that it does not know, StoreRefused, StoreError."""
    body: dict[str, object] = {"host": name}
    if delay_s is not None:
        body["delay_s"] = delay_s
    answer = living.ask(database, "POST", f"/api/hosts/{what}", body=body)
    if answer is None:
        return interpreter.run(_directly(database, name, what, delay_s))
    return str(answer["host"])


async def _directly(database: Path, name: str, what: str, delay_s: float | None) -> str:
    from crawler.by_hand import steer_host

    known = await living.known_name(database, name)
    pauses: Mapping[str, bool] = {"pause": True, "resume": False}
    await steer_host(database, known, pause=pauses.get(what), slow_s=delay_s)
    return known
