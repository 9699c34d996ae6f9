"""The names of operators' commands on every surface, in one table.

From it, the server makes its routes, the page its forms, the command line its requests, and the log
its entries. In Python, `Control.execute` takes any command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from crawler import operator_commands as commands


class CommandRow(Struct, frozen=True, kw_only=True):
    """The names of one command.

    command, result: its types. name: in the log (`steered`, `refused`) and in the event stream.
    route: of the API, with POST; the body is the command. summary: of the route. cli: the words of
    the command line. forms: the paths of forms on the page, and what the page says after each: a
    key of its notices, or "" for a form with a page of its own.
    """

    command: type[commands.OperatorCommand[Any]]
    result: type[Struct]
    name: str
    route: str
    summary: str
    cli: str
    forms: Mapping[str, str]


BULK_FORM: Final = "/hosts/steer"  # of several hosts; it names one of three commands

COMMANDS: Final = (
    CommandRow(
        command=commands.PauseHosts,
        result=commands.Controlled,
        name="host_pause",
        route="/api/hosts/pause",
        summary="Stop sending requests to one host, to several, or to all that match; durable.",
        cli="host pause",
        forms={"/host/pause": "host-paused", BULK_FORM: "hosts-paused"},
    ),
    CommandRow(
        command=commands.ResumeHosts,
        result=commands.Controlled,
        name="host_resume",
        route="/api/hosts/resume",
        summary="Undo pause and slow of one host, of several, or of all that match; durable.",
        cli="host resume",
        forms={"/host/resume": "host-resumed", BULK_FORM: "hosts-resumed"},
    ),
    CommandRow(
        command=commands.SlowHosts,
        result=commands.Controlled,
        name="host_slow",
        route="/api/hosts/slow",
        summary="Set the minimum delay between requests to a host, to several, or to all that "
        "match; durable.",
        cli="host slow",
        forms={"/host/slow": "host-slowed", BULK_FORM: "hosts-slowed"},
    ),
    CommandRow(
        command=commands.AddSeeds,
        result=commands.SeedsAdded,
        name="seeds",
        route="/api/seeds",
        summary="Queue seeds.",
        cli="seeds add",
        forms={"/seeds": ""},
    ),
    CommandRow(
        command=commands.RetryFailed,
        result=commands.Retried,
        name="retry",
        route="/api/retry",
        summary="Queue failed URLs again, of one host or failure code if it is named.",
        cli="retry",
        forms={"/urls/retry": "urls-retried", "/host/retry": "host-retried"},
    ),
    CommandRow(
        command=commands.DropFailed,
        result=commands.FailedDropped,
        name="drop",
        route="/api/drop",
        summary="Drop failed URLs, of one host or failure code if it is named.",
        cli="drop",
        forms={"/urls/drop": "urls-dropped"},
    ),
    CommandRow(
        command=commands.PauseCrawl,
        result=commands.StateAnswer,
        name="pause",
        route="/api/pause",
        summary="Pause the crawl: no requests are started until it is resumed.",
        cli="pause",
        forms={"/crawl/pause": "paused"},
    ),
    CommandRow(
        command=commands.ResumeCrawl,
        result=commands.StateAnswer,
        name="resume",
        route="/api/resume",
        summary="Resume the crawl.",
        cli="resume",
        forms={"/crawl/resume": "resumed"},
    ),
    CommandRow(
        command=commands.Reload,
        result=commands.Reloaded,
        name="reload",
        route="/api/reload",
        summary="Reload the config; with dry_run, only report what would change.",
        cli="reload",
        forms={"/config/reload": ""},
    ),
)

_BY_TYPE: Final = {row.command: row for row in COMMANDS}
_BY_PATH: Final = {
    path: row.name for row in COMMANDS for path in (row.route, *row.forms) if path != BULK_FORM
} | {BULK_FORM: "host_steer"}


def row_of(command: commands.OperatorCommand[Any]) -> CommandRow:
    """The names of a command."""
    return _BY_TYPE[type(command)]


def name_of(path: str) -> str:
    """The name of the command behind a path of the API or the page; "" if there is none."""
    return _BY_PATH.get(path, "")
