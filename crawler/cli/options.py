"""Options that several commands share, and what they mean."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from crawler.config import Config

_Command = TypeVar("_Command", bound=Callable[..., object])


def config_option(command: _Command) -> _Command:
    return click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="A config in TOML.",
    )(command)


def db_option(command: _Command) -> _Command:
    return click.option(
        "--db",
        metavar="PATH",
        help="The database: a path or a sqlite: URL.  [default: the config's, else crawl.db]",
    )(command)


def user_agent_option(command: _Command) -> _Command:
    return click.option(
        "--user-agent",
        metavar="UA",
        help='Who crawls, with a contact: "examplebot/1.0 (+https://example.com/bot)".',
    )(command)


def output_option(command: _Command) -> _Command:
    return click.option(
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Where to write; it is there once it is whole.  [default: standard output]",
    )(command)


class Choice(click.Choice[str]):
    """One of some words; what comes near one of them is asked back."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from crawler.config.readers import did_you_mean

        known = [str(choice) for choice in self.choices]
        hint = did_you_mean(str(value), known)
        return f'"{value}" is not one of {", ".join(known)}{hint}'

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        command = ctx.command_path if ctx is not None else "it"
        if len(self.choices) == 1:
            return f"Write `{command} {self.choices[0]}`"
        return f"It is one of {', '.join(map(str, self.choices))}"


def as_given(config_file: Path | None, db: str | None) -> str:
    """` --db PATH --config FILE` as they were given, for the commands that are suggested."""
    text = ""
    if db is not None:
        text += f" --db {shlex.quote(db)}"
    if config_file is not None:
        text += f" --config {shlex.quote(str(config_file))}"
    return text


def configured(config_file: Path | None, db: str | None) -> Config:
    """The config of the file, or the defaults; its database replaced by `--db`. ConfigError."""
    from crawler.config import from_dict, load

    config = load(config_file) if config_file else from_dict({})
    if db is None:
        return config
    url = db if db.lower().startswith("sqlite:") else f"sqlite:{db}"
    return config.override({"storage": {"url": url}}, where="--db")


def host_name(text: str) -> str:
    """A host as the store names it: lower case, no port, no brackets. Raises UsageError."""
    from crawler.telling.explain import host_named

    try:
        return host_named(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def existing_database(config_file: Path | None, db: str | None) -> Path:
    """The database to look into. Raises UsageError where there is none: looking creates nothing."""
    return database_of(configured(config_file, db))


def database_of(config: Config) -> Path:
    """The database of a config. Raises UsageError where there is none."""
    path = config.storage.path
    if not path.is_file():
        raise click.UsageError(
            f"there is no database {path}: name it with --db, or make it with `courtly crawl`."
        )
    return path
