"""With `per = "ip"`: the clocks of addresses, which count beside those of the hosts."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from weakref import WeakValueDictionary

from crawler.frontier.host_queue import AddressClock, HostQueue
from policies.pacing import address_delay_s


class Addresses:
    """Keeps the clock of each address at which a held host is contacted."""

    def __init__(self) -> None:
        self._clocks: WeakValueDictionary[str, AddressClock] = WeakValueDictionary()

    def move(self, host: HostQueue, address: str, now_s: float) -> None:
        """Record the address at which the host is now contacted.

        A new address waits as if it had just been contacted: it may have been, by the previous run
        or by a host that is no longer held.
        """
        if host.address_clock:
            host.address_clock.queue.pop(host.slot, None)
        place = _plain(address)
        clock = self._clocks.get(place)
        if clock is None:
            rest_s = address_delay_s(host.pace.rules, host.pace.ask)
            clock = self._clocks[place] = AddressClock(now_s + rest_s, now_s)
        host.address = address
        host.address_clock = clock

    def ended(self, clock: AddressClock, host: HostQueue, ended_s: float) -> None:
        """A contact with this host at the address is over."""
        clock.ended_s = ended_s
        clock.ready_s = ended_s + address_delay_s(host.pace.rules, host.pace.ask)

    def reckon(self, hosts: Iterable[HostQueue]) -> None:
        """Recompute the delays of addresses after a change of the rules."""
        rests: dict[AddressClock, float] = {}
        for host in hosts:
            if (clock := host.address_clock) is not None:
                rest_s = address_delay_s(host.pace.rules, host.pace.ask)
                rests[clock] = max(rests.get(clock, 0.0), rest_s)
        for clock, rest_s in rests.items():
            clock.ready_s = clock.ended_s + rest_s


def _plain(address: str) -> str:
    """An IPv4 address that is written as an IPv6 one (`::ffff:192.0.2.1`) is the same machine."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)
