"""Trouble of our own machine or network: while there is any, no request begins, and no host, origin
or URL is charged with it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from msgspec.structs import replace

from crawler.clock import Clock, Timer
from crawler.fetching.request import Answer, Failure
from crawler.observer import Observer
from crawler.politeness.host import Host, Turn
from crawler.politeness.turns import Turns
from policies import outage
from policies.holds import CONNECTING, Hold, HoldReason, probe_delay_s
from policies.retries import FailureCode

OURS_IN_A_ROW_MAX = 8  # of one host, while others answer: an address that nothing here can reach
SUSPECTS_MAX = 4_096  # as many as hosts are held
# So many outages in a row that others saw the end of, without an answer in between: such a host is
# gone itself, and its next failure is no sign of another outage.
OUTAGES_MAX = 2
SQUEEZED_FOR_S = (
    30.0  # fewer requests in flight for so long after sockets ran out, then twice as many
)
# Our own rules, or an error of our own, came before the network.
_UNASKED = frozenset({FailureCode.ADDRESS, FailureCode.INTERNAL})
_NETWORK_LOGIN = 511


class Holds:
    """The reasons for which the whole crawl holds now.

    `begin` and `end` are called on the event loop, by whoever finds the trouble and sees it end.
    While a hold is active `Turns` gives no permits, neither for pages nor for robots.txt. Where all
    active holds are trouble of connections, one permit at a time is given as a probe. `judge` is
    shown the result of every request: it finds trouble of connections, and ends it with the first
    host that answers. `ask_again(host)` has a robots.txt of the host that was answered asked for
    once more, if it can.
    """

    def __init__(
        self,
        clock: Clock,
        turns: Turns,
        *,
        ask_again: Callable[[Host], bool] = lambda _: False,
        observer: Observer | None = None,
    ) -> None:
        self._clock = clock
        self._turns = turns
        self._ask_again = ask_again
        self._observer = observer
        self._active: dict[HoldReason, Hold] = {}
        self._probes = 0  # in a row that failed
        self._timer: Timer | None = None
        self._evidence = outage.NONE
        self._hosts_reached = 0
        self._hosts_dead = 0  # that failed at their first try, before the evidence
        self._answered_s = clock.monotonic()  # when a host last answered; or of the beginning
        self._asked = 0  # probes that were for a robots.txt
        self._chosen = False  # was the host of the last probe a chosen one?
        self._outage_until_s = -math.inf  # what began before the end of an outage is part of it
        self._squeezed: Timer | None = None
        self.suspects: list[tuple[str, str]] = []  # origins out of reach since a host answered

    @property
    def current(self) -> tuple[Hold, ...]:
        """The active holds, the oldest first."""
        return tuple(self._active.values())

    @property
    def connecting(self) -> bool:
        """Is trouble of connections all that holds the crawl?"""
        return bool(self._active) and self._active.keys() <= CONNECTING

    def begin(self, reason: HoldReason, detail: str = "") -> None:
        """Hold the crawl for this reason; a reason that is active stays as it is."""
        if reason in self._active:
            return
        hold = Hold(reason=reason, since=self._clock.wall(), detail=detail)
        if not self._active:
            self._probes = 0
        self._active[reason] = hold
        self._turns.stop(reason)
        self._plan_probe()
        if self._observer is not None:
            self._observer.hold_began(hold)

    def end(self, reason: HoldReason) -> None:
        """This reason no longer holds the crawl; it resumes when there is no other."""
        hold = self._active.pop(reason, None)
        if hold is None:
            return
        self._turns.go(reason)
        self._plan_probe()
        if self._squeezed is None and self._turns.squeezed:
            at_s = self._clock.monotonic() + SQUEEZED_FOR_S
            self._squeezed = self._clock.call_at(at_s, self._ease)
        if self._observer is not None:
            self._observer.hold_ended(hold, max(0.0, self._clock.wall() - hold.since))

    # ------------------------------------------------------------ trouble of connections

    def judge(self, turn: Turn, result: Answer | Failure) -> Answer | Failure:
        """What a request came to, with `ours` where neither host nor URL is to be charged."""
        host = turn.host
        if isinstance(result, Answer):
            if not result.gateway:
                self._reached(host)
                return result
            failure = _unreached(result)
            judged = self._judge(turn, failure)
            return result if judged is failure else judged
        if (result.received or result.status is not None) and not result.broken_off:
            self._reached(host)
            return result
        return self._judge(turn, result)

    def _judge(self, turn: Turn, result: Failure) -> Failure:
        host = turn.host
        unasked = result.code in _UNASKED or (result.connected and result.permanent)
        if unasked and result.ours is None:
            if turn.probe:
                self._turns.probe()  # the network was not asked
            return result
        if result.ours is not None:
            host.ours += 1
            if host.ours <= OURS_IN_A_ROW_MAX or result.ours is not HoldReason.PORTS:
                self._turns.squeeze(self._turns.in_flight * 3 // 4)
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
            if outage.is_outage(
                self._evidence,
                hosts_reached=self._hosts_reached,
                hosts_dead=self._hosts_dead,
                silent_s=silent_s,
            ):
                hosts = self._evidence.hosts
                self.begin(HoldReason.NETWORK, f"the last {hosts:,} hosts tried did not answer")
                result = replace(result, ours=HoldReason.NETWORK)
        if turn.probe:
            if host.reached or not self._hosts_reached:
                self._probes += 1  # one that never answered may well be dead: it says little
            self._plan_probe()
            turn.probe = False  # it is spent, also where it is given back for want of a contact
        return result

    def _gather(self, host: Host, failure: Failure) -> None:
        """One more failure that an outage may be the cause of."""
        first = not (host.out_of_reach or host.tried_before or host.outages >= OUTAGES_MAX)
        # There may be no route to the addresses of new hosts (IPv6), and a resolver that does not
        # answer may wait for their nameservers. It shows an outage only where nobody has answered.
        local = failure.local and not self._hosts_reached
        if host.reached or local or first:
            self._evidence = outage.after_failure(
                self._evidence,
                host.slot,
                reached=host.reached,
                local=local,
                connected=failure.connected,
            )

    def _reached(self, host: Host) -> None:
        if not host.reached:
            host.reached = True
            self._hosts_reached += 1
        host.ours = host.tried_before = host.outages = 0
        self._answered_s = self._clock.monotonic()
        if self._evidence is not outage.NONE:
            if HoldReason.NETWORK in self._active:
                self._doubt(host)
            else:
                self._hosts_dead += len(self._evidence.unknown)
            self._evidence = outage.NONE
        if self.suspects:
            self.suspects.clear()
        if self._active:
            if HoldReason.NETWORK in self._active:
                self._outage_until_s = self._answered_s
            for reason in [reason for reason in self._active if reason in CONNECTING]:
                self.end(reason)

    def _doubt(self, answered: Host) -> None:
        """An outage is over. Who fails time and again while others come back counts from now on as
        one that never answered, until it does."""
        evidence = self._evidence
        for slot in evidence.reached | evidence.mute | evidence.unknown:
            host = self._turns.get(slot)
            if host is None or host is answered:
                continue
            host.outages += 1
            if host.outages >= OUTAGES_MAX and host.reached:
                host.reached = False
                self._hosts_reached = max(0, self._hosts_reached - 1)

    def suspect(self, host: Host, origin: str) -> None:
        """An origin went out of reach: if that is an outage, it is tried again at its end."""
        if len(self.suspects) < SUSPECTS_MAX:
            self.suspects.append((host.slot, origin))

    def may_give_up(self, since_s: float) -> bool:
        """May an origin be given up that could not be connected to at `since_s` and now? Not while
        several hosts fail and nobody has answered since: that may become an outage."""
        return self._answered_s > since_s or self._evidence.hosts < outage.REACHED_MIN

    def _ease(self) -> None:
        self._squeezed = None
        if self._turns.ease():
            at_s = self._clock.monotonic() + SQUEEZED_FOR_S
            self._squeezed = self._clock.call_at(at_s, self._ease)

    def close(self) -> None:
        """No more probes. The holds stay, to be read."""
        self._stop_probing()
        if self._squeezed is not None:
            self._squeezed.cancel()

    def _stop_probing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan_probe(self) -> None:
        self._stop_probing()
        if self.connecting:
            at_s = self._clock.monotonic() + probe_delay_s(self._probes)
            self._timer = self._clock.call_at(at_s, self._probe)

    def _probe(self) -> None:
        """Every other probe is for a host that answered before and has not failed since: should all
        others be gone, those that are there are not behind them. Hosts that took connections may
        have failed for the sake of the pages they were asked for: one of them is asked for its
        robots.txt instead, which it has answered before."""
        self._timer = None
        self._chosen = not self._chosen
        host = self._unheard() if self._chosen else None
        if host is None and (mute := self._mute()) is not None:
            # After the task that asks has begun to wait for a turn.
            asyncio.get_running_loop().call_soon(self._turns.probe, mute)
        else:
            self._turns.probe(host)

    def _mute(self) -> Host | None:
        """One of those that took a connection, and a robots.txt is asked for there; another one at
        each probe."""
        slots = sorted(self._evidence.mute)
        self._asked += 1
        for n in range(len(slots)):
            host = self._turns.get(slots[(self._asked + n) % len(slots)])
            if host is not None and self._ask_again(host):
                return host
        return None

    def _unheard(self) -> Host | None:
        failing = self._evidence.reached | self._evidence.mute
        hosts = (host for host in self._turns if host.reached and host.hand)
        return next((host for host in hosts if host.slot not in failing), None)


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
