"""`courtly fetch`: one polite fetch of each URL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import interpreter
from crawler.cli.errors import FAILED, stdout_needed, tell
from crawler.cli.options import config_option, configured, user_agent_option
from crawler.cli.text import bytes_out, echo
from crawler.telling.words import plain

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.embedding.session import PoliteSession

WAIT_SAID_S = 1.0  # a wait longer than this is told of, with its reason


@click.command(
    short_help="Fetch URLs politely, each once.",
    epilog="Exit codes: 0 every URL answered below 400, 1 one did not, or may not be fetched, "
    "2 bad usage or config.",
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@user_agent_option
@click.option(
    "--allow",
    multiple=True,
    metavar="RANGE",
    help="Private addresses that may be connected to, such as 127.0.0.0/8.",
)
@config_option
def fetch(
    urls: Sequence[str], user_agent: str | None, allow: Sequence[str], config_file: Path | None
) -> None:
    """Ask robots.txt, wait for the host's turn, fetch: the bodies go to standard output, one line
    for each URL to standard error. Redirects are followed, each under its own verdict."""
    from crawler.config import ConfigError, check_identity
    from crawler.embedding.settings import settings
    from policies.url import SeedError, parse_seed

    stdout_needed()
    config = settings(configured(config_file, None), user_agent=user_agent, allow=allow)
    wanted, problems = [], []
    for text in urls:
        try:
            wanted.append(parse_seed(text))
        except SeedError as error:
            problems.append(str(error).replace("the seed", "the URL", 1))
    if problems:
        raise ConfigError(*problems)
    check_identity(config, wanted)
    # A person waits: what cannot be had now is said, not tried again.
    config = config.override({"fetch": {"max_attempts": 1}})
    if not interpreter.run(_fetch(config, wanted)):
        raise SystemExit(FAILED)


async def _fetch(config: Config, urls: Sequence[str]) -> bool:
    """True if every URL was answered, and below 400."""
    from crawler.embedding.session import PoliteSession

    async with PoliteSession(config=config) as session:
        return all([await _one(session, url) for url in urls])


async def _one(session: PoliteSession, url: str) -> bool:
    from crawler.errors import CourtlyError

    turn = await session.next_turn(url)
    if turn.in_s > WAIT_SAID_S:
        echo(f"waiting {turn.in_s:.1f} s before {url}: {turn.reason}", err=True)
    try:
        response = await session.get(url, retry=False)
    except CourtlyError as error:
        tell(plain(str(error)))
        return False
    led = "".join(f"{one.status} {one.url} -> " for one in response.redirects)
    kind = plain(response.content_type or "no type")
    size = f"{len(response.body):,} bytes, {response.elapsed_s:.2f} s"
    echo(f"{led}{response.status} {response.url} ({kind}, {size})", err=True)
    out = bytes_out()
    out.write(response.body)
    out.flush()
    return response.ok
