"""The local socket beside a database, through which commands of the same user reach the crawl that
holds it. Its file mode protects it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.socket_path import short_name, socket_path

if TYPE_CHECKING:
    from aiohttp import web

_log = logging.getLogger("courtly.http")

BACKLOG = 128  # connections waiting to be accepted; the default of aiohttp


@contextlib.asynccontextmanager
async def serving(
    app: web.Application, database: Path, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """Serve on the socket. Only for the process that holds the database: an existing socket is a
    leftover, and is removed. If no socket can be created, `warn` receives the reason, and the crawl
    continues without."""
    with _bound(database, warn) as bound:
        if bound is None:
            yield
        else:
            async with _served(app, bound):
                yield


@contextlib.asynccontextmanager
async def serving_on_demand(
    load: Callable[[], AbstractAsyncContextManager[web.Application]],
    database: Path,
    warn: Callable[[str], None],
) -> AsyncIterator[None]:
    """Serve the application that `load` creates when the first client connects; clients wait in the
    meantime. If `load` fails, the error is logged, and the crawl continues without."""
    with _bound(database, warn) as bound:
        if bound is None:
            yield
            return
        bound.listen(BACKLOG)
        connected, over = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(bound, connected.set)

        async def serve() -> None:
            await connected.wait()
            loop.remove_reader(bound)
            try:
                async with load() as app, _served(app, bound):
                    await over.wait()
            except Exception:  # noqa: BLE001 - it must not end the crawl
                _log.exception("serving on the socket %s failed", socket_path(database))
                bound.close()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(serve())
            try:
                yield
            finally:
                over.set()
                if not connected.is_set():
                    loop.remove_reader(bound)
                    task.cancel()


@contextlib.contextmanager
def _bound(database: Path, warn: Callable[[str], None]) -> Iterator[socket.socket | None]:
    path = socket_path(database)
    try:
        bound, ours = bind(path)
    except OSError as error:
        warn(f"{path}: no socket for other commands: {error.strerror or error}")
        yield None
        return
    try:
        yield bound
    finally:
        bound.close()
        _remove(path, ours)


@contextlib.asynccontextmanager
async def _served(app: web.Application, bound: socket.socket) -> AsyncIterator[None]:
    from crawler.clock import RealClock
    from crawler.daemon.connections import serving  # heavy

    async with serving(app, RealClock()) as connections:
        loop = asyncio.get_running_loop()
        # From Python 3.13 on, asyncio would look the socket up under the name that it was bound to,
        # which may be a short one that no longer exists, and delete it. `_remove` does that.
        keep: dict[str, Any] = {} if sys.version_info < (3, 13) else {"cleanup_socket": False}
        server = await loop.create_unix_server(connections, sock=bound, backlog=BACKLOG, **keep)
        try:
            yield
        finally:
            server.close()


def _remove(path: Path, ours: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        if os.path.samestat(ours, path.lstat()):
            path.unlink()


def bind(path: Path) -> tuple[socket.socket, os.stat_result]:
    """Create a socket of mode 0600; return it and the identity of its file. Raises OSError, for a
    path that is too long as well."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError("a file of that name exists and is not a socket")
        path.unlink()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)  # no other user may connect, from the first moment on
    try:
        with short_name(path) as name:
            made.bind(name)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    finally:
        os.umask(before)
    return made, path.lstat()
