"""Options that several commands share."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from crawler.config import Config
    from storage.location import Location

_Command = TypeVar("_Command", bound=Callable[..., object])

config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A config file in TOML.",
)
user_agent_option = click.option(
    "--user-agent",
    metavar="UA",
    help='The user agent, with a contact: "examplebot/1.0 (+https://example.com/bot)".',
)
allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="RANGE",
    help="Private address range that the crawler may connect to, such as 127.0.0.0/8, in addition "
    "to those of the config. Can be repeated.",
)
output_option = click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to FILE, which appears when it is complete.  [default: standard output]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_db_option = click.option(
    "--db",
    metavar="DB",
    help="The database, a path or a postgresql:// URL.  [default: the config's, else crawl.db]",
)


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The options --config and --db."""

    config_file: Path | None
    db: str | None

    def config(self) -> Config:
        """The config file, or the defaults, with the database of --db. Raises ConfigError."""
        return self._with_database(configured(self.config_file))

    def location(self) -> Location:
        """The location of the database; raises as `existing`."""
        return self.existing().storage.location

    def existing(self) -> Config:
        """The config, for commands that need no more of it than the database. Raises ConfigError,
        and UsageError if that is a file that does not exist."""
        from crawler.config import ConfigError

        try:
            config = configured(self.config_file)
        except ConfigError as error:
            hint = "  This command needs only the database: name it with --db, without --config."
            raise ConfigError(*error.problems, hint) from None
        config = self._with_database(config)
        existing_database(config)
        return config

    def _with_database(self, config: Config) -> Config:
        if self.db is None:
            return config
        from storage.location import url_of

        return config.override({"storage": {"url": url_of(self.db)}}, where="--db")

    def __str__(self) -> str:
        """Return ` --db DB --config FILE` as given, for suggested commands."""
        given = {"--db": self.db, "--config": self.config_file}
        return "".join(f" {o} {shlex.quote(str(v))}" for o, v in given.items() if v is not None)


def database_options(command: _Command) -> _Command:
    """Add --config and --db, and pass them to the command as `database`."""

    @functools.wraps(command)
    def wrapper(config_file: Path | None, db: str | None, **others: Any) -> object:
        return command(database=DatabaseOptions(config_file, db), **others)

    return _db_option(config_option(wrapper))  # type: ignore[return-value]


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Change nothing; print what would change."
)


def host_option(help_text: str) -> Callable[[_Command], _Command]:
    """Add --host, and pass the normalized name of the host as `host`."""
    return click.option(
        "--host",
        metavar="HOST",
        help=help_text,
        callback=lambda _context, _option, text: None if text is None else host_name(text),
    )


class Choice(click.Choice[str]):
    """One of several words, with a suggestion for a misspelt one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from crawler.config.readers import did_you_mean

        known = [str(choice) for choice in self.choices]
        hint = did_you_mean(str(value), known)
        return f'"{value}" is not one of {", ".join(known)}{hint}'

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        return f"Choose one of {', '.join(map(str, self.choices))}"


def format_option(command: _Command) -> _Command:
    """Add --format, and pass it as `how`."""
    return click.option(
        "--format",
        "how",
        type=Choice(["table", "jsonl", "csv"]),
        default="table",
        show_default=True,
        help="A table has the most important columns that fit; jsonl and csv have all columns.",
    )(command)


def configured(
    config_file: Path | None, *, user_agent: str | None = None, allow: Sequence[str] = ()
) -> Config:
    """The config file, or the defaults, with the values of options. Raises ConfigError."""
    from crawler.config import from_dict, load

    config = load(config_file) if config_file else from_dict({})
    return with_options(config, user_agent=user_agent, allow=allow)


def with_options(config: Config, *, user_agent: str | None, allow: Sequence[str]) -> Config:
    """The config with the values of --user-agent and --allow. Raises ConfigError."""
    if user_agent is not None:
        config = config.override({"crawl": {"user_agent": user_agent}}, where="--user-agent")
    if allow:
        ranges = (*config.network.allow, *allow)
        config = config.override({"network": {"allow": ranges}}, where="--allow")
    return config


def existing_database(config: Config) -> Location:
    """The location of a config's database. Raises UsageError if it is a file that does not exist:
    commands that read a database do not create one."""
    from storage.location import FileLocation

    location = config.storage.location
    if isinstance(location, FileLocation) and not location.path.is_file():
        raise click.UsageError(
            f"there is no database {location}: name one with --db, or create it with `courtly "
            "crawl`."
        )
    return location


def host_name(text: str) -> str:
    """A host as stored: in lower case, without port and brackets. Raises UsageError."""
    from crawler.explain.explanation import host_named

    try:
        return host_named(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
