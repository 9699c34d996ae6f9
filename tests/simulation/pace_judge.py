"""Never early, and never late without a reason: judged by the sites' own log.

A contact is early if it is early by the mildest of all rules that may have been in force, and late
if it is late by the strictest of them. Nothing here uses the program's own pacing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.availability import Availability
from tests.simulation.history import Done, History, RunRecord
from tests.simulation.robots_model import (
    ConfigTimeline,
    RobotsTimeline,
    Times,
    paces,
    uncertain_times,
)
from tests.simulation.switches import RETRY_AFTER_ON_EVERY_STATUS
from tests.simulation.web import Contact

EDGE_S: Final = 2e-6
DAY_S: Final = 86_400.0
BACKOFF_FIRST_S: Final = 60.0
DENIALS: Final = 20
LATENCY_MAX_S: Final = 60.0
NEVER: Final = -math.inf


@dataclass(slots=True)
class Bounds:
    """The least and the largest value that a quantity may have."""

    low: float = 0.0
    high: float = 0.0


@dataclass(slots=True)
class Slot:
    """What the log says of one slot up to a moment."""

    name: str
    hosts: set[str]
    contacts: list[Contact] = field(default_factory=list)  # begun
    ended_s: float = NEVER  # the last end
    backoff: Bounds = field(default_factory=lambda: Bounds(NEVER, NEVER))
    level: Bounds = field(default_factory=Bounds)
    denials: int = 0
    forgiven_s: float = NEVER  # when a success last ended
    latency: Bounds | None = None


class PaceJudge:
    """Judges the pace of all slots. `problems` are what it found."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.configs = ConfigTimeline(history)
        self.robots = RobotsTimeline(history, self.configs)
        self.controls = Controls(history)
        self.available = Availability(history, self.configs, self.robots)
        self.problems: list[str] = []
        self._uncertain = uncertain_times(history)
        self._config = history.configs[0][2]
        self.slots: dict[str, Slot] = {}
        for contact in history.contacts:
            name = self._config.slot_of(contact.host)
            self.slots.setdefault(name, Slot(name, set())).hosts.add(contact.host)
        self._address_ends: dict[str, list[Contact]] = defaultdict(list)
        self._judges_addresses = str(self._config.politeness.per) == "ip"
        self._stepped = Times((at_s, at_s) for at_s, _ in history.steps)

    def judge(self) -> list[str]:
        events: list[tuple[float, int, int, Contact]] = []
        for contact in self.history.contacts:
            events.append((contact.start_s, 1, contact.number, contact))
            if contact.end_s < math.inf:
                events.append((contact.end_s, 0, contact.number, contact))
        for _, begins, _, contact in sorted(events, key=lambda event: event[:3]):
            slot = self.slots[self._config.slot_of(contact.host)]
            if begins:
                self._begin(slot, contact)
            else:
                self._end(slot, contact)
        return self.problems

    # ------------------------------------------------------------ the delay

    def delay(self, slot: Slot, at_s: float) -> Bounds:
        """The delay between contacts by the rules at this time."""
        asked, rated, missing = self._asked(slot, at_s)
        slow = self.controls.slow_s(slot.name, at_s)
        found: list[Bounds] = []
        for config in self.configs.at(at_s):
            rules = config.site(slot.name).politeness
            parts = [Bounds(rules.delay, rules.delay), asked, rated, slow]
            if rules.latency_factor and slot.latency is not None:
                factor = rules.latency_factor
                parts.append(
                    Bounds(
                        min(factor * slot.latency.low, LATENCY_MAX_S),
                        min(factor * slot.latency.high, LATENCY_MAX_S),
                    )
                )
            low = max(part.low for part in parts) * (2 if missing.low else 1)
            high = max(part.high for part in parts) * (2 if missing.high else 1)
            found.append(Bounds(low, high))
        return Bounds(min(one.low for one in found), max(one.high for one in found))

    def _asked(self, slot: Slot, at_s: float) -> tuple[Bounds, Bounds, Bounds]:
        """What robots.txt asks for: Crawl-delay, Request-rate, and whether one is missing."""
        delay, rate, missing = Bounds(), Bounds(), Bounds()
        for host in slot.hosts:
            states = self.robots.at(f"http://{host}", at_s)
            unsure = any(known.anything for known in states)
            for config in self.configs.at(at_s):
                found = paces(states, config)
                for bounds, values in zip((delay, rate), zip(*found, strict=True), strict=True):
                    bounds.low = max(bounds.low, min(values))
                    bounds.high = max(bounds.high, math.inf if unsure else math.ceil(max(values)))
            gone = [known.unreachable_since_s is not None for known in states]
            missing.low = max(missing.low, float(all(gone) and not unsure))
            missing.high = max(missing.high, float(any(gone) or unsure))
        if len(self.configs.at(at_s)) > 1:
            delay.low = rate.low = 0.0
        return delay, rate, missing

    def _lanes(self, slot: Slot, at_s: float) -> int:
        """The most contacts that may be open at a time."""
        asked, rated, _ = self._asked(slot, at_s)
        if asked.low or rated.low or slot.level.low > 0:
            return 1
        return max(
            config.site(slot.name).politeness.concurrency_per_host
            for config in self.configs.at(at_s)
        )

    # ------------------------------------------------------------ a contact begins

    def _begin(self, slot: Slot, contact: Contact) -> None:
        self._forgive(slot, contact)
        delay = self.delay(slot, contact.start_s)
        self._not_early(slot, contact, delay.low)
        self._rested_after_kill(slot, contact, delay.low)
        self._not_while_paused(slot, contact)
        if self._judges_addresses:
            self._not_early_for_address(contact)
            self._address_ends[contact.address].append(contact)
        self._not_late(slot, contact, delay.high)
        slot.contacts.append(contact)

    def _not_early(self, slot: Slot, contact: Contact, delay_s: float) -> None:
        at_s = contact.start_s
        lanes = self._lanes(slot, at_s)
        resting = [one for one in slot.contacts[-64:] if one.end_s + delay_s > at_s + EDGE_S]
        if len(resting) >= lanes and not (resting and self._gap_is_excused(resting[-1], contact)):
            rested_s = at_s - max(one.end_s for one in resting)
            self.problems.append(
                f"early: {contact} {rested_s:.3f} s after {resting[-1]}, of {delay_s:g} s, "
                f"{lanes} lane(s)"
            )
        if slot.backoff.low > at_s + EDGE_S:
            self.problems.append(
                f"early: {contact} {slot.backoff.low - at_s:.3f} s before its backoff ends"
            )

    def _rested_after_kill(self, slot: Slot, contact: Contact, delay_s: float) -> None:
        """Law 6: a host that was being contacted when the program was killed cannot have been
        released, and rests in full from the restart on."""
        run = self._run_of(contact)
        if run is None or not run.number or self.history.scenario.workers > 1:
            return
        before = self.history.runs[run.number - 1]
        last = slot.contacts[-1] if slot.contacts else None
        if before.end != "kill" or last is None or last.start_s >= before.to_s:
            return
        rested_s = contact.start_s - run.from_s
        if last.end_s >= before.to_s - EDGE_S and rested_s < delay_s - EDGE_S:
            self.problems.append(
                f"early: {contact} {rested_s:.3f} s after a restart, of {delay_s:g} s"
            )

    def _gap_is_excused(self, before: Contact, contact: Contact) -> bool:
        """Was the wall clock set between two runs on a database that knows no other clock?"""
        if self.history.scenario.engine in ("file", "postgres"):
            return False
        first = [run for run in self.history.runs if before.start_s < run.from_s <= contact.start_s]
        return bool(first) and any(
            by_s > 0 and before.start_s - 3600 <= at_s <= contact.start_s
            for at_s, by_s in self.history.steps
        )

    def _not_while_paused(self, slot: Slot, contact: Contact) -> None:
        if self.controls.surely_paused(slot.name, contact.start_s):
            self.problems.append(f"during a pause: {contact}")
        for config in self.configs.at(contact.start_s):
            window = config.site(slot.name).politeness.visit_window
            if window is None or window.wait_s(contact.wall_s) <= EDGE_S:
                break
        else:
            self.problems.append(f"outside of the visit window: {contact}")
        windows = self._windows_asked(slot, contact.start_s)
        day_s = contact.wall_s % DAY_S
        if windows and not any(_within(day_s, window) for window in windows):
            self.problems.append(f"outside of Visit-time {windows}: {contact}")

    def _windows_asked(self, slot: Slot, at_s: float) -> set[str]:
        """The Visit-time of the slot's only robots.txt, if there is one for sure."""
        if len(slot.hosts) != 1:
            return set()
        (host,) = slot.hosts
        states = self.robots.at(f"http://{host}", at_s)
        found = {
            known.copy.visit_time
            for known in states
            if not known.anything and known.copy is not None and known.copy.kind == "rules"
        }
        certain = len(found) == 1 and None not in found and all(known.copy for known in states)
        configured = any(
            config.site(slot.name).politeness.visit_window for config in self.configs.at(at_s)
        )
        closed = any(known.unreachable_since_s is not None for known in states)
        return {str(one) for one in found} if certain and not configured and not closed else set()

    def _not_early_for_address(self, contact: Contact) -> None:
        at_s = contact.start_s
        for before in self._address_ends[contact.address][-12:]:
            slot = self.slots[self._config.slot_of(before.host)]
            configs = self.configs.at(at_s, since_s=min(before.end_s, at_s))
            asked, rated, _ = self._asked(slot, min(before.end_s, at_s))
            delay_s = min(config.site(slot.name).politeness.ip_delay for config in configs)
            delay_s = max(delay_s, asked.low, rated.low)
            if before.end_s + delay_s > at_s + EDGE_S and not self._gap_is_excused(before, contact):
                self.problems.append(
                    f"early at its address: {contact} after {before}, of {delay_s:g} s"
                )

    # ------------------------------------------------------------ lateness

    def _not_late(self, slot: Slot, contact: Contact, delay_s: float) -> None:
        run = self._run_of(contact)
        if run is None or contact.is_callers or delay_s == math.inf:
            return
        wanted_s = self.available.wanted_since(slot.hosts, contact, run)
        if wanted_s is None or any(plan.reboots for plan in self.history.scenario.runs):
            return  # how long it was off is not known to the next run, so that all may wait again
        allowed_s = max(slot.ended_s + delay_s, slot.backoff.high, wanted_s)
        restart_s = run.from_s + delay_s + 2.0
        if self._judges_addresses:
            allowed_s = max(allowed_s, self._address_free_s(contact))
            if all(one is contact for one in self._address_ends[contact.address]):
                allowed_s = max(allowed_s, wanted_s + self._config.politeness.ip_delay)
            restart_s += self._config.politeness.ip_delay  # an address that is new waits
        allowed_s = max(allowed_s, restart_s)
        slack_s = self.available.slack_s
        if contact.start_s <= allowed_s + slack_s:
            return
        if self.controls.maybe_paused(slot.name, allowed_s, contact.start_s):
            return
        if self.available.excused(run, allowed_s, contact.start_s):
            return
        self.problems.append(
            f"late by {contact.start_s - allowed_s:.1f} s: {contact}, allowed at {allowed_s:.3f}"
        )

    def _address_free_s(self, contact: Contact) -> float:
        """When the contacts at its address before this one, and the delay after them, are over."""
        free_s = NEVER
        for before in self._address_ends[contact.address][-12:]:
            if before is contact:
                continue
            slot = self.slots[self._config.slot_of(before.host)]
            asked, rated, _ = self._asked(slot, before.end_s)
            rules = [
                config.site(slot.name).politeness.ip_delay
                for config in self.configs.at(contact.start_s, since_s=before.end_s)
            ]
            free_s = max(free_s, before.end_s + max(*rules, asked.high, rated.high))
        return free_s

    def _run_of(self, contact: Contact) -> RunRecord | None:
        return next(
            (run for run in self.history.runs if run.from_s <= contact.start_s <= run.to_s), None
        )

    # ------------------------------------------------------------ a contact ends

    def _end(self, slot: Slot, contact: Contact) -> None:
        slot.ended_s = max(slot.ended_s, contact.end_s)
        self._learn_latency(slot, contact)
        if contact.status is None or contact.broken_off:
            return
        certain = not self._uncertain.near(contact.end_s)
        status, now_s = contact.status, contact.end_s
        refusal = status == 429 or (status == 503 and not contact.is_robots)
        # Of a refusal and a success at the same moment, either may have been seen first.
        raised = certain and slot.forgiven_s < now_s - EDGE_S
        after_s = contact.retry_after_s
        heard = refusal or status >= 500 or contact.is_robots or RETRY_AFTER_ON_EVERY_STATUS
        if after_s is not None and not heard:
            after_s = None
        slot.denials = slot.denials + 1 if status in (401, 403) else 0
        if after_s is not None:
            from_s = contact.start_s if contact.retry_date else now_s
            until_s = from_s + min(after_s, 30 * DAY_S)
            certain = certain and not (contact.retry_date and self._stepped)
            self._back_off(slot, until_s, until_s, certain)
            if refusal:
                slot.level.low += raised
                slot.level.high += 1
        elif refusal or slot.denials >= DENIALS:
            slot.denials = 0
            slot.level.low += raised
            slot.level.high += 1
            low_s = min(BACKOFF_FIRST_S * 2.0 ** (max(slot.level.low, 1) - 1), DAY_S)
            high_s = min(BACKOFF_FIRST_S * 2.0 ** (max(slot.level.high, 1) - 1), DAY_S)
            self._back_off(slot, now_s + low_s, now_s + high_s, certain)
        elif status < 500 and status not in (401, 403, 429):
            slot.forgiven_s = now_s
            slot.level.low = max(0.0, slot.level.low - 1)
            if certain:
                slot.level.high = max(0.0, slot.level.high - 1)

    def _back_off(self, slot: Slot, low_s: float, high_s: float, certain: bool) -> None:
        if certain:
            slot.backoff.low = max(slot.backoff.low, low_s)
        slot.backoff.high = max(slot.backoff.high, high_s)

    def _learn_latency(self, slot: Slot, contact: Contact) -> None:
        took_s = contact.end_s - contact.start_s
        if slot.latency is None:
            slot.latency = Bounds(took_s, took_s)
        else:
            slot.latency.low += 0.3 * (took_s - slot.latency.low)
            slot.latency.high += 0.3 * (took_s - slot.latency.high)
        troubled = bool(self._uncertain) or self.history.scenario.workers > 1
        if troubled or contact.broken_off:
            slot.latency = Bounds(0.0, max(slot.latency.high, 60.0))

    def _forgive(self, slot: Slot, contact: Contact) -> None:
        """Operators forgive backoffs; a step of the wall clock between runs may shorten them."""
        retried = any(
            done.verb == "retry" and done.from_s <= contact.start_s
            for run in self.history.runs
            for done in run.done
        )
        if retried or (slot.contacts and self._gap_is_excused(slot.contacts[-1], contact)):
            slot.backoff.low, slot.level.low = NEVER, 0.0


