"""`courtly host`: pause, slow or resume one host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from crawler.cli import process, running_crawl
from crawler.cli.options import DatabaseOptions, database_options, host_name
from crawler.cli.text import say

if TYPE_CHECKING:
    from storage.location import Location


@click.group(short_help="Pause, slow or resume one host.")
def host() -> None:
    """Pause, slow or resume one host. The setting is stored in the database, and applies
    immediately to a running crawl."""


@host.command(short_help="Stop contacting a host.")
@click.argument("name", metavar="HOST")
@database_options
def pause(name: str, database: DatabaseOptions) -> None:
    """Stop contacting HOST until it is resumed. Requests in flight are finished; its URLs stay
    queued."""
    known = _steer(database, host_name(name), "pause")
    say(f"{known} is paused; run `courtly host resume {known}` to continue")


@host.command(short_help="Undo pause and slow.")
@click.argument("name", metavar="HOST")
@database_options
def resume(name: str, database: DatabaseOptions) -> None:
    """Undo both `pause` and `slow` of HOST."""
    say(f"{_steer(database, host_name(name), 'resume')} is resumed at its normal pace")


@host.command(short_help="Increase the delay of a host.")
@click.argument("name", metavar="HOST")
@click.option(
    "--delay",
    required=True,
    metavar="S",
    help='Minimum delay after each contact: seconds, or with a unit: "5m". A longer delay, such as '
    "a Crawl-delay, still applies.",
)
@database_options
def slow(name: str, delay: str, database: DatabaseOptions) -> None:
    """Wait at least the given delay after each contact with HOST, until it is resumed."""
    from crawler.config.units import format_duration

    delay_s = _seconds(delay)
    known = _steer(database, host_name(name), "slow", delay_s)
    say(f"{known} is contacted at most once every {format_duration(delay_s)}")


def _seconds(text: str) -> float:
    """The value of --delay. Raises UsageError."""
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


def _steer(database: DatabaseOptions, name: str, what: str, delay_s: float | None = None) -> str:
    """Pause, resume or slow a host through the running crawl, or else in the database. Return the
    host's name in the database. Raises UsageError for an unknown host, StoreRefused, StoreError."""
    location = database.location()
    body: dict[str, object] = {"host": name}
    if delay_s is not None:
        body["delay_s"] = delay_s
    answer = running_crawl.ask(location, "POST", f"/api/hosts/{what}", body=body)
    if answer is None:
        return process.run(_steer_offline(location, name, what, delay_s))
    return str(answer["host"])


async def _steer_offline(database: Location, name: str, what: str, delay_s: float | None) -> str:
    from crawler.offline_control import steer_host

    known = await running_crawl.known_name(database, name)
    pause = {"pause": True, "resume": False}.get(what)
    await steer_host(database, known, pause=pause, slow_s=delay_s)
    return known
