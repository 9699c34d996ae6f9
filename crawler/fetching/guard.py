"""The address guard: checks every address when a socket is made for it (law 9)."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from crawler.config import Config
from crawler.fetching.request import NetworkError
from policies.address import AddressRules
from policies.retries import FailureCode

_LISTENERS: Final[set[tuple[str, int]]] = set()  # where this process itself listens


class AddressRefusedError(OSError):
    """The rules forbid connecting to an address."""

    def __init__(self, sentence: str) -> None:
        # aiohttp keeps the errno when it combines several errors into one.
        super().__init__(errno.EACCES, sentence)
        self.error = NetworkError(FailureCode.ADDRESS, sentence, permanent=True)


AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]


def address_rules(config: Config) -> AddressRules:
    """The addresses that may be connected to: those of `[network] allow`, and without a contact in
    the user agent only loopback ones of them (law 10)."""
    rules = AddressRules.parse(config.network.allow)
    return rules if config.has_contact else replace(rules, loopback_only=True)


def judged(addresses: AddressRules, address: str) -> None:
    """Raise AddressRefusedError unless `address` may be connected to."""
    if (sentence := addresses.judge(address)) is not None:
        raise AddressRefusedError(sentence)


def socket_guard(addresses: AddressRules) -> Callable[[AddrInfo], socket.socket]:
    """A `socket_factory` for aiohttp's TCPConnector that raises AddressRefusedError."""

    def make(info: AddrInfo) -> socket.socket:
        family, kind, protocol, _, peer = info
        address = peer[0]
        judged(addresses, address)
        if _LISTENERS and _is_listener(address, peer[1]):
            raise AddressRefusedError(
                f"{address}:{peer[1]} is an address on which this crawler itself listens"
            )
        made = socket.socket(family, kind, protocol)
        if addresses.names(address) or not _can_bind(made, peer):
            return made
        made.close()
        if _bind_tells(family) or _is_ours(family, peer):
            raise AddressRefusedError(
                f"{address} is an address of this machine that network.allow does not permit"
            )
        return socket.socket(family, kind, protocol)

    return make


def _can_bind(made: socket.socket, peer: tuple[Any, ...]) -> bool:
    """Whether an address can be bound to. Only addresses of this machine can, including those of
    networks routed to it, unless it is configured to permit any (`_bind_tells`)."""
    try:
        made.bind((peer[0], 0, *peer[2:]))
    except OSError:
        return False
    return True


def _bind_tells(family: int) -> bool:
    """Whether the system permits binding to local addresses only."""
    version = "ipv6" if family == socket.AF_INET6 else "ipv4"
    try:
        setting = Path(f"/proc/sys/net/{version}/ip_nonlocal_bind").read_text(encoding="ascii")
    except OSError:
        return False
    return setting.strip() == "0"


def _is_local(family: int, peer: tuple[Any, ...]) -> bool:
    """Whether an address belongs to this machine."""
    if not _bind_tells(family):
        return _is_ours(family, peer)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        return _can_bind(probe, peer)


def _is_ours(family: int, peer: tuple[Any, ...]) -> bool:
    """Whether the route to an address starts at that address or stays on this machine. Sends
    nothing."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(peer)
        except OSError:
            return False
        source = _plain(probe.getsockname()[0])
        return source.is_loopback or source == _plain(peer[0])


def _plain(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found if mapped is None else mapped


@contextlib.contextmanager
def listening(address: str, port: int) -> Iterator[None]:
    """Refuse connections to an address while this process listens at it, whatever is allowed:
    otherwise a crawl could read its own control page."""
    place = (address, port)
    _LISTENERS.add(place)
    try:
        yield
    finally:
        _LISTENERS.discard(place)


def _is_listener(address: str, port: int) -> bool:
    """Whether this process listens at `address` under any of its spellings."""
    for bound, bound_port in _LISTENERS:
        if bound_port != port:
            continue
        asked, at = _plain(address), _plain(bound)
        if at == asked or (asked.is_unspecified and (at.is_loopback or at.is_unspecified)):
            return True
        if at.is_unspecified:  # at all addresses of this machine
            family = socket.AF_INET if asked.version == 4 else socket.AF_INET6
            if asked.is_loopback or _is_local(family, (str(asked), port)):
                return True
    return False