class Controls:
    """Pauses and delays of the operator, from what was done."""

    def __init__(self, history: History) -> None:
        self._done = [done for run in history.runs for done in run.done if not done.error]
        # The process was killed meanwhile: from the order to its end, it may have obeyed.
        self._resumed = [
            (done, run.to_s)
            for run in history.runs
            for done in run.done
            if done.verb in ("resume", "resume host") and "this process is dead" in done.error
        ]
        self._config = history.configs[0][2]
        self._runs = history.runs

    def _of(self, slot: str, verbs: Iterable[str]) -> list[tuple[float, float, str, float]]:
        return [
            (done.from_s, done.to_s, done.verb, done.value or 0.0)
            for done in self._done
            if done.verb in verbs and done.host and self._slot_of(done) == slot
        ]

    def _slot_of(self, done: Done) -> str:
        """The host that a command applied to: of a subdomain without URLs, that of its domain."""
        return getattr(done.result, "host", None) or self._config.slot_of(done.host)

    def slow_s(self, slot: str, at_s: float) -> Bounds:
        """The delay that an operator has set."""
        low = high = 0.0
        for from_s, to_s, verb, value in self._of(slot, ("slow host", "resume host")):
            value_s = value if verb == "slow host" else 0.0
            if to_s <= at_s - EDGE_S:
                low = high = value_s
            elif from_s <= at_s + EDGE_S:
                low, high = min(low, value_s), max(high, value_s)
        return Bounds(low, high)

    def _pauses(self, slot: str) -> list[tuple[float, float, bool]]:
        found = [
            (from_s, to_s, verb == "pause host")
            for from_s, to_s, verb, _ in self._of(slot, ("pause host", "resume host"))
        ]
        resumed = [
            (done.from_s, to_s, False)
            for done, to_s in self._resumed
            if done.host and self._config.slot_of(done.host) == slot
        ]
        return sorted(found + resumed)

    def _pauses_of_all(self) -> list[tuple[float, float, bool]]:
        found = [
            (done.from_s, done.to_s, done.verb == "pause")
            for done in self._done
            if done.verb in ("pause", "resume")
        ]
        found += [(done.from_s, to_s, False) for done, to_s in self._resumed if not done.host]
        # A crawl that is started resumes, as does one that another worker is started for.
        started = [done.from_s for done in self._done if done.verb == "start worker"]
        started += [run.from_s for run in self._runs]
        return sorted([*found, *((at_s, at_s, False) for at_s in started)])

    def surely_paused(self, slot: str, at_s: float) -> bool:
        for changes in (self._pauses(slot), self._pauses_of_all()):
            paused = False
            for from_s, to_s, pauses in changes:
                if to_s <= at_s - EDGE_S:
                    paused = pauses
                elif from_s <= at_s + EDGE_S and not pauses:
                    paused = False
            if paused:
                return True
        return False

    def maybe_paused(self, slot: str, from_s: float, to_s: float) -> bool:
        """Was there a pause in this time?"""
        for changes in (self._pauses(slot), self._pauses_of_all()):
            paused = False
            for at_s, done_s, pauses in changes:
                if paused and done_s >= from_s - 3.0:
                    return True
                if pauses and at_s <= to_s and done_s >= from_s:
                    return True
                if at_s > to_s:
                    break
                paused = pauses
            if paused:
                return True
        return False


def _within(day_s: float, window: str) -> bool:
    """Whether a time of the day is in "2000-0600"."""
    begin, _, end = window.partition("-")
    from_s = int(begin[:2]) * 3600 + int(begin[2:]) * 60
    to_s = int(end[:2]) * 3600 + int(end[2:]) * 60
    if from_s < to_s:
        return from_s - 1 <= day_s <= to_s + 1
    return day_s >= from_s - 1 or day_s <= to_s + 1
