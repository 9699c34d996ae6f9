"""Requests to the crawl that has a database open, through its Unix socket; and commands, which are
executed in the database if no crawl answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import click

from crawler.cli import process

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.operator_commands import OperatorCommand
    from storage.location import Location

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CarriedOut(Generic[Result]):
    """The result of a command. answered: by the running crawl. workers: how many share the database
    in which the command was executed, and obey it."""

    result: Result
    answered: bool
    workers: int = 0

    @property
    def runs(self) -> bool:
        """Whether a crawl runs."""
        return self.answered or self.workers > 0


def carry_out(config: Config, command: OperatorCommand[Result]) -> CarriedOut[Result]:
    """Execute a command through the running crawl, or else in the database of a config. Raises
    UsageError for what is wrong with it, ClickException, ConfigError and StoreError."""
    with refusals():
        return executed(config, command)


def executed(config: Config, command: OperatorCommand[Result]) -> CarriedOut[Result]:
    """Execute a command as `carry_out` does, but raise Problem, InvalidCommandError and
    UnknownHost."""
    import msgspec

    from crawler.command_table import row_of

    row = row_of(command)
    body = msgspec.to_builtins(command)
    answer = request(config.storage.location, "POST", row.route, body=body)
    if answer is not None:
        return CarriedOut(msgspec.convert(answer, row.result), answered=True)  # type: ignore[arg-type]
    from crawler.offline_control import execute_in_database

    result, workers = process.run(execute_in_database(config, command))
    return CarriedOut(result, answered=False, workers=workers)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Raise UsageError for what is wrong with a command, and ClickException if it fails."""
    from crawler.daemon.problem import Problem
    from crawler.operator_commands import InvalidCommandError, UnknownHost

    try:
        yield
    except Problem as problem:
        kind = click.UsageError if problem.status < 500 else click.ClickException
        raise kind(problem.detail) from None
    except (InvalidCommandError, UnknownHost) as error:
        raise click.UsageError(str(error)) from None


def ask(database: Location, method: str, route: str) -> Mapping[str, object] | None:
    """The answer of the running crawl; None if no crawl runs or it has no socket, as with
    PostgreSQL. Raises UsageError if it rejects the request, and ClickException if it fails."""
    with refusals():
        return request(database, method, route)


def request(
    database: Location, method: str, route: str, *, body: Mapping[str, object] | None = None
) -> Mapping[str, object] | None:
    """Send a request as `ask` does, but raise Problem."""
    from crawler.daemon import control_client
    from storage.location import FileLocation

    if not isinstance(database, FileLocation):
        return None
    try:
        return control_client.ask(database.path, method, route, body=body)
    except control_client.NobodyAnswersError:
        return None
