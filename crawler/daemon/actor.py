"""Who gives a command to the daemon, and from where, for its log."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import struct
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

PAGE: Final = "page"
API: Final = "api"
SOCKET: Final = "socket"
SIGNAL: Final = "signal"
_CREDENTIALS: Final = struct.Struct("3i")  # of a peer: process, user, group (unix(7))


class Actor(Struct, frozen=True, kw_only=True):
    """The person or program that acts. name: of the token that was used, or of the user behind a
    Unix socket; "" where no token is required. peer: the address of the client, or its process.
    via: "page", "api", "socket" or "signal"."""

    name: str = ""
    peer: str = ""
    via: str

    def logged(self) -> dict[str, Any]:
        """The fields of a log event."""
        return {"by": self.name or "anyone", "from": self.peer, "via": self.via}


_acting: ContextVar[Actor | None] = ContextVar("actor", default=None)


@contextlib.contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Commands inside the block are given by this actor."""
    before = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(before)


def acting_client() -> str:
    """Return the client whose limits count: the name of the token, else the user behind a Unix
    socket, else the address; "" outside of `acting`."""
    actor = _acting.get()
    return "" if actor is None else actor.name or actor.peer


def logged_actor() -> Mapping[str, Any]:
    """The fields `by`, `from` and `via` of a log event; empty outside of `acting`."""
    actor = _acting.get()
    return {} if actor is None else actor.logged()


def by_signal(name: str) -> Actor:
    """Whoever sent this process a signal, of which the system does not say more."""
    return Actor(name="signal", peer=name, via=SIGNAL)


def behind_socket(peer: socket.socket | None) -> Actor:
    """The user and the process at the other end of a Unix socket, as the system knows them."""
    if peer is None:
        return Actor(via=SOCKET)
    try:
        raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except (OSError, AttributeError, TypeError):  # closed by now, or not Linux
        return Actor(name=_user(os.getuid()), via=SOCKET)  # the file mode admits no other user
    process, user, _ = _CREDENTIALS.unpack(raw)
    return Actor(name=_user(user), peer=f"process {process}", via=SOCKET)


@lru_cache(maxsize=64)
def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
