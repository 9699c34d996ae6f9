"""The listener of the page and the API: an address with or without TLS, or a Unix socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator

from crawler.clock import Clock
from crawler.config.daemon_section import DaemonConfig
from crawler.daemon import unix_socket
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.front_door.connections import Connections
from crawler.front_door.listener import accepting, bind, listen_error, url_of
from crawler.front_door.tls import Certificate


class ListenError(Exception):
    """The daemon cannot listen on its address; the message gives the reason."""


@contextlib.asynccontextmanager
async def listening_on(
    section: DaemonConfig,
    connections: Connections,
    certificate: Certificate | None,
    *,
    access: AccessLog,
    clock: Clock,
) -> AsyncIterator[str]:
    """Listen while this is open; yields the URL of the page, or `listen` for a Unix socket. access:
    where failed TLS handshakes are logged. Raises ListenError."""
    if (path := section.unix_path) is not None:
        with _refused(section):
            bound, file = unix_socket.bind_page(
                path, section.listen_file_mode, section.listen_group
            )
        try:
            async with accepting([bound], connections, clock):
                yield section.listen
        finally:
            bound.close()
            unix_socket.remove(path, file)
        return
    with _refused(section):
        found = await bind(*section.listens_on)
    with contextlib.ExitStack() as stack:
        for one in found:
            stack.enter_context(contextlib.closing(one))
        async with accepting(found, connections, clock, certificate=certificate, malformed=access):
            yield f"{url_of(found[0], certificate)}{section.base_path}/"


@contextlib.contextmanager
def _refused(section: DaemonConfig) -> Iterator[None]:
    """Turn an OSError into a ListenError."""
    try:
        yield
    except OSError as error:
        raise ListenError(
            f"cannot listen on {section.listen} (daemon.listen): {listen_error(error)}"
        ) from None
