"""With `per = "ip"`: the clocks of addresses, which count beside those of the hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary

from crawler.frontier.host_queue import AddressClock, HostQueue
from policies.pacing import address_delay_s
from storage.store import LeasedAddress

LEASE_MIN_S: Final = 10.0  # minimum time of a lease on an address that other workers want as well
OTHERS_LEASE_S: Final = 2.5  # after it, before the address is asked for again


class Addresses:
    """Keeps the clock of each address at which a leased host is contacted.

    shared: other workers may contact it too. Each address is then leased by one worker at a time,
    as it learns with its pulses, and only that one grants permits for it.
    """

    def __init__(self, *, shared: bool) -> None:
        self._shared = shared
        self._clocks: WeakValueDictionary[str, AddressClock] = WeakValueDictionary()

    def move(self, host: HostQueue, address: str, now_s: float, delay_s: float = 0.0) -> None:
        """Record the address, in the form of `plain_address`, at which the host is now contacted.

        A new address waits as if it had just been contacted: it may have been, by the previous run
        or by a host that is no longer leased. delay_s: its minimum delay from now on.
        """
        if host.address_clock:
            host.address_clock.queue.pop(host.slot, None)
        clock = self._clocks.get(address)
        if clock is None:
            delay_s = max(delay_s, address_delay_s(host.pace.rules, host.pace.ask))
            clock = AddressClock(now_s + delay_s, now_s, leased=not self._shared)
            self._clocks[address] = clock
        host.address = address
        host.address_clock = clock

    def wanted(self, hosts: Iterable[HostQueue], now_s: float) -> dict[str, float]:
        """The addresses that this worker leases or would lease, with their delays. Other addresses
        are leased no longer."""
        delays = self._delays(hosts) if self._clocks else {}
        wanted = {}
        for name, clock in self._clocks.items():
            if clock.busy or (clock in delays and (clock.leased or clock.ask_s <= now_s)):
                wanted[name] = delays.get(clock, 0.0)
            else:
                clock.leased = False
        return wanted

    def lose(self) -> None:
        """Other workers may have contacted all of them."""
        for clock in self._clocks.values():
            clock.leased = False

    def set_leased(self, leased: Mapping[str, LeasedAddress], now_s: float) -> list[AddressClock]:
        """Set which of the wanted addresses this worker leases, and no others. Return
        those that it did not lease before."""
        new = []
        for name, clock in self._clocks.items():
            answer = leased.get(name)
            if answer is None:
                clock.leased = False
            elif clock.leased and answer.wanted and now_s >= clock.leased_s + LEASE_MIN_S:
                clock.leased = False
                clock.ask_s = now_s + OTHERS_LEASE_S
            elif not clock.leased and clock.busy and clock.ask_s > now_s - OTHERS_LEASE_S:
                clock.ask_s = now_s + OTHERS_LEASE_S  # it is left when the contact is over
            elif not clock.leased and clock.ask_s <= now_s:
                clock.leased, clock.leased_s, clock.ended_s = True, now_s, now_s
                clock.ready_s = max(clock.ready_s, now_s + answer.delay_s)
                new.append(clock)
        return new

    def ended(self, clock: AddressClock, host: HostQueue, ended_s: float) -> None:
        """A contact with this host at the address is over."""
        clock.ended_s = ended_s
        clock.ready_s = ended_s + address_delay_s(host.pace.rules, host.pace.ask)

    def recompute(self, hosts: Iterable[HostQueue]) -> None:
        """Recompute the delays of addresses after a change of the rules."""
        for clock, delay_s in self._delays(hosts).items():
            clock.ready_s = clock.ended_s + delay_s

    def _delays(self, hosts: Iterable[HostQueue]) -> dict[AddressClock, float]:
        """The delays of the addresses of these hosts."""
        delays: dict[AddressClock, float] = {}
        for host in hosts:
            if (clock := host.address_clock) is not None:
                delay_s = address_delay_s(host.pace.rules, host.pace.ask)
                delays[clock] = max(delays.get(clock, 0.0), delay_s)
        return delays
