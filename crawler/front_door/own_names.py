"""Whether a request was meant for this server: its Host and Origin headers, which tell a page of
another site (CSRF, DNS rebinding) from a user of this server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from policies.address import is_loopback

LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class OwnNames:
    """The names of a server.

    names: accepted in Host and Origin besides the address listened on, with a port or for every
    port. listen: that address or name, without port. unix: it listens on a Unix socket.
    any_host: accept every Host header, where each request needs a token that no page of another
    site has. local_pages: accept the Origin of every page of this machine.
    """

    def __init__(
        self,
        names: Iterable[str] = (),
        *,
        listen: str = "",
        unix: bool = False,
        any_host: bool = False,
        local_pages: bool = False,
    ) -> None:
        self._names = {name.lower().rstrip(".") for name in names}
        self._listen = listen
        self._unix = unix
        self._any_host = any_host
        self._local_pages = local_pages

    def accepts_host(self, given: list[str], here: str) -> bool:
        """given: the Host headers. here: the address that the client connected to. A page of
        another site whose name was made to resolve to this address (DNS rebinding) sends the name
        of that site."""
        return len(given) == 1 and (self._any_host or self._is_ours(given[0], here))

    def accepts_origin(self, origin: str, host: str) -> bool:
        """origin: the Origin header. host: the Host header, which was accepted."""
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
            return False
        authority = parts.netloc.lower()
        if authority == host.lower() and not self._any_host:
            return True
        name = name_in(authority)
        if name is None:
            return False
        return (
            authority in self._names
            or name in self._names
            or (self._local_pages and is_loopback(name))
        )

    def _is_ours(self, authority: str, here: str) -> bool:
        name = name_in(authority)
        if name is None:
            return False
        if authority.lower() in self._names or name in self._names:
            return True
        if name in (self._listen, here):
            return True
        return name in LOCAL_NAMES and (self._unix or is_loopback(here))


def name_in(authority: str) -> str | None:
    """The name or address in a Host header: lower case, without port, brackets or trailing dot."""
    try:
        parts = urlsplit(f"//{authority}")
        name = parts.hostname
        _ = parts.port
    except ValueError:
        return None
    if name is None or parts.path or parts.query or parts.fragment or "@" in authority:
        return None
    return name.rstrip(".")
