"""`courtly robots`: the verdicts of a robots.txt on URLs, in every dialect, and its mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from crawler.cli.options import (
    Choice,
    allow_option,
    config_option,
    configured,
    json_option,
    user_agent_option,
)
from crawler.cli.standard_streams import require_stdout

ALL = "all"  # the value of --dialect for a table of all dialects

_Command = TypeVar("_Command", bound=Callable[..., object])


@click.group(short_help="Check URLs against robots.txt files, or find mistakes in one.")
def robots() -> None:
    """Check URLs against robots.txt files, one or thousands, or find mistakes in such a file."""


def _agent_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option("--agent", "agents", multiple=True, metavar="A", help=help_text)


def _dialect_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option("--dialect", "dialects", multiple=True, metavar="D", help=help_text)


@robots.command(
    short_help="Check whether URLs are allowed, and why.",
    epilog="Exit codes: 0 whatever the verdicts are, 1 a robots.txt could not be requested, "
    "2 bad usage, an unreadable file or an unknown dialect, 3 a verdict is not as `--expect` says.",
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--robots",
    "file",
    metavar="FILE|-",
    help="Use this file, or standard input. Without it, robots.txt is fetched politely.",
)
@_agent_option(
    "Name of the crawler in robots.txt. Can be repeated, in order of preference.  "
    "[default: the config's token or the user agent's, else courtly]"
)
@_dialect_option(
    "Dialect in which robots.txt is read. Can be repeated: the strictest verdict counts. "
    '"all" prints a table of all dialects.  [default: the config\'s, else slurp]'
)
@click.option(
    "--expect",
    type=Choice(["allow", "disallow"]),
    help="Show only URLs whose verdict is another one, and exit with code 3 if there are any. With "
    "--dialect all, every dialect counts.",
)
@user_agent_option
@allow_option
@config_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per URL, each on its own line."
)
def check(
    urls: tuple[str, ...],
    config_file: Path | None,
    agents: tuple[str, ...],
    dialects: tuple[str, ...],
    **options: Any,
) -> None:
    """Check whether robots.txt allows each URL: by which line, for which group, and in which
    dialects the verdict differs. URLs are used as given, without decoding, escaping or
    normalization. @FILE stands for the URLs in a file, one per line, and @- for those on standard
    input.
    """
    from crawler.cli.robots import url_checks

    url_checks.check(
        urls,
        options["file"],
        url_checks.CheckOptions(
            config=configured(
                config_file, user_agent=options["user_agent"], allow=options["allow"]
            ),
            agents=_tokens(agents),
            dialects=_names(dialects),
            all_dialects=_is_all(dialects),
            as_json=options["as_json"],
            expected=options["expect"] and options["expect"] == "allow",
        ),
    )


@robots.command(
    short_help="Check many URLs: JSON lines in, JSON lines out.",
    epilog="Exit codes: 0 all lines were answered, 1 some were answered with an error, "
    "2 bad usage or an unknown dialect.",
)
@_agent_option("For lines that do not name one.  [default: courtly]")
@_dialect_option("For lines that do not name one.  [default: slurp]")
def batch(agents: tuple[str, ...], dialects: tuple[str, ...]) -> None:
    """Read JSON lines from standard input, and answer each with one line, in order:

    \b
    {"robots": "User-agent: *\\nDisallow: /a", "url": "/a", "agent": "mybot"}
    {"allowed": false, "rule": "Disallow: /a", "line": 2}

    `robots` is the text of the file, or `robots_b64` its bytes in Base64; `url` is used as given;
    `agent` and `dialect` may be lists, and the strictest verdict of several dialects counts.
    An invalid line, including one with unknown keys, is answered with {"error": "…"}. Blank lines
    are ignored.
    """
    from crawler.cli.robots.verdict_batch import answer_all

    require_stdout()
    names = _names(dialects)
    if _is_all(dialects):
        raise click.UsageError('--dialect: a batch requires names of dialects, not "all"')
    answer_all(agents=_tokens(agents) or ("courtly",), dialects=names or ("slurp",))


@robots.command(
    short_help="Find mistakes in a robots.txt.",
    epilog="Exit codes: 0 no errors (warnings and notes do not count), 1 errors, or robots.txt "
    "could not be fetched, 2 bad usage or an unreadable file.",
)
@click.argument("what", metavar="FILE|URL|-")
@user_agent_option
@allow_option
@config_option
@json_option
def lint(
    what: str,
    user_agent: str | None,
    allow: tuple[str, ...],
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Find mistakes in a robots.txt: a file, standard input (-), or the robots.txt of a URL's site,
    which is fetched politely. Errors: lines that do not have the intended effect. Warnings: lines
    that dialects interpret differently, or probable mistakes. Notes: for information only.
    """
    from crawler.cli.robots.lint_report import lint as report

    report(configured(config_file, user_agent=user_agent, allow=allow), what, as_json=as_json)


def _tokens(agents: Sequence[str]) -> tuple[str, ...]:
    """Product tokens; a whole user agent is replaced by its product token."""
    from crawler.config import product_token

    tokens = [product_token(agent) if "/" in agent else agent for agent in map(str.strip, agents)]
    if not all(tokens):
        raise click.UsageError("--agent: must be the name of a crawler such as examplebot")
    return tuple(tokens)


def _is_all(dialects: Sequence[str]) -> bool:
    return ALL in map(str.lower, dialects)


def _names(dialects: Sequence[str]) -> tuple[str, ...]:
    """The canonical names of dialects, without `all`. Raises UsageError."""
    from policies import robots as engine

    names = [name for name in dialects if name.lower() != ALL]
    try:
        return tuple(row.name for row in engine.dialects(names)) if names else ()
    except engine.UnknownDialectError as error:
        raise click.UsageError(f"--dialect: {error}") from None
