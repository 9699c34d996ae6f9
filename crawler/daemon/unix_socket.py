"""Unix sockets, which their file modes protect: the one beside a database, through which commands
of the same user reach the crawl that holds it, and one that serves the page."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from storage.safe_files import check_folder
from storage.socket_path import short_name, socket_path

if TYPE_CHECKING:
    from aiohttp import web

_log = logging.getLogger("courtly.http")

BACKLOG = 128  # connections waiting to be accepted; the default of aiohttp
CONNECT_S = 1.0  # to find out whether another process listens


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
        remove(path, ours)


@contextlib.asynccontextmanager
async def _served(app: web.Application, bound: socket.socket) -> AsyncIterator[None]:
    from crawler.clock import RealClock
    from crawler.front_door.connections import serving  # heavy
    from crawler.front_door.listener import accepting

    clock = RealClock()
    async with serving(app, clock) as connections, accepting([bound], connections, clock):
        yield


def remove(path: Path, ours: os.stat_result) -> None:
    """Remove the file of a socket, unless another process has replaced it."""
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


def bind_page(path: Path, mode: int, group: str) -> tuple[socket.socket, os.stat_result]:
    """Create a socket for the page, for the members of a group as well if `mode` admits them.

    group: a name or a number, "" for that of the process. A socket that nobody listens on is a
    leftover, and replaced. Raises OSError, also if another process listens there, and for a folder
    that every user may write to.
    """
    check_folder(path.parent)
    if _is_served(path):
        raise OSError("another process listens there")
    number = _group(group)
    made, ours = bind(path)
    try:
        if number not in (-1, ours.st_gid):
            try:
                os.chown(path, -1, number, follow_symlinks=False)
            except OSError as error:
                why = (error.strerror or "").lower()
                raise OSError(
                    f"the socket cannot be given to the group {group} (daemon.listen_group), of "
                    f"which the user of the daemon has to be a member: {why}"
                ) from None
        path.chmod(mode)  # last: until now, only the owner can connect
    except OSError:
        made.close()
        remove(path, ours)
        raise
    return made, path.lstat()


def _is_served(path: Path) -> bool:
    """Whether a process accepts connections at a socket, or has too many already."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
        made.settimeout(CONNECT_S)
        try:
            with short_name(path) as name:
                made.connect(name)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except TimeoutError:
            return True
    return True


def _group(name: str) -> int:
    """The number of a group; -1 for "". Raises OSError."""
    if not name:
        return -1
    if name.isdecimal():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise OSError(f"there is no group {name} (daemon.listen_group)") from None
