"""`courtly robots`: what a robots.txt says of URLs, in every dialect, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from crawler.cli.errors import stdout_needed
from crawler.cli.options import config_option, configured, user_agent_option

if TYPE_CHECKING:
    from crawler.config import Config

ALL = "all"

_Command = TypeVar("_Command", bound=Callable[..., object])


@click.group(short_help="Judge URLs by robots.txt files, or look for faults in one.")
def robots() -> None:
    """Judge URLs by robots.txt files, one or thousands, or look for faults in such a file."""


def _allow_option(command: _Command) -> _Command:
    return click.option(
        "--allow",
        multiple=True,
        metavar="RANGE",
        help="Private addresses that may be connected to, such as 127.0.0.0/8.",
    )(command)


def _agent_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option("--agent", multiple=True, metavar="A", help=help_text)


def _dialect_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option("--dialect", multiple=True, metavar="D", help=help_text)


def _json_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option("--json", "as_json", is_flag=True, help=help_text)


@robots.command(
    short_help="Say whether URLs may be asked for, and why.",
    epilog="Exit codes: 0 whatever the verdicts are, 1 where robots.txt could not be asked for, "
    "2 bad usage, an unreadable file or an unknown dialect.",
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--robots",
    "file",
    metavar="FILE|-",
    help="Judge by this file, or by standard input; without it, robots.txt is fetched politely.",
)
@_agent_option(
    "The crawler's name in robots.txt; several, the most preferred first.  "
    "[default: the config's token or the user agent's, else courtly]"
)
@_dialect_option(
    'How robots.txt is read; of several the strictest counts; "all" is a table of all.  '
    "[default: the config's, else slurp]"
)
@user_agent_option
@_allow_option
@config_option
@_json_option("Print one JSON object for each URL, a line each.")
def check(
    urls: tuple[str, ...],
    file: str | None,
    agent: tuple[str, ...],
    dialect: tuple[str, ...],
    user_agent: str | None,
    allow: tuple[str, ...],
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Say of each URL whether robots.txt allows it, by which line, for which group, and where
    dialects differ. A URL is judged as given: nothing is decoded, escaped or made canonical first.
    """
    from crawler.cli.robots import check as robots_check

    config = _configured(config_file, user_agent, allow)
    asked = robots_check.Asked(
        config=config, agents=_agents(agent), dialects=_dialects(dialect), every=_every(dialect)
    )
    robots_check.check(asked, urls, file, json_lines=as_json)


@robots.command(
    short_help="Judge many URLs: JSON lines in, JSON lines out.",
    epilog="Exit codes: 0 all lines were answered, 1 some were answered with an error, "
    "2 bad usage or an unknown dialect.",
)
@_agent_option("For lines without one.  [default: courtly]")
@_dialect_option("For lines without one.  [default: slurp]")
def batch(agent: tuple[str, ...], dialect: tuple[str, ...]) -> None:
    """Answer JSON lines on standard input, in order, a line each:

    \b
    {"robots": "User-agent: *\\nDisallow: /a", "url": "/a", "agent": "mybot"}
    {"allowed": false, "rule": "Disallow: /a", "line": 2}

    `robots` is the text of the file, or `robots_b64` its bytes; `url` is judged as given; `agent`
    may be a list, `dialect` too: then the strictest verdict counts. A line that cannot be answered
    is answered {"error": "…"}, one with other keys too. Blank lines are passed over.
    """
    from crawler.cli.robots.batch import answer_all

    stdout_needed()
    named = _dialects(dialect)
    if _every(dialect):
        raise click.UsageError('--dialect: a batch takes names, not "all"')
    answer_all(agents=_agents(agent) or ("courtly",), dialects=named or ("slurp",))


@robots.command(
    short_help="Look for faults in a robots.txt.",
    epilog="Exit codes: 0 no errors (warnings and notes are none), 1 errors, or robots.txt could "
    "not be had, 2 bad usage or an unreadable file.",
)
@click.argument("what", metavar="FILE|URL|-")
@user_agent_option
@_allow_option
@config_option
@_json_option("Print one JSON object.")
def lint(
    what: str,
    user_agent: str | None,
    allow: tuple[str, ...],
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Say what the owner of a robots.txt would want to know: a file, standard input (-), or the
    robots.txt of a URL's site, fetched politely. Errors do not do what they were written for,
    warnings are read differently by dialects or are probably mistakes, notes are good to know.
    """
    from crawler.cli.robots.lint import lint as run

    run(_configured(config_file, user_agent, allow), what, as_json=as_json)


def _configured(config_file: Path | None, user_agent: str | None, allow: Sequence[str]) -> Config:
    config = configured(config_file, None)
    if user_agent is not None:
        config = config.override({"crawl": {"user_agent": user_agent}}, where="--user-agent")
    if allow:
        ranges = (*config.network.allow, *allow)
        config = config.override({"network": {"allow": ranges}}, where="--allow")
    return config


def _agents(given: Sequence[str]) -> tuple[str, ...]:
    """Product tokens; a whole user agent is taken for the token in it."""
    from crawler.config import product_token

    tokens = [product_token(agent) if "/" in agent else agent for agent in map(str.strip, given)]
    if not all(tokens):
        raise click.UsageError("--agent: must be a crawler's name such as examplebot")
    return tuple(tokens)


def _every(given: Sequence[str]) -> bool:
    return ALL in map(str.lower, given)


def _dialects(given: Sequence[str]) -> tuple[str, ...]:
    from policies import robots as readings

    names = [name for name in given if name.lower() != ALL]
    try:
        return tuple(row.name for row in readings.dialects(names)) if names else ()
    except readings.UnknownDialectError as error:
        raise click.UsageError(f"--dialect: {error}") from None
