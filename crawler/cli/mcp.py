"""`courtly mcp`: one polite session as the tools of a language model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Coroutine, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from crawler.cli import process
from crawler.cli.options import allow_option, config_option, configured, user_agent_option
from crawler.cli.text import say

if TYPE_CHECKING:
    from socket import socket

    from crawler.config import Config
    from crawler.front_door.tls import Certificate
    from storage.location import Location

EXTRA = ("mcp", "trafilatura")  # packages of the extra


@click.command(
    short_help="Serve polite fetching as tools of a language model (MCP).",
    epilog="Stops on SIGINT, SIGTERM, and when the client closes standard input. Exit codes: 0 "
    "stopped, 1 failure at run time, 2 bad usage or config.",
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Listen for HTTP at /mcp instead of using standard input and output. Addresses other "
    "than loopback require --token.",
)
@click.option(
    "--token",
    "token_source",
    metavar="SOURCE",
    help="Where the token is that HTTP clients must send: env:NAME or file:PATH.",
)
@click.option(
    "--host-name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Accept this name in the Host header, for a proxy in front. Can be repeated.",
)
@click.option(
    "--tls-certificate",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Serve HTTPS with this certificate and its chain, in PEM format.",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The key of the certificate, if its file does not contain it.",
)
@click.option(
    "--db",
    metavar="DB",
    help="The database of a crawl, which the tool `why` reads: a path or a postgresql:// URL.  "
    "[default: the config's, if any]",
)
@click.option(
    "--state",
    metavar="FILE",
    help="Keep the pauses of hosts and copies of robots.txt in this database across restarts.",
)
@click.option(
    "--via",
    metavar="DB",
    help="Send all requests through the crawl that holds this database, on its clocks and by its "
    "config; without such a crawl, use the database as with --state.",
)
@click.option(
    "--max-wait",
    "max_wait_s",
    metavar="SECONDS",
    type=click.FloatRange(0, 300),
    default=20.0,
    show_default=True,
    help="The longest wait for a host's turn, unless a call asks for another.",
)
@user_agent_option
@allow_option
@config_option
def mcp(
    address: str | None,
    token_source: str | None,
    names: Sequence[str],
    tls_certificate: Path | None,
    tls_key: Path | None,
    db: str | None,
    state: str | None,
    via: str | None,
    max_wait_s: float,
    user_agent: str | None,
    allow: Sequence[str],
    config_file: Path | None,
) -> None:
    """Serve the tools `fetch`, `may_fetch`, `robots` and `why` by the Model Context Protocol, on
    one polite session. A client, such as an assistant or an editor, starts this command and talks
    to it over standard input and output; see docs/agents.md. The log goes to standard error."""
    missing = [name for name in EXTRA if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"this command needs the package{'s' if missing[1:] else ''} {' and '.join(missing)}: "
            "run pip install 'courtly[mcp]'."
        )
    if address is None and (sys.stdin is None or sys.stdout is None):
        raise click.ClickException(
            "standard input or output is closed, so no client can be served; use --http."
        )
    config = configured(config_file, user_agent=user_agent, allow=allow)
    # A model that gets an error can decide itself whether to try again.
    config = config.override({"fetch": {"max_attempts": 1}})
    if via is not None and state is not None:
        raise click.UsageError("--via and --state exclude each other: both name the database.")
    if via is not None and "://" in via:
        raise click.UsageError("--via: name the database of a crawl, not an address.")
    database = _database(config, db)
    at = None if address is None else _address(address)
    token = _token(token_source)
    if at is None and (token or names or tls_certificate or tls_key):
        raise click.UsageError("--token, --host-name and --tls-… are for --http.")
    certificate = _certificate(tls_certificate, tls_key)
    if at is not None:
        _check_token(at[0], token)
    if not config.has_contact and via is None:
        given = "without --user-agent" if user_agent is None else f"--user-agent {user_agent!r}"
        say(
            f"warning: {given}: only pages on this machine can be fetched; it must contain a web "
            "page or an e-mail address where site owners can reach you",
            err=True,
        )
    if at is None and sys.stdin is not None and sys.stdin.isatty():
        say("waiting for a client on standard input; press Ctrl-C to stop", err=True)
    from crawler.output import nonblocking_output

    with nonblocking_output("stderr"):
        process.run(
            _stoppable(
                _serve(
                    config,
                    at=at,
                    token=token,
                    names=tuple(names),
                    certificate=certificate,
                    database=database,
                    state=state,
                    via=via,
                    max_wait_s=max_wait_s,
                )
            )
        )


async def _serve(
    config: Config,
    *,
    at: tuple[str, int] | None,
    token: str,
    names: tuple[str, ...],
    certificate: Certificate | None,
    database: Location | None,
    state: str | None,
    via: str | None,
    max_wait_s: float,
) -> None:
    import asyncio

    from crawler.clock import RealClock
    from crawler.embedding.session import PoliteSession
    from crawler.front_door.listener import url_of
    from crawler.mcp_server.http_transport import PATH, serving_http
    from crawler.mcp_server.server import make_server, serve_stdio
    from crawler.mcp_server.tools import Tools

    _log_to_stderr()
    clock = RealClock()
    sockets = [] if at is None else await _bound(at)
    with contextlib.ExitStack() as stack:
        for one in sockets:
            stack.enter_context(contextlib.closing(one))
        # --state or --via names its database; that of the config is the crawl's.
        own = config.without_database()
        async with PoliteSession(config=own, db=state, via=via, clock=clock) as session:
            tools = Tools(session, clock, config=own, max_wait_s=max_wait_s, database=database)
            server = make_server(tools, clock)
            if not sockets:
                await serve_stdio(server)
                return
            async with serving_http(
                server, sockets, clock, token=token, names=names, certificate=certificate
            ):
                say(f"listening on {url_of(sockets[0], certificate)}{PATH}", err=True)
                try:
                    await asyncio.Event().wait()
                finally:
                    await session.aclose()  # so that waiting calls get an answer


async def _stoppable(serving: Coroutine[object, object, None]) -> None:
    """Cancel it at SIGINT or SIGTERM, and return."""
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(serving)
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, task.cancel)
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


def _log_to_stderr() -> None:
    import logging

    from crawler.cli.safe_logging import SafeFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter("%(asctime)s %(name)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("courtly.mcp").setLevel(logging.INFO)


def _database(config: Config, db: str | None) -> Location | None:
    """The database of the crawl: that of --db, or that of the config, if it names one that exists.
    Raises UsageError."""
    from crawler.cli.options import existing_database
    from storage.location import FileLocation, url_of

    if db is not None:
        return existing_database(config.override({"storage": {"url": url_of(db)}}, where="--db"))
    location = config.storage.location if config.names_database else None
    missing = isinstance(location, FileLocation) and not location.path.is_file()
    return None if missing else location


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise click.UsageError(f'--http: "{text}" is not HOST:PORT, such as 127.0.0.1:8711.')
    return host, int(port)


async def _bound(at: tuple[str, int]) -> list[socket]:
    from crawler.front_door.listener import bind, listen_error

    try:
        return await bind(*at)
    except OSError as error:
        reason = listen_error(error)
        raise click.ClickException(f"--http: cannot listen on {at[0]}:{at[1]}: {reason}.") from None


def _certificate(file: Path | None, key: Path | None) -> Certificate | None:
    if file is None:
        if key is not None:
            raise click.UsageError("--tls-key needs --tls-certificate.")
        return None
    from crawler.front_door.tls import Certificate, CertificateError

    try:
        return Certificate(file, key)
    except CertificateError as error:
        raise click.UsageError(f"--tls-certificate: {error}.") from None


def _token(source: str | None) -> str:
    if source is None:
        return ""
    from storage.secret_sources import SecretError, is_source, read_source

    if not is_source(source):
        raise click.UsageError("--token: give env:NAME or file:PATH, not the token itself.")
    try:
        token, what = read_source(source)
    except SecretError as error:
        raise click.UsageError(f"--token: {error}.") from None
    if len(token) < 16:
        raise click.UsageError(f"--token: {what} has fewer than 16 characters.")
    return token


def _check_token(host: str, token: str) -> None:
    from policies.address import is_loopback

    if not token and not is_loopback(host):
        raise click.UsageError(
            f"--http: {host} is not a loopback address, so other machines may connect: a token is "
            "required (--token env:NAME)."
        )
