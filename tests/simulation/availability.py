"""Since when there was something to do at a host, and what may excuse that it was not done."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from policies.retries import FailureCode
from tests.simulation.history import History, RunRecord
from tests.simulation.robots_model import ConfigTimeline, RobotsTimeline, Times
from tests.simulation.schedule import RevisitModel
from tests.simulation.web import Contact

BUSY_FROM: Final = 16  # below this crawl.concurrency, hosts wait for each other
_NETWORK: Final = frozenset(
    {FailureCode.DNS, FailureCode.CONNECT, FailureCode.TIMEOUT, FailureCode.PROTOCOL}
)
LOW_BYTES: Final = 1_000_000  # of free space: storage.min_free, where it is simulated
LADDER_S: Final = (2.0, 10.0, 30.0)


def retry_delay_s(failures: int) -> float:
    """2 s, 10 s, 30 s, then 60 s doubling up to 6 h (docs/retries)."""
    if failures <= len(LADDER_S):
        return LADDER_S[max(failures, 1) - 1]
    return min(60.0 * 2.0 ** min(failures - len(LADDER_S) - 1, 20), 21_600.0)


def _held_by_disk(history: History) -> Iterator[tuple[float, float]]:
    """When the disk was nearly full, which is looked up every five seconds."""
    for run in history.runs:
        done = [done for done in run.done if done.verb == "disk"]
        for low, free in itertools.pairwise([*done, None]):
            if low is not None and low.value < LOW_BYTES:
                yield low.from_s, (run.to_s if free is None else free.from_s) + 10.0


class Availability:
    """For each request of a page: since when it could have been made, as far as its URL goes."""

    def __init__(self, history: History, configs: ConfigTimeline, robots: RobotsTimeline) -> None:
        self._history = history
        self._configs = configs
        self._robots = robots
        scenario = history.scenario
        self.slack_s = 2.5 + 25 * scenario.slow_store_s
        self._judged = (
            scenario.workers == 1
            and scenario.sections["crawl"]["concurrency"] >= BUSY_FROM
            and "visit_window" not in scenario.sections["politeness"]
            and not any(
                plan.visit_time for host in scenario.hosts.values() for _, plan in host.robots
            )
        )
        faults = [(from_s - 1, to_s + 45) for from_s, to_s in history.faults]
        self._faults = Times([*faults, *_held_by_disk(history)])
        self._steps = Times((at_s - 5, at_s + 5) for at_s, _ in history.steps)
        self._failed: dict[int, set[str]] = defaultdict(set)  # run -> hosts with network failures
        self.since: dict[int, float] = {}  # contact -> since when its URL was to be requested
        self._by_host: dict[tuple[int, str], list[Contact]] = defaultdict(list)
        if self._judged:
            self._look()

    def _look(self) -> None:
        revisits = RevisitModel(self._history)
        known: dict[str, float] = {}
        tries: dict[str, tuple[float, int]] = {}  # when it is to be tried again; failures
        events = sorted(
            [(c.start_s, 1, c.number, c) for c in self._history.contacts]
            + [(c.end_s, 0, c.number, c) for c in self._history.contacts if c.end_s < math.inf],
            key=lambda event: event[:3],
        )
        for url in self._history.scenario.seeds:
            known[url] = self._history.began_s
        for run in self._history.runs:
            for done in run.done:
                if done.verb == "seeds":
                    known.setdefault(str(done.value), done.to_s)
        for at_s, begins, _, contact in events:
            of_run = self._run_of(contact)
            if begins:
                if contact.url in known and of_run is not None and not contact.is_callers:
                    since_s = max(known[contact.url], tries.get(contact.url, (-math.inf, 0))[0])
                    self.since[contact.number] = since_s
                    self._by_host[of_run.number, contact.host].append(contact)
                continue
            if contact.failure in _NETWORK and of_run is not None:
                self._failed[of_run.number].add(contact.host)
            for link in contact.links:
                known.setdefault(link, at_s)
            if contact.broken_off:
                continue
            tries[contact.url] = self._again(contact, at_s, tries, revisits)

    def _again(
        self,
        contact: Contact,
        at_s: float,
        tries: dict[str, tuple[float, int]],
        revisits: RevisitModel,
    ) -> tuple[float, int]:
        """When the URL is to be requested again at the latest, and its failures in a row."""
        failures = tries.get(contact.url, (0.0, 0))[1]
        if contact.answered:
            return at_s + revisits.interval(contact).high, 0
        if contact.status in (429, 503):
            return at_s, failures
        return at_s + retry_delay_s(failures + 1), failures + 1

    def _run_of(self, contact: Contact) -> RunRecord | None:
        return next(
            (run for run in self._history.runs if run.from_s <= contact.start_s <= run.to_s), None
        )

    def wanted_since(self, hosts: set[str], contact: Contact, run: RunRecord) -> float | None:
        """Since when any URL of these hosts was to be requested that was requested in this run,
        now or later. None: there is none, or it is not certain."""
        if not self._judged or run.number in self._failed or run.error:
            return None
        found = math.inf
        for host in hosts:
            if not self.is_open(host, contact.start_s):
                continue
            for one in self._by_host[run.number, host]:
                if one.start_s >= contact.start_s:
                    found = min(found, self.since[one.number])
        return None if found == math.inf else max(found, run.from_s)

    def is_open(self, host: str, at_s: float) -> bool:
        """Has its robots.txt always been answered, and the same?"""
        plan = self._history.scenario.hosts.get(host)
        if plan is None:
            return False
        states = self._robots.at(f"http://{host}", at_s)
        kinds = {robots.kind for _, robots in plan.robots}
        return (
            len(plan.robots) == 1
            and kinds <= {"rules", "absent", "html"}
            and not any(known.anything for known in states)
        )

    def excused(self, run: RunRecord, from_s: float, to_s: float) -> bool:
        """Was there something in this time for which everything waits?"""
        if self._faults.overlap(from_s, to_s) or self._steps.overlap(from_s, to_s):
            return True
        verbs = dict.fromkeys(("reload", "retry", "drop", "fetch", "permit", "cancelled fetch"), 5)
        verbs |= dict.fromkeys(
            ("freeze", "freeze at release", "cut off", "kill worker", "back to copy"), 120
        )
        return any(
            done.from_s - 1 <= to_s and done.to_s + verbs[done.verb] >= from_s
            for done in run.done
            if done.verb in verbs
        )
