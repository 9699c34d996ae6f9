"""The address guard (law 9): whether an address may be connected to, whatever its name is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _table(rows: Iterable[tuple[str, str]]) -> tuple[tuple[Network, str], ...]:
    return tuple((ipaddress.ip_network(text), words) for text, words in rows)


# IANA's special-purpose registries (RFC 6890 and its updates); the first match applies. Not
# `is_global`, which differs between Python releases, and treats some of these (IPv4-compatible,
# local NAT64, site-local) as public.
_SPECIAL_4: Final = _table(
    (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a shared address behind a carrier's NAT"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "an address for internal services of a cloud"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "an address reserved for protocols"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.31.196.0/24", "an address of AS112"),
        ("192.52.193.0/24", "an address for multicast tunnels"),
        ("192.88.99.0/24", "a reserved address"),
        ("192.168.0.0/16", "a private address"),
        ("192.175.48.0/24", "an address of AS112"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
_SPECIAL_6: Final = _table(
    (
        ("::/128", "the unspecified address"),
        ("::1/128", "a loopback address"),
        ("64:ff9b:1::/48", "an address for local translation to IPv4"),
        ("100::/64", "a discard-only address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
        ("2001:4:112::/48", "an address of AS112"),
        ("2620:4f:8000::/48", "an address of AS112"),
        ("2001:2::/48", "a benchmarking address"),
        ("2001:db8::/32", "a documentation address"),
        ("3fff::/20", "a documentation address"),
        ("2001::/23", "an address reserved for protocols"),
    )
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # all addresses that have been assigned
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = 0x0000_5EFE
_ISATAP_BITS: Final = 0x0300_0000
_LOOPBACK_4: Final = ipaddress.IPv4Network("127.0.0.0/8")


class AddressRules(Struct, frozen=True):
    """The addresses that may be connected to: public ones, and those in `[network] allow`."""

    allow: tuple[Network, ...] = ()
    loopback_only: bool = False  # law 10: without a contact in the user agent

    @classmethod
    def parse(cls, ranges: Iterable[str]) -> AddressRules:
        """Parse ranges such as `127.0.0.0/8`, or single addresses. Raises ValueError."""
        return cls(tuple(_parse_range(text) for text in ranges))

    def judge(self, address: str) -> str | None:
        """Return None if this address may be connected to, otherwise a sentence with the reason.

        address: a literal in the form of the socket module; an IPv6 zone is ignored. An IPv4
        address inside an IPv6 one (mapped, 6to4, Teredo, NAT64, ISATAP) is judged as well."""
        parsed = _parse_address(address)
        if parsed is None:
            return f"{address!r} is not an IP address"
        if self.loopback_only and not is_loopback(address):
            return (
                f"{address} is not a loopback address, and without a contact in crawl.user_agent "
                "only those may be connected to"
            )
        if self._allowed(parsed):
            return None
        carried, alone = _carried(parsed)
        if alone and (words := _special(parsed)) is not None:
            return _refusal(address, words)
        for inner in carried:
            if not self._allowed(inner) and (words := _special(inner)) is not None:
                return _refusal(address, f"another form of {inner}, {words}")
        return None

    def names(self, address: str) -> bool:
        """Return whether `[network] allow` contains this address."""
        parsed = _parse_address(address)
        return parsed is not None and self._allowed(parsed)

    def _allowed(self, address: Address) -> bool:
        return any(address in network for network in self.allow)


def is_loopback(host_or_address: str) -> bool:
    """Return whether a host is this machine by its spelling alone (law 10): `localhost` or a
    loopback address in any form. `[network] resolve` is not considered."""
    if host_or_address.rstrip(".").lower() == "localhost":
        return True
    address = _parse_address(host_or_address.removeprefix("[").removesuffix("]"))
    if isinstance(address, ipaddress.IPv6Address):
        return address.is_loopback or (
            address.ipv4_mapped is not None and address.ipv4_mapped in _LOOPBACK_4
        )
    return address is not None and address in _LOOPBACK_4


def _refusal(address: str, words: str) -> str:
    return f"{address} is {words}, which network.allow does not permit"


def _parse_address(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _parse_range(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        pass
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f'{text!r} is not an address range such as "127.0.0.0/8"') from None
    raise ValueError(f'{text!r} has bits set beyond its prefix; did you mean "{network}"?')


def _carried(address: Address) -> tuple[list[ipaddress.IPv4Address], bool]:
    """The IPv4 addresses inside an IPv6 one (for Teredo the server's and the client's), and whether
    the address around them must be judged as well."""
    if isinstance(address, ipaddress.IPv4Address):
        return [], True
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped], False
    last = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _NAT64:
        return [last], False
    found: list[ipaddress.IPv4Address] = []
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    elif address.teredo is not None:
        found += address.teredo
    alone = address.teredo is None
    # RFC 5214, 6.1; two flag bits may be set.
    if int(address) >> 32 & 0xFFFF_FFFF & ~_ISATAP_BITS == _ISATAP:
        found.append(last)
    return found, alone


def _special(address: Address) -> str | None:
    """The kind of a special-purpose address, with an article; None for a public one."""
    v4 = isinstance(address, ipaddress.IPv4Address)
    for network, words in _SPECIAL_4 if v4 else _SPECIAL_6:
        if address in network:
            return words
    return None if v4 or address in _GLOBAL_UNICAST else "a reserved address"
