"""An address is judged when a socket is made for it, however it was come by (law 9)."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Any

from policies.address import AddressRules


class AddressRefusedError(OSError):
    """An address that the rules do not let be connected to."""

    def __init__(self, sentence: str) -> None:
        # The number matters where several refusals are gathered into one error: it is kept.
        super().__init__(errno.EACCES, sentence)
        self.sentence = sentence


AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]


def judged(addresses: AddressRules, address: str) -> None:
    """Raise AddressRefusedError unless `address` may be connected to."""
    if (sentence := addresses.judge(address)) is not None:
        raise AddressRefusedError(sentence)


def socket_guard(addresses: AddressRules) -> Callable[[AddrInfo], socket.socket]:
    """A `socket_factory` for an aiohttp TCPConnector; it raises AddressRefusedError."""

    def make(info: AddrInfo) -> socket.socket:
        family, kind, protocol, _, peer = info
        judged(addresses, peer[0])
        return socket.socket(family, kind, protocol)

    return make
