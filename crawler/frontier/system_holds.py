"""Faults of this machine or its network: while one lasts, no requests are sent, and no failure
counts against a host, origin or URL."""

from __future__ import annotations

import math

from msgspec.structs import replace

from crawler.clock import Clock, ContactDeadline
from crawler.fetching.request import Answer, Failure
from crawler.frontier.commands import BREAK_OFF, NEXT_PASS, CommandQueue
from crawler.frontier.host_queue import HostQueue, Permit
from crawler.frontier.permits import Permits
from crawler.frontier.robots_cache import RobotsCache
from crawler.observer import Observer
from policies import holds
from policies.holds import CONNECTING, FaultOwner, Hold, HoldReason, probe_delay_s
from policies.retries import FailureCode

OURS_IN_A_ROW_MAX = 8  # of one host, while others answer: an address unreachable from here
SUSPECTS_MAX = 4_096  # as many as hosts are leased
# Outages in a row whose end others saw, without an answer of this host in between: the host is gone
# itself, and its next failure is no sign of another holds.
OUTAGES_MAX = 2
# After sockets ran out, fewer requests are in flight for this long, then twice as many.
SQUEEZED_FOR_S = 30.0
# Our own rules, or an internal error, prevented the request.
_UNASKED = frozenset({FailureCode.ADDRESS, FailureCode.INTERNAL})
_NETWORK_LOGIN = 511
UNHEARD_S = 5.0  # between probes, as long as there are hosts whose answer would end an outage
_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples, less whole numbers, are spread evenly over 0 to 1


