"""Tells errors of this machine and its network from errors of a host."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from typing import Final

from crawler.threads import is_lack
from policies.holds import HoldReason

# No host can cause these.
OURS: Final[Mapping[int, HoldReason]] = {
    errno.EMFILE: HoldReason.DESCRIPTORS,
    errno.ENFILE: HoldReason.DESCRIPTORS,
    errno.EADDRNOTAVAIL: HoldReason.PORTS,
    errno.EADDRINUSE: HoldReason.PORTS,
    errno.ENOBUFS: HoldReason.PORTS,
    errno.ENOMEM: HoldReason.PORTS,
}
# Reported by our side, but perhaps for one address only: there is no route for IPv6, or a firewall
# of this machine blocks one network.
LOCAL: Final = frozenset({errno.ENETUNREACH, errno.ENETDOWN, errno.EPERM, errno.EACCES})

# Errors of getaddrinfo.
_NAMES_OURS: Final = frozenset({socket.EAI_MEMORY, socket.EAI_SYSTEM})
# Numbers of ares.h, which aiodns passes on: no memory, no configuration; no nameserver reached.
_ARES_OURS: Final = frozenset({14, 15})
_ARES_LOCAL: Final = frozenset({11, 12})


def blame(exc: BaseException) -> tuple[HoldReason | None, bool]:
    """The problem of this machine that an exception shows, or None; and whether our side of the
    network reported it (`Failure.local`)."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, MemoryError) or is_lack(cause):
            return HoldReason.PORTS, False
        if isinstance(cause, socket.gaierror):
            ours = HoldReason.PORTS if cause.errno in _NAMES_OURS else None
            return ours, cause.errno == socket.EAI_AGAIN
        if isinstance(cause, OSError) and cause.errno is not None:
            return OURS.get(cause.errno), cause.errno in LOCAL
        cause = cause.__cause__
    return None, False


def blame_ares(code: object) -> tuple[HoldReason | None, bool]:
    """Return what `blame` does, for an error code of c-ares."""
    return (HoldReason.PORTS if code in _ARES_OURS else None), code in _ARES_LOCAL
