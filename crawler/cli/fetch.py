"""`courtly fetch`: fetch URLs politely."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import process
from crawler.cli.exit_codes import FAILED, print_problems
from crawler.cli.options import allow_option, config_option, configured, user_agent_option
from crawler.cli.standard_streams import require_stdout
from crawler.cli.text import bytes_out, echo
from crawler.explain.formatting import plain

if TYPE_CHECKING:
    from crawler.config import Config
    from crawler.embedding.session import PoliteSession

WAIT_SHOWN_S = 1.0  # longer waits are reported with their reason


@click.command(
    short_help="Fetch URLs politely.",
    epilog="Exit codes: 0 every URL answered with a status below 400, 1 some did not or "
    "were disallowed, 2 bad usage or config.",
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@user_agent_option
@allow_option
@config_option
def fetch(
    urls: Sequence[str], user_agent: str | None, allow: Sequence[str], config_file: Path | None
) -> None:
    """Check robots.txt, wait for the host's delay, and fetch each URL. Write the bodies to standard
    output, and one line per URL to standard error. Redirects are followed if robots.txt allows
    their targets."""
    from crawler.config import ConfigError, check_identity
    from policies.url import SeedError, parse_seed

    require_stdout()
    config = configured(config_file, user_agent=user_agent, allow=allow)
    wanted, problems = [], []
    for text in urls:
        try:
            wanted.append(parse_seed(text))
        except SeedError as error:
            problems.append(str(error).replace("the seed", "the URL", 1))
    if problems:
        raise ConfigError(*problems)
    check_identity(config, wanted)
    # Report errors immediately instead of retrying: the user is waiting.
    config = config.override({"fetch": {"max_attempts": 1}})
    if not process.run(_fetch_all(config, wanted)):
        raise SystemExit(FAILED)


async def _fetch_all(config: Config, urls: Sequence[str]) -> bool:
    """Return whether every URL answered with a status below 400."""
    from crawler.embedding.session import PoliteSession

    async with PoliteSession(config=config.without_database()) as session:
        return all([await _fetch(session, url) for url in urls])


async def _fetch(session: PoliteSession, url: str) -> bool:
    from crawler.config import ConfigError
    from crawler.config.units import format_duration
    from crawler.errors import CourtlyError
    from storage.store import StoreError

    turn = await session.next_turn(url)
    if turn.in_s > WAIT_SHOWN_S:
        wait = format_duration(turn.in_s)
        echo(f"waiting {wait} before {url}: {turn.reason}", err=True)
    try:
        response = await session.get(url, retry=False)
    except (ConfigError, StoreError):
        raise  # it ends the command, with an exit code of its own
    except CourtlyError as error:
        print_problems(plain(str(error)))
        return False
    redirects = "".join(f"{one.status} {one.url} -> " for one in response.redirects)
    kind = plain(response.content_type or "no type")
    size = f"{len(response.body):,} bytes, {response.elapsed_s:.2f} s"
    echo(f"{redirects}{response.status} {response.url} ({kind}, {size})", err=True)
    out = bytes_out()
    out.write(response.body)
    out.flush()
    return response.ok