class SystemHolds:
    """The reasons for which the whole crawl holds now.

    `begin` and `end` are called by whoever finds the fault and sees it pass. While a hold is active
    no permits are granted, neither for pages nor for robots.txt. Where all active holds concern
    connections, one permit at a time is granted as a probe. `judge` examines the result of every
    request: it detects faults of connections, and ends their holds with the first host that
    answers.
    """

    def __init__(
        self,
        clock: Clock,
        permits: Permits,
        robots: RobotsCache,
        commands: CommandQueue,
        faults: FaultOwner,
        *,
        observer: Observer | None = None,
    ) -> None:
        self._clock = clock
        self._permits = permits
        self._robots = robots
        self._commands = commands
        self._faults = faults
        self._observer = observer
        self._active: dict[HoldReason, Hold] = {}
        self._probes = 0  # in a row that failed
        self._probe_s: float | None = None  # when the next one is due
        self._mute_probe: HostQueue | None = None  # to be probed after the next pass of the loop
        self._evidence = holds.NONE
        self._hosts_reached = 0
        self._hosts_dead = 0  # that failed at their first try, before the evidence
        self._answered_s = clock.monotonic()  # when a host last answered; at first, the start
        self._asked = 0  # probes that were for a robots.txt
        self._chosen = False  # was the host of the last probe a chosen one?
        self._choices = 0  # probes of a chosen host
        self._outage_until_s = -math.inf  # what began before the end of an outage is part of it
        self._ease_s: float | None = None
        self.suspects: list[tuple[str, str]] = []  # origins out of reach since a host answered

    @property
    def current(self) -> tuple[Hold, ...]:
        """The active holds, the oldest first."""
        return tuple(self._active.values())

    @property
    def connecting(self) -> bool:
        """Whether all active holds concern connections."""
        return bool(self._active) and self._active.keys() <= CONNECTING

    def begin(self, reason: HoldReason, detail: str = "") -> None:
        """Hold the crawl for this reason; a reason that is active stays as it is."""
        if reason in self._active:
            return
        hold = Hold(reason=reason, since=self._clock.wall(), detail=detail)
        if not self._active:
            self._probes = 0
        self._active[reason] = hold
        self._permits.stop(reason)
        self._plan_probe()
        if self._observer is not None:
            self._observer.hold_began(hold)

    def end(self, reason: HoldReason) -> None:
        """End a hold for this reason; the crawl resumes when there is no other."""
        hold = self._active.pop(reason, None)
        if hold is None:
            return
        self._permits.go(reason)
        self._plan_probe()
        if self._ease_s is None and self._permits.limits.squeezed:
            self._ease_later()
        if self._observer is not None:
            self._observer.hold_ended(hold, max(0.0, self._clock.wall() - hold.since))

    # ------------------------------------------------------------ faults of connections

    def excuses(self, failure: Failure) -> bool:
        """Return whether the request is repeated without counting as an attempt: after a fault that
        the crawl handles, when the leases have expired, and on a stale connection."""
        if failure.stale or failure.ours is HoldReason.LEASES_EXPIRED:
            return True
        return failure.ours is not None and self._faults is FaultOwner.CRAWL

    def judge(self, permit: Permit, result: Answer | Failure) -> Answer | Failure:
        """Return the result of a request, with `ours` set if neither host nor URL is to be
        charged."""
        if self._faults is FaultOwner.CALLER:
            return result
        host = permit.host
        if isinstance(result, Failure) and (
            result.stopped or result.ours is HoldReason.LEASES_EXPIRED
        ):
            permit.probe = False
            return result  # it says nothing of the network, and its hold begins elsewhere
        if isinstance(result, Answer):
            if not result.gateway:
                self._reached(host)
                return result
            failure = _unreached(result)
            judged = self._judge(permit, failure)
            return result if judged is failure else judged
        if (result.received or result.status is not None) and not result.broken_off:
            self._reached(host)
            return result
        return self._judge(permit, result)

    def _judge(self, permit: Permit, result: Failure) -> Failure:
        host = permit.host
        unasked = result.code in _UNASKED or (result.connected and result.permanent)
        if unasked and result.ours is None:
            if permit.probe:
                self._permits.probe()  # the network was not asked
            return result
        if result.ours is not None:
            host.ours += 1
            if host.ours <= OURS_IN_A_ROW_MAX or result.ours is not HoldReason.PORTS:
                self._permits.limits.squeeze(self._permits.in_flight * 3 // 4)
                self.begin(result.ours, result.sentence)
            else:
                result = replace(result, ours=None)
        elif result.started_s < self._outage_until_s:
            result = replace(result, ours=HoldReason.NETWORK)
        elif HoldReason.NETWORK in self._active:
            self._gather(host, result)
            result = replace(result, ours=HoldReason.NETWORK)
        else:
            self._gather(host, result)
            silent_s = self._clock.monotonic() - self._answered_s
            if holds.is_outage(
                self._evidence,
                hosts_reached=self._hosts_reached,
                hosts_dead=self._hosts_dead,
                silent_s=silent_s,
            ):
                hosts = self._evidence.hosts
                self.begin(HoldReason.NETWORK, f"the last {hosts:,} hosts tried did not answer")
                result = replace(result, ours=HoldReason.NETWORK)
        if permit.probe:
            if host.reached or not self._hosts_reached:
                self._probes += 1  # one that never answered may well be dead: it says little
            self._plan_probe()
            permit.probe = False  # it is spent, also where it is given back for want of a contact
        return result

    def _gather(self, host: HostQueue, failure: Failure) -> None:
        """One more failure that an outage may be the cause of. Not the failure of a host that
        answered before, and now let us wait while others were answered: many that fall silent can
        fail in one moment, between two answers of others."""
        waited = self._answered_s > (failure.started_s + failure.ended_s) / 2
        if waited and (host.reached or failure.connected):
            return
        first = not (host.out_of_reach or host.tried_before or host.outages >= OUTAGES_MAX)
        # There may be no route to the addresses of new hosts (IPv6), and a resolver that does not
        # answer may wait for their nameservers. It shows an outage only where nobody has answered.
        local = failure.local and not self._hosts_reached
        if host.reached or local or first:
            self._evidence = holds.after_failure(
                self._evidence,
                host.slot,
                reached=host.reached,
                local=local,
                connected=failure.connected,
            )

    def _reached(self, host: HostQueue) -> None:
        if not host.reached:
            host.reached = True
            self._hosts_reached += 1
        host.ours = host.tried_before = host.outages = 0
        self._answered_s = self._clock.monotonic()
        if self._evidence is not holds.NONE:
            if HoldReason.NETWORK in self._active:
                self._doubt(host)
            else:
                self._hosts_dead += len(self._evidence.unknown)
            self._evidence = holds.NONE
        if self.suspects:
            self.suspects.clear()
        if self._active:
            if HoldReason.NETWORK in self._active:
                self._outage_until_s = self._answered_s
            for reason in [reason for reason in self._active if reason in CONNECTING]:
                self.end(reason)

    def _doubt(self, answered: HostQueue) -> None:
        """An outage is over. A host that keeps failing while others recover is treated as one that
        never answered, until it does."""
        evidence = self._evidence
        for slot in evidence.reached | evidence.mute | evidence.unknown:
            host = self._permits.hosts.get(slot)
            if host is None or host is answered:
                continue
            host.outages += 1
            if host.outages >= OUTAGES_MAX and host.reached:
                host.reached = False
                self._hosts_reached = max(0, self._hosts_reached - 1)

    def suspect(self, host: HostQueue, origin: str) -> None:
        """An origin went out of reach: if that is an outage, it is tried again at its end."""
        if len(self.suspects) < SUSPECTS_MAX:
            self.suspects.append((host.slot, origin))

    def may_give_up(self, since_s: float) -> bool:
        """Return whether an origin may be given up that could not be connected to at `since_s` and
        now. Not while several hosts fail and nobody has answered since: that may become an outage.
        """
        return self._answered_s > since_s or self._evidence.hosts < holds.REACHED_MIN

    # ------------------------------------------------------------ time

    def _ease_later(self) -> None:
        self._ease_s = self._clock.monotonic() + SQUEEZED_FOR_S
        self._commands.wake_by(self._ease_s)

    def _plan_probe(self) -> None:
        self._probe_s = None
        if self.connecting:
            delay_s = probe_delay_s(self._probes)
            if HoldReason.NETWORK in self._active and self._unheard():
                delay_s = min(delay_s, UNHEARD_S)
            self._probe_s = self._clock.monotonic() + delay_s
            self._commands.wake_by(self._probe_s)

    def wake_at(self) -> float | None:
        """The time when `advance` must be called (monotonic seconds)."""
        return min((at for at in (self._probe_s, self._ease_s) if at is not None), default=None)

    def advance(self, now_s: float) -> None:
        """Time has passed."""
        if self._ease_s is not None and self._ease_s <= now_s:
            self._ease_s = None
            if self._permits.ease():
                self._ease_later()
        if self._probe_s is not None and self._probe_s <= now_s:
            self._probe_s = None
            self._probe()

    def next_pass(self) -> None:
        """A robots fetch that was begun for a probe has asked for its permit by now."""
        if self._mute_probe is not None:
            host, self._mute_probe = self._mute_probe, None
            self._permits.probe(host)

    def close(self) -> None:
        """Send no more probes. The holds stay, to be shown."""
        self._probe_s = self._ease_s = self._mute_probe = None

    def _probe(self) -> None:
        """Every other probe is for a host that answered before and has not failed since: should all
        others be gone, such hosts must not have to wait behind them. Hosts that took connections
        may have failed because of the pages requested: one of them is asked for its robots.txt
        instead, which it has answered before."""
        self._chosen = not self._chosen
        host = self._one_unheard() if self._chosen else None
        if host is None and (mute := self._mute()) is not None:
            self._mute_probe = mute
            self._commands.put_once(NEXT_PASS)
        else:
            self._permits.probe(host)

    def _mute(self) -> HostQueue | None:
        """One of the hosts that took a connection, whose robots.txt is fetched now; another one at
        each probe."""
        slots = sorted(self._evidence.mute)
        self._asked += 1
        for n in range(len(slots)):
            host = self._permits.hosts.get(slots[(self._asked + n) % len(slots)])
            if host is not None and self._robots.refetch_answered(host):
                return host
        return None

    def _unheard(self) -> list[HostQueue]:
        """The hosts that answered before and have not failed since."""
        failing = self._evidence.reached | self._evidence.mute
        hosts = [host for host in self._permits if host.reached and host.prefetched]
        return [host for host in hosts if host.slot not in failing]

    def _one_unheard(self) -> HostQueue | None:
        """Another one at each probe, from anywhere among them: hosts that stand together may be
        those of one server, which is down."""
        hosts = self._unheard()
        self._choices += 1
        return hosts[int(self._choices * _GOLDEN % 1 * len(hosts))] if hosts else None


def _unreached(answer: Answer) -> Failure:
    """An answer of what stands between us and its host, as the failure that it amounts to. A proxy
    may speak of one host; a network that asks for a login does not."""
    network = answer.status == _NETWORK_LOGIN
    whose = "the network asks for a login" if network else "the proxy could not reach the server"
    return Failure(
        url=answer.url,
        code=FailureCode.CONNECT if network else FailureCode.HTTP,
        sentence=f"{whose} ({answer.status})",
        connected=not network,
        local=network,
        permanent=False,
        started_s=answer.started_s,
        ended_s=answer.ended_s,
    )


class LeaseExpiry:
    """The deadline until which a worker of a shared store may contact its hosts. In a store that is
    not shared there is none.

    The hold keeps permits from being granted. Beside it, `may_contact` must be checked in the same
    step of the event loop in which a request is begun: when a stopped process continues, other
    tasks may run before the timer that begins the hold.
    """

    def __init__(
        self, clock: Clock, deadline: ContactDeadline, holds: SystemHolds, commands: CommandQueue
    ) -> None:
        self._clock = clock
        self._deadline = deadline
        self._holds = holds
        self._commands = commands
        self._wake_s: float | None = None

    def may_contact(self, *, for_s: float = 0.0) -> bool:
        """Return whether a request may be sent now, and for how many seconds more."""
        if self._deadline.until_s == math.inf or self._deadline.left_s > for_s:
            return True
        if self._deadline.passed:
            self._expire()
        return False

    def renewed(self, until_s: float) -> None:
        """The leases last until then (`Clock.boottime`)."""
        self._deadline.until_s = max(until_s, self._deadline.until_s)
        self._plan()
        if not self._deadline.passed:
            self._holds.end(HoldReason.LEASES_EXPIRED)

    def _plan(self) -> None:
        self._wake_s = self._clock.monotonic() + max(0.0, self._deadline.left_s)
        self._commands.wake_by(self._wake_s)

    def wake_at(self) -> float | None:
        """The time when `advance` must be called (monotonic seconds)."""
        return self._wake_s

    def advance(self, now_s: float) -> None:
        """Time has passed."""
        if self._wake_s is not None and self._wake_s <= now_s:
            if self._deadline.passed:
                self._expire()
            else:
                self._plan()

    def _expire(self) -> None:
        """Requests in flight are broken off: another worker may be about to contact their hosts."""
        if self._wake_s is not None:
            self._wake_s = None
            self._commands.put(BREAK_OFF)
        self._holds.begin(HoldReason.LEASES_EXPIRED)
