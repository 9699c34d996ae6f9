"""Sessions through another process: which one, and the connection to it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from crawler.config import ConfigError
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.embed import caller_gate
from crawler.embedding.remote_requests import CONNECT_S, DESCRIPTION_BYTES, RemoteRequests
from crawler.embedding.settings import Setup
from crawler.errors import SessionClosed
from storage.location import FileLocation, url_of
from storage.socket_path import short_name, socket_path
from storage.store import StoreRefused

HEADER_BYTES: Final = DESCRIPTION_BYTES + 1_000
# Would otherwise create a database of this name, with clocks of its own.
_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]+/?")


def check_via(via: object, token: object, beside: Mapping[str, object]) -> None:
    """Check the arguments of a session with `via`. beside: those that must not be given with it,
    by name. Raises ConfigError."""
    if not isinstance(via, str | Path) or not str(via):
        raise ConfigError(
            'via: give the address of a daemon, such as "http://127.0.0.1:8710", '
            "or the path of a database"
        )
    given = [name for name, value in beside.items() if value]
    if not is_address(via):
        if isinstance(via, str) and _AUTHORITY.fullmatch(via):
            raise ConfigError(f"via: {via} looks like the address of a daemon: write http://{via}")
        given = [name for name in given if name in ("db", "cache")]
        if token is not None:
            raise ConfigError("token: a database has none; it is for the address of a daemon")
    elif urlsplit(str(via)).hostname is None:
        raise ConfigError(f"via: {via} has no host")
    if given:
        raise ConfigError(f"{given[0]}: cannot be given with via: the other process decides it")


def is_address(via: str | Path) -> bool:
    return str(via).lower().startswith(("http://", "https://"))


@contextlib.asynccontextmanager
async def through(
    via: str | Path, token: str | None, setup: Setup
) -> AsyncIterator[CallerGate | RemoteRequests]:
    """Connect to the process; if none holds the database, open that in this process.

    Raises SessionClosed (the daemon does not answer), ConfigError, StoreRefused (the process that
    holds the database has no socket) and StoreError.
    """
    if is_address(via):
        base = str(via).rstrip("/")
        async with _connected(
            aiohttp.TCPConnector(limit=0), base, f"the daemon at {base}", token
        ) as daemon:
            yield daemon
        return
    storage = {"url": url_of(str(via))}
    location = setup.config.override({"storage": storage}, where="via").storage.location
    if not isinstance(location, FileLocation):
        raise ConfigError(
            "via: several processes can use a PostgreSQL database at the same time: give it as db"
        )
    async with contextlib.AsyncExitStack() as stack:
        yield await _through_file(stack, location, setup)


async def _through_file(
    stack: contextlib.AsyncExitStack, location: FileLocation, setup: Setup
) -> CallerGate | RemoteRequests:
    if (crawl := await _running_crawl(stack, location)) is not None:
        return crawl
    try:
        return await stack.enter_async_context(caller_gate(replace(setup, db=location.path)))
    except StoreRefused:  # a crawl may have begun in the meantime
        if (crawl := await _running_crawl(stack, location)) is not None:
            return crawl
        raise


async def _running_crawl(
    stack: contextlib.AsyncExitStack, location: FileLocation
) -> RemoteRequests | None:
    """The crawl that listens on the socket of the database; None if there is none."""
    path = socket_path(location.path)
    async with contextlib.AsyncExitStack() as opened:
        try:
            name = opened.enter_context(short_name(path))
            connector = aiohttp.UnixConnector(name, limit=0)
            where = f"the crawl that holds {location}"
            crawl = await opened.enter_async_context(
                _connected(connector, "http://localhost", where, None)
            )
        except (OSError, SessionClosed):
            return None
        stack.push_async_exit(opened.pop_all())
        return crawl


@contextlib.asynccontextmanager
async def _connected(
    connector: aiohttp.BaseConnector, base: str, where: str, token: str | None
) -> AsyncIterator[RemoteRequests]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    ) as http:
        remote = RemoteRequests(http, base, where)
        await remote.check()
        try:
            yield remote
        finally:
            await remote.close()
