"""Operators' commands: one executor each, and every surface that the table names."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click
import pytest
from aiohttp import web

from crawler import operator_commands
from crawler.cli import main
from crawler.command_table import BULK_FORM, COMMANDS, CommandRow, name_of, row_of
from crawler.console import add_console
from crawler.console.rendering import NOTICES
from crawler.daemon.http.application import build
from crawler.daemon.http.guards import HttpSettings
from crawler.daemon.http.openapi import description
from crawler.daemon.http.routes import ROUTES
from crawler.daemon.monitoring.monitor import Monitor
from crawler.operator_commands import FailedCommand, HostCommand, OperatorCommand
from crawler.steering import execution
from crawler.testing import JumpClock

if TYPE_CHECKING:
    from collections.abc import Iterator

each_row = pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)


def kinds(base: type[OperatorCommand[Any]] = OperatorCommand) -> Iterator[type]:
    """All commands that can be given."""
    for kind in base.__subclasses__():
        if kind in (HostCommand, FailedCommand):
            yield from kinds(kind)
        else:
            yield kind


def test_each_command_has_one_row_and_one_executor() -> None:
    found = list(kinds())
    assert sorted(found, key=str) == sorted((row.command for row in COMMANDS), key=str)
    assert set(execution.EXECUTORS) == set(found)
    names = [row.name for row in COMMANDS]
    assert len(set(names)) == len(names)
    written = inspect.getsource(execution)
    for executor in set(execution.EXECUTORS.values()):
        assert written.count(f"async def {executor.__name__}(") == 1


@each_row
def test_the_api_takes_it(row: CommandRow) -> None:
    (route,) = (one for one in ROUTES if (one.method, one.path) == ("POST", row.route))
    assert (route.body, route.answer) == (row.command, row.result)
    paths: Any = description()["paths"]
    body = paths[row.route]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": f"#/components/schemas/{row.command.__name__}"}


@each_row
def test_the_command_line_takes_it(row: CommandRow) -> None:
    command: click.Command = main
    for word in row.cli.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    has = {option for one in command.params for option in one.opts}
    assert ("--dry-run" in has) is ("dry_run" in row.command.__struct_fields__)


@each_row
def test_the_page_has_its_forms(row: CommandRow, answers: Any) -> None:
    clock = JumpClock()
    app = build(answers, HttpSettings(), clock=clock)
    add_console(app, answers, Monitor(clock))
    posted = {
        route.resource.canonical
        for route in app.router.routes()
        if isinstance(route, web.ResourceRoute) and route.method == "POST" and route.resource
    }
    assert row.forms
    assert set(row.forms) <= posted
    for path, said in row.forms.items():
        assert not said or said in NOTICES
        assert name_of(path) == ("host_steer" if path == BULK_FORM else row.name)
    assert name_of(row.route) == row.name


@each_row
def test_its_orders_have_its_name(row: CommandRow) -> None:
    if row.command in operator_commands._VERBS:
        assert operator_commands._VERBS[row.command] == row.name
    assert row_of(operator_commands.Reload()).name == "reload"
