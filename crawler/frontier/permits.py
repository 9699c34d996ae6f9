"""Grants permits: to workers for any host with prefetched URLs, to others for a given host.

No polling: waiting hosts cost one entry of a heap each.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from crawler.clock import Clock
from crawler.frontier.addresses import Addresses
from crawler.frontier.alarms import WallWatch
from crawler.frontier.commands import LOOK_FOR_WORK, NEXT_PASS, CommandQueue
from crawler.frontier.commit_buffer import CommitBuffer
from crawler.frontier.fair_queue import ReadyLines
from crawler.frontier.grant_limits import GrantLimits
from crawler.frontier.host_queue import AddressClock, HostQueue, Permit, plain_address
from crawler.frontier.large_bodies import LargeBodies
from crawler.frontier.pace import NEVER
from crawler.frontier.process_contacts import share_contacts
from crawler.frontier.stops import Stop, Stops
from crawler.frontier.tickets import FrontierClosedError, Ticket
from crawler.frontier.workbench import Workbench
from policies.scope import Skip
from storage.store import Contact, LeasedAddress

# What may wait to be parsed, so that a wave of hosts is contacted on time and parsed while they
# rest. Where parsing takes the time, this much waits always, and should still be in the processor's
# cache.
UNPARSED_BYTES_MAX: Final = 4_000_000


class Permits:
    """The leased hosts on their workbench; grants at most `limit` permits at a time over all.

    Invariant: each host is in one of three places: on the workbench (waiting until its time, or
    ready and waiting for `limit`), in line for a worker, or away (nothing to do, paused, all lanes
    in use). `consider` moves it after any change. A permit is granted only to a host whose `Pace`
    allows a contact now, so no host is contacted early.
    """

    def __init__(
        self,
        clock: Clock,
        buffer: CommitBuffer,
        commands: CommandQueue,
        *,
        limit: int,
        shared: bool = False,
    ) -> None:
        self._clock = clock
        self._buffer = buffer
        self._commands = commands
        self.limits = GrantLimits(limit)
        self.large_bodies = LargeBodies(clock, self.limits.without_place)
        self.hosts: dict[str, HostQueue] = {}  # by slot; `register` and `drop` change it
        self._bench: Workbench[HostQueue] = Workbench()
        self._ready = ReadyLines()
        self._workers: deque[Ticket[Permit]] = deque()
        self._addresses = Addresses(shared=shared)
        self._wall = WallWatch(clock)
        self._closed = False
        self._shared_contacts = share_contacts(clock)
        self.stops = Stops()
        self._resumed_s = NEVER
        self.pages_closed_by: Skip | None = None  # a limit of the run; robots.txt is still fetched
        self._unparsed_bytes = 0
        self.directed = 0  # tickets for one host that wait

    # ------------------------------------------------------------ hosts

    def __len__(self) -> int:
        return len(self.hosts)

    def __iter__(self) -> Iterator[HostQueue]:
        return iter(self.hosts.values())

    def register(self, host: HostQueue) -> None:
        """Grant permits for a host that has just been leased, from now on."""
        self.hosts[host.slot] = host
        self.limits.domains.add(host.domain)
        self.consider(host)

    def use(self, host: HostQueue) -> None:
        """A caller uses the host: it comes last in the order of iteration."""
        host.used_s = self._clock.monotonic()
        self.hosts[host.slot] = self.hosts.pop(host.slot)

    def drop(self, host: HostQueue) -> None:
        """The host is no longer leased: released, or its lease was lost."""
        host.gone = True
        host.alarms.clear()
        self._bench.remove(host)
        if self.hosts.pop(host.slot, None) is not None:
            self.limits.domains.remove(host.domain)
        self._refuse(host, f"{host.slot} is no longer leased")

    # ------------------------------------------------------------ asking

    def for_any_host(self) -> Ticket[Permit]:
        """A ticket for a permit at any host that has prefetched URLs; it may be served already."""
        ticket: Ticket[Permit] = Ticket()
        if self._closed:
            ticket.refuse("the crawl is ending")
        elif self._ready.waiting and (permit := self._from_line()):
            ticket.serve(permit)
        else:
            self._workers.append(ticket)
            if self._bench.waiting:
                self._pump()
        return ticket

    def for_host(self, host: HostQueue) -> Permit | Ticket[Permit]:
        """A permit at this host, or a ticket for one, served in order and before its pages. Raises
        FrontierClosedError."""
        if self._closed or host.gone:
            raise FrontierClosedError("the crawl is ending")
        if not (host.wants_permit or host.paused) and self._may_grant:
            now_s = self._clock.monotonic()  # nobody waits: the workbench is spared
            at_s = self._ready_s(host, now_s)
            if at_s is not None and at_s <= now_s:
                permit = self._grant(host, at_s, now_s)
                if permit is not None:
                    return permit
        ticket: Ticket[Permit] = Ticket()
        host.tickets.append(ticket)
        self.directed += 1
        self.consider(host)
        return ticket

    def withdraw(self, ticket: Ticket[Permit], host: HostQueue | None = None) -> None:
        """The task that waited for the ticket was cancelled. host: the one the ticket is for."""
        if host is not None and not ticket.done:
            self.directed -= 1
        if (permit := ticket.withdraw()) is not None:
            self.give_back(permit)

    # ------------------------------------------------------------ stopping all hosts

    def stop(self, why: Stop) -> None:
        """Grant no more permits, for pages or robots.txt, until `go` with the same reason."""
        self.stops.add(why)

    def go(self, why: Stop) -> None:
        """Remove this reason; permits are granted again when there is no other."""
        self.stops.remove(why)
        if not self.stops.reasons:
            self._resumed_s = self._clock.monotonic()
        self._pump()

    def probe(self, host: HostQueue | None = None) -> None:
        """Grant one permit although the crawl is held: to this host if a ticket or a page of it
        waits and it is ready, else to the next host that is. A probe given back unused is granted
        again."""
        self.stops.allow_probes(1)
        if host is not None:
            self._put_first(host)
        self._pump()

    def _put_first(self, host: HostQueue) -> None:
        """Served before all others, if it is ready."""
        now_s = self._clock.monotonic()
        if host.tickets:
            at_s = self._ready_since(host, now_s) if self._may_grant else None
            if at_s is not None and (ticket := _next_waiting(host.tickets)):
                self._serve_ticket(ticket, host, at_s, now_s)
            return
        if not host.in_line:
            if not host.prefetched or self._ready_since(host, now_s) is None:
                return
            self._bench.remove(host)
        self._ready.put_first(host)

    def is_void(self, permit: Permit) -> bool:
        """Return whether its host or the whole crawl was paused or held since it was granted, or
        its pace got stricter. Then it is given back, and no contact begins."""
        host = permit.host
        if host.paused or permit.revision != host.pace.revision:
            return True
        return bool(self.stops.reasons) and not (permit.probe and not self.stops.paused)

    def recompute_addresses(self) -> None:
        """The rules changed: recompute the delays of addresses."""
        self._addresses.recompute(self.hosts.values())

    def set_limit(self, limit: int) -> None:
        """Change how many permits may be open; those granted stay."""
        self.limits.set(limit)
        self._pump()

    def ease(self) -> bool:
        """Double the number of permits after it was squeezed. True: it is still squeezed."""
        self.limits.ease()
        self._pump()
        return self.limits.squeezed

    @property
    def pages_open(self) -> bool:
        """Whether permits for pages are granted."""
        return self.pages_closed_by is None

    def close_pages(self, limit: Skip | None) -> None:
        """Stop granting permits for pages because of a limit of the run, or resume (None); those
        for robots.txt continue."""
        if limit == self.pages_closed_by:
            return
        self.pages_closed_by = limit
        if limit is None:
            self._pump()

    def count_unparsed(self, host: HostQueue, size_bytes: int) -> None:
        """A small body of this size waits to be parsed; negative: it no longer does. (Large ones
        have places in `large_bodies`.)

        No permits for pages are granted while more than UNPARSED_BYTES_MAX wait.
        """
        self.limits.count_unparsed(host.domain, size_bytes / UNPARSED_BYTES_MAX)
        self._unparsed_bytes += size_bytes
        resumes = size_bytes < 0 and self._unparsed_bytes <= UNPARSED_BYTES_MAX
        if resumes and self._workers and self._ready.waiting:
            self._pump()

    def close(self) -> None:
        """Grant no more permits; those granted stay valid."""
        self._closed = self._shared_contacts.closed = True
        while ticket := _next_waiting(self._workers):
            ticket.refuse("the crawl is ending")
        for host in self.hosts.values():
            self._refuse(host, "the crawl is ending")

    def _refuse(self, host: HostQueue, why: str) -> None:
        while ticket := _next_waiting(host.tickets):
            self.directed -= 1
            ticket.refuse(why)

    # ------------------------------------------------------------ ending a permit

    def end(
        self, permit: Permit, *, started_s: float, ended_s: float, kind: str, status: int | None
    ) -> None:
        """End the contact: the host's delay counts from `ended_s`."""
        permit.over = True
        host = permit.host
        pace = host.pace
        permit.unproven = pace.end(permit.follows_s, permit.allowed_s, started_s, ended_s)
        self._shared_contacts.end(host.slot, ended_s, pace.delay.delay_s, pace.backoff_until_s)
        wall_s = self._clock.wall() - self._clock.monotonic()
        contact = Contact(
            start_at=started_s + wall_s, end_at=ended_s + wall_s, kind=kind, status=status
        )
        host.contacts_new.append(contact)
        if permit.address_clock:
            self._addresses.ended(permit.address_clock, host, ended_s)
        self._over(permit)

    def give_back(self, permit: Permit) -> None:
        """Return an unused permit: no contact was made, so no delay follows."""
        if permit.over:
            return
        permit.over = True
        permit.host.pace.undo(permit.follows_s)
        self._shared_contacts.give_back(permit.host.slot)
        if permit.probe:
            self.stops.allow_probes(1)
        self._over(permit)

    def _over(self, permit: Permit) -> None:
        self.limits.end(permit.host.domain)
        if self._closed and not self.limits.open:
            self._commands.put_once(LOOK_FOR_WORK)  # the end of the crawl waits for it
        if clock := permit.address_clock:
            clock.busy = False
            self._free(clock)
        self._seat(permit.host)
        self._pump()

    def _free(self, clock: AddressClock) -> None:
        """The address is free: seat the hosts in its queue, up to the first that waits for it
        alone, or that takes it immediately."""
        now_s, wall_s = self._clock.monotonic(), self._clock.wall()
        while clock.queue and clock.leased and not clock.busy:
            host = clock.queue.pop(next(iter(clock.queue)))
            self.consider(host)
            waits = host.pace.wait(now_s, wall_s)
            if host.wants_permit and waits and waits[0] <= clock.ready_s:
                return

    def set_address(self, host: HostQueue, address: str, *, delay_s: float = 0.0) -> None:
        """Set the address this host is contacted at, whose clock counts too (with `per = "ip"`).
        delay_s: its minimum delay from now on, as far as the store knows."""
        plain = plain_address(address)
        if host.address == plain:
            return
        self._addresses.move(host, plain, self._clock.monotonic(), delay_s)
        self.consider(host)

    def wanted_addresses(self) -> dict[str, float]:
        """The addresses that this worker leases or would lease, with their delays."""
        return self._addresses.wanted(self.hosts.values(), self._clock.monotonic())

    def set_leased_addresses(self, leased: Mapping[str, LeasedAddress]) -> None:
        """Set which of the wanted addresses this worker leases, and no others."""
        for clock in self._addresses.set_leased(leased, self._clock.monotonic()):
            self._free(clock)
        self._pump()

    def lose_addresses(self) -> None:
        """Lose the leases of all addresses: other workers may have contacted them."""
        self._addresses.lose()

    # ------------------------------------------------------------ the mechanism

    def consider(self, host: HostQueue) -> None:
        """Find the host's place after a change. Cheap; safe to call at any time."""
        ready = self._seat(host)
        if ready:
            self._pump()
        elif ready is False:
            self._arm()

    def _seat(self, host: HostQueue) -> bool | None:
        """Is it ready? None: it has no place on the workbench, or keeps the one it has."""
        if host.gone or self._closed:
            return None
        if host.paused or not (host.tickets or host.prefetched):  # as in `HostQueue.wants_permit`
            self._bench.remove(host)
            host.wanted_s = None
            return None
        now_s = self._clock.monotonic()
        if host.wanted_s is None:
            host.wanted_s = now_s
        if host.in_line and not host.tickets:
            return None
        at_s = self._ready_s(host, now_s)
        if at_s is None:
            self._bench.remove(host)
            return None
        self._bench.put(host, at_s)
        return at_s <= now_s

    def _ready_s(self, host: HostQueue, now_s: float) -> float | None:
        at_s = host.pace.ready_s(now_s, self._clock.wall)
        if at_s is None:
            return None
        if at_s > now_s and host.pace.windowed:
            self._wall.begin()
        if (clock := host.address_clock) is not None:
            if clock.busy or not clock.leased:
                clock.queue[host.slot] = host
                return None
            at_s = max(at_s, clock.ready_s)
        if self._shared_contacts.register.sharers > 1:
            at_s = max(at_s, self.others_leave_s(host, now_s, claim=True))
        return at_s

    def others_leave_s(self, host: HostQueue, now_s: float, *, claim: bool = False) -> float:
        """Return when the other crawls and sessions of this process leave the host to this one; see
        `SharedContacts.free_s`."""
        return self._shared_contacts.free_s(host.slot, now_s, host.pace.delay.delay_s, claim=claim)

    @property
    def in_flight(self) -> int:
        """Open permits."""
        return self.limits.open

    @property
    def _may_grant(self) -> bool:
        return self.limits.allow and not self.stops.closed

    def next_pass(self) -> None:
        """The event loop has looked at the network since the last permit was granted."""
        self.limits.next_pass(self._clock.monotonic())
        self._pump()

    def _grant(self, host: HostQueue, at_s: float, now_s: float) -> Permit | None:
        """None: a session in another thread has just begun to contact the host."""
        if not self._shared_contacts.begin(host.slot, now_s, host.pace.delay.delay_s):
            return None
        self.limits.begin(host.domain)
        clock = host.address_clock
        if clock:
            clock.busy = True
        permit = Permit(host, host.pace.begin(), at_s, clock)
        if self.stops.reasons:
            permit.probe = True
            self.stops.allow_probes(0)
        wanted_s = now_s if host.wanted_s is None else host.wanted_s
        permit.revision = host.pace.revision
        permit.could_s = max(permit.allowed_s, wanted_s, self._resumed_s)
        if host.pace.delay.delay_s:  # else nothing is ever late
            # A host that has not been contacted yet does not show that we are late.
            late_s = 0.0 if permit.follows_s == NEVER else now_s - permit.could_s
            if self.limits.count_in_pass(late_s, now_s):
                self._commands.put_once(NEXT_PASS)
        return permit

    def _ready_since(self, host: HostQueue, now_s: float) -> float | None:
        """Still ready, as the workbench believed, and since when? If not, it is seated anew."""
        if host.gone or not host.wants_permit:
            return None
        at_s = self._ready_s(host, now_s)
        if at_s is None:
            return None
        if at_s > now_s:
            self._bench.put(host, at_s)
            return None
        return at_s

    def _from_line(self) -> Permit | None:
        """A permit for a page."""
        now_s = self._clock.monotonic()
        if (
            self.pages_closed_by is not None
            or self.stops.closed
            or self._unparsed_bytes > UNPARSED_BYTES_MAX
            or self._buffer.full
        ):
            return None
        while self.limits.allow and (host := self._ready.pop(self.limits.allow_domain, now_s)):
            if host.prefetched and (at_s := self._ready_since(host, now_s)) is not None:
                permit = self._grant(host, at_s, now_s)
                if permit is not None:
                    if self.limits.load.interval_s:
                        self.limits.pages.began(host.domain, now_s)
                    host.yields = False
                    self._reseat(host, now_s)
                    return permit
            if not host.gone:
                self._reseat(host, now_s)
        return None

    def _pump(self) -> None:
        """Serve tickets, as far as hosts are ready and the limit allows.

        All ready hosts with pages are put in line: in which order they are served is decided
        there, and not by which was ready first. A probe is for the first in line.
        """
        self.limits.pages.refused_until_s = math.inf  # they are looked at again
        if self._closed or self.stops.closed:
            return
        if self.stops.reasons:
            self._serve_line()
        now_s = self._clock.monotonic()
        kept: list[tuple[HostQueue, float]] = []
        while host := self._bench.take(now_s):
            if host.tickets:
                if (at_s := self._ready_since(host, now_s)) is None:
                    continue
                if not self._may_grant:
                    kept.append((host, at_s))
                    continue
                if host.yields and self._serve_page_first(host):
                    continue
                if ticket := _next_waiting(host.tickets):
                    self._serve_ticket(ticket, host, at_s, now_s)
                    continue
            if host.prefetched and not host.in_line:
                self._ready.append(host)
        for host, at_s in kept:
            self._bench.put(host, at_s)
        self._serve_line()
        if self._bench.waiting or self._ready.waiting:
            self._arm()

    def _serve_line(self) -> None:
        """Grant permits for pages, as far as workers wait for them."""
        while self._workers and self._ready.waiting and (permit := self._from_line()):
            self._serve(permit)

    def _serve_page_first(self, host: HostQueue) -> bool:
        """Grant a permit for a page of this host, before its tickets. False: it has no page, or no
        worker waits."""
        if not (host.prefetched and self._workers):
            return False
        self._ready.put_first(host)
        if (permit := self._from_line()) is None:
            return False
        self._serve(permit)
        return permit.host is host

    def _serve_ticket(
        self, ticket: Ticket[Permit], host: HostQueue, at_s: float, now_s: float
    ) -> None:
        """Grant the permit to the first ticket for this host, which has left its line."""
        permit = self._grant(host, at_s, now_s)
        if permit is None:
            host.tickets.appendleft(ticket)
        else:
            self.directed -= 1
            ticket.serve(permit)
        self._reseat(host, now_s)

    def _reseat(self, host: HostQueue, now_s: float) -> None:
        """Put the host back on the workbench after a grant: the next lane may be ready as well."""
        if (
            host.pace.busy < host.pace.lanes
            and host.wants_permit
            and (at_s := self._ready_s(host, now_s)) is not None
        ):
            self._bench.put(host, at_s)

    def _serve(self, permit: Permit) -> None:
        if ticket := _next_waiting(self._workers):
            ticket.serve(permit)
        else:
            self.give_back(permit)

    # ------------------------------------------------------------ time

    def _arm(self) -> None:
        if (at_s := self.wake_at()) is not None:
            self._commands.wake_by(at_s)

    def wake_at(self) -> float | None:
        """The time when `advance` must be called; None: not before the next change."""
        at_s = self._bench.next_at()
        if (
            refused_until_s := self.limits.pages.refused_until_s
        ) < math.inf and self._ready.waiting:
            at_s = refused_until_s if at_s is None else min(at_s, refused_until_s)
        if at_s is None or self.stops.paused:
            return None
        if not self._may_grant:  # until a permit ends, or the next pass
            return self._wall.look_s if self._wall.on else None
        return min(at_s, self._wall.look_s) if self._wall.on else at_s

    def advance(self) -> None:
        """Time has passed."""
        if self._wall.on:
            self._wall.looked()
            self._look_at_wall()
        self._pump()

    def next_at(self) -> float | None:
        """Return when the first of the hosts that wait and have something to do may be
        contacted."""
        if self._wall.on and self._look_at_wall():
            self._pump()
        return self._bench.next_at()

    def _look_at_wall(self) -> bool:
        """Seat anew the hosts that wait for a visit window if the wall clock was set meanwhile, or
        advanced while the machine slept. Return whether it was."""
        if not self._wall.stepped():
            return False
        windowed = [host for host in self.hosts.values() if host.pace.windowed]
        self._wall.on = bool(windowed)
        for host in windowed:
            self._seat(host)
        return True


def _next_waiting(tickets: deque[Ticket[Permit]]) -> Ticket[Permit] | None:
    """Remove and return the first ticket that still waits; those before it were withdrawn."""
    while tickets:
        ticket = tickets.popleft()
        if not ticket.done:
            return ticket
    return None
