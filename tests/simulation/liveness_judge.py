"""Nothing waits for longer than the documentation says, and nothing is given up before: judged by
the sites' log and by what the database says at the end.

`pace_judge` judges requests that were made too late. Here it is those that were never made, hosts
that could not be connected to, and outages.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from typing import Final

from policies.retries import FailureCode
from policies.url import host_of
from tests.simulation.availability import retry_delay_s
from tests.simulation.history import History, RunRecord
from tests.simulation.pace_judge import PaceJudge, Slot
from tests.simulation.web import Contact

UNCONNECTED: Final = (FailureCode.DNS, FailureCode.CONNECT)
REDIRECTS: Final = (301, 302, 303, 307, 308)
PROBE_S_MAX: Final = 60.0  # between two probes of an outage (docs/fetching.md)
# What may delay or change any request, so that nothing is judged here.
UNCLEAR: Final = frozenset({
    "reload", "retry", "drop", "pause host", "slow host", "fetch", "permit", "cancelled fetch",
    "freeze", "cut off", "kill worker", "back to copy", "sleep", "wall",
})  # fmt: skip


def liveness(history: History, pace: PaceJudge) -> list[str]:
    """What was given up, or waited for, against the promises."""
    return _LivenessJudge(history, pace).judge()


class _LivenessJudge:
    def __init__(self, history: History, pace: PaceJudge) -> None:
        self._history = history
        self._scenario = history.scenario
        self._pace = pace
        self._config = history.configs[0][2]
        self._slack_s = 5.0 + 60 * self._scenario.slow_store_s
        self._verbs = {done.verb for run in history.runs for done in run.done}
        self._of_url: dict[str, list[Contact]] = defaultdict(list)
        for contact in history.contacts:
            self._of_url[contact.url].append(contact)
        self._states = {
            str(row["url"]): (view, row)
            for view in ("visited", "blocked", "failed", "queued")
            for row in history.rows[view]
        }
        self._clear = not (
            self._scenario.workers > 1
            or self._scenario.forever
            or self._scenario.engine == "postgres"
            or history.faults
            or history.steps
            or self._verbs & UNCLEAR
            or self._config.politeness.visit_window is not None
            or any(
                robots.visit_time for host in self._scenario.hosts.values()
                for _, robots in host.robots
            )
        )  # fmt: skip

    def judge(self) -> list[str]:
        problems = self._redirects() + self._begun_in_pauses()
        if self._clear:
            problems += self._queued_within_patience()
            problems += self._origins()
            problems += self._outages()
        return problems

    # ------------------------------------------------------------ the end of a run

    def _progress_s(self, run: RunRecord) -> float:
        """When the run had its last progress, at the earliest."""
        first: dict[str, Contact] = {}
        for contact in self._history.contacts:
            counts = contact.answered and not (contact.is_robots or contact.is_sitemap)
            if counts and self._states.get(contact.url, ("", None))[0] == "visited":
                first.setdefault(contact.url, contact)
        resumed = [done.from_s for done in run.done if done.verb in ("resume", "seeds")]
        ends = [one.end_s for one in first.values() if run.from_s <= one.start_s <= run.to_s]
        return max([run.from_s, *ends, *resumed])

    def _queued_within_patience(self) -> list[str]:
        """A run that ends by itself leaves no URL that could be requested within its patience."""
        run = self._history.last
        if run.end != "itself" or self._is_full(run):
            return []
        until_s = self._progress_s(run) + self._config.crawl.patience_s
        problems = []
        for url, (state, _) in self._states.items():
            ready_s = self._ready_s(url, run) if state == "queued" else None
            if ready_s is not None and ready_s + self._slack_s < until_s:
                problems.append(
                    f"queued, though it could be requested at {ready_s:.1f}, and the run had until "
                    f"{until_s:.1f}: {url}"
                )
        return problems

    def _is_full(self, run: RunRecord) -> bool:
        pages = sum(
            one.answered and not (one.is_robots or one.is_sitemap or one.is_callers)
            for one in self._history.of_run(run)
        )
        return pages >= self._config.crawl.max_pages

    def _ready_s(self, url: str, run: RunRecord) -> float | None:
        """From when on a URL may have been requested, at the latest; None: that is not certain."""
        host = host_of(url)
        name = self._config.slot_of(host)
        slot = self._pace.slots.get(name)
        if slot is None or not self._pace.available.is_open(host, run.to_s):
            return None
        if not self._is_reachable(slot, run) or self._has_its_pages(name):
            return None
        delay_s = self._pace.delay(slot, run.to_s).high
        rested_s = max(slot.ended_s + delay_s, slot.backoff.high, run.from_s) + delay_s
        if self._config.politeness.per == "ip":
            rested_s += 2 * delay_s * len(self._pace.slots)
        due_s = self._due_s(self._of_url[url])
        return None if due_s is None or delay_s == math.inf else max(rested_s, due_s)

    def _is_reachable(self, slot: Slot, run: RunRecord) -> bool:
        """Could it be connected to, at the last try?"""
        last = slot.contacts[-1] if slot.contacts else None
        if any(one.failure is not None for one in self._history.of_run(run)):
            known = self._outage()
            if known is None or run.to_s < known[1] + PROBE_S_MAX + 30.0:
                return False
        return last is None or last.failure not in UNCONNECTED or self._outage() is not None

    def _has_its_pages(self, slot: str) -> bool:
        most = self._config.site(slot).scope.max_pages_per_host
        pages = Counter(
            self._config.slot_of(host_of(url))
            for url, (state, _) in self._states.items()
            if state == "visited"
        )
        return pages[slot] >= most

    def _due_s(self, contacts: list[Contact]) -> float | None:
        """When it is to be requested again at the latest. None: not for certain."""
        due_s, errors = -math.inf, 0
        for one in contacts:
            if one.broken_off or one.end_s == math.inf or one.answered:
                return None
            if one.status is not None and one.status >= 500 and one.status != 503:
                errors += 1
                due_s = one.end_s + retry_delay_s(errors)
        return due_s

    # ------------------------------------------------------------ hosts out of reach

    def _origins(self) -> list[str]:
        """Origins that cannot be connected to: tried again when they are to be, and given up when
        they are to be. Judged where one host alone fails, which is no outage."""
        failing = {one.host for one in self._history.contacts if one.failure is not None}
        kinds = {one.failure for one in self._history.contacts} - {None}
        lanes = self._config.politeness.concurrency_per_host
        if len(failing) != 1 or kinds - {FailureCode.CONNECT} or lanes > 1:
            return []
        if len(self._history.runs) > 1 or self._verbs & {"pause", "resume", "seeds"}:
            return []
        (host,) = failing
        if self._config.politeness.per != "host" or self._config.slot_of(host) != host:
            return []
        contacts = [one for one in self._history.contacts if one.host == host]
        return self._tries(host, contacts)

    def _tries(self, host: str, contacts: list[Contact]) -> list[str]:
        problems: list[str] = []
        failures, lasted_s = 0, 0.0
        slot = self._pace.slots[host]
        delay_s = self._pace.delay(slot, self._history.last.to_s).high
        for contact, after in itertools.pairwise([*contacts, None]):
            assert contact is not None
            if contact.failure is None:
                failures, lasted_s = 0, 0.0
                continue
            lasted_s += retry_delay_s(failures) if failures else 0.0
            failures += 1
            due_s = contact.end_s + retry_delay_s(failures)
            if after is not None and after.start_s < due_s - 0.01:
                problems.append(
                    f"early: {after}, due at {due_s:.3f} after {failures} connection failures"
                )
            latest_s = max(due_s, contact.end_s + delay_s) + self._slack_s
            if after is not None and self._is_late(after, latest_s, lasted_s, host):
                problems.append(
                    f"late: {after}, due at {due_s:.3f} after {failures} connection failures"
                )
        given_up = [
            url for url, (state, row) in self._states.items()
            if state == "failed" and host_of(url) == host
            and str(row["error"]).startswith("connect:")
        ]  # fmt: skip
        most_s = self._config.site(host).fetch.unreachable_for_s
        if given_up and failures and lasted_s < most_s:
            problems.append(f"given up after {lasted_s:g} s of {most_s:g} s: {given_up[0]}")
        waits = any(s == "queued" and host_of(url) == host for url, (s, _) in self._states.items())
        run = self._history.last
        if waits and failures and run.end == "itself" and lasted_s < most_s:
            due_s = contacts[-1].end_s + max(retry_delay_s(failures), delay_s)
            until_s = self._progress_s(run) + self._config.crawl.patience_s
            if due_s + self._slack_s < until_s and not self._is_full(run):
                problems.append(f"not tried again, due at {due_s:.1f}: {host}, until {until_s:.1f}")
        return problems

    def _is_late(self, after: Contact, latest_s: float, lasted_s: float, host: str) -> bool:
        """Not if it was given up meanwhile: it is tried again for new URLs only."""
        over = lasted_s >= self._config.site(host).fetch.unreachable_for_s
        return after.start_s > latest_s and not over

    # ------------------------------------------------------------ outages

    def _outage(self) -> tuple[float, float] | None:
        """The only outage of the scenario, if all hosts shared it and it was surely recognized:
        three hosts that had answered before could not be connected to."""
        spans = {span for plan in self._scenario.hosts.values() for span in plan.dead}
        if len(spans) != 1 or not all(plan.dead for plan in self._scenario.hosts.values()):
            return None
        ((begin_s, end_s, _),) = spans
        from_s, to_s = self._history.began_s + begin_s, self._history.began_s + end_s
        failed = [one for one in self._history.contacts if one.failure is not None]
        if any(one.failure not in UNCONNECTED for one in failed) or len(self._history.runs) > 1:
            return None
        if any(not from_s <= one.start_s <= to_s for one in failed):
            return None
        answered = {
            self._config.slot_of(one.host)
            for one in self._history.contacts
            if one.status is not None and one.end_s < from_s
        }
        met = answered & {self._config.slot_of(one.host) for one in failed}
        return (from_s, to_s) if len(met) >= 3 else None

    def _outages(self) -> list[str]:
        """The end of an outage is noticed with a probe, and then everything continues."""
        known = self._outage()
        run = self._history.last
        if known is None or self._verbs & {"pause", "resume"}:
            return []
        _, to_s = known
        hosts = {self._config.slot_of(one.host) for one in self._history.contacts}
        delays = [self._pace.delay(self._pace.slots[name], to_s).high for name in hosts]
        backoffs = [self._pace.slots[name].backoff.high for name in hosts]
        if max(delays) == math.inf or max(backoffs) > to_s:
            return []
        latest_s = to_s + PROBE_S_MAX + max(delays) + self._slack_s
        later = [one for one in self._history.contacts if one.start_s >= to_s]
        unmet = any(state == "queued" for state, _ in self._states.values())
        if not later:
            silent = unmet and run.to_s > latest_s
            return [f"the end of an outage at {to_s:.1f} was not noticed"] if silent else []
        if later[0].start_s > latest_s:
            return [f"late: {later[0]}, after an outage that ended at {to_s:.1f}"]
        return self._continues(later, max(delays))

    def _continues(self, later: list[Contact], delay_s: float) -> list[str]:
        """Each host that was requested then, and has always been open, was requested as soon as it
        had rested."""
        over_s = later[0].end_s
        first: dict[str, Contact] = {}
        for contact in later:
            first.setdefault(self._config.slot_of(contact.host), contact)
        wanted = {
            self._config.slot_of(url_host)
            for url_host in self._scenario.hosts
            if self._pace.available.is_open(url_host, over_s)
        }
        per_host = self._config.politeness.per == "host" and len(first) < 16
        calm = self._config.crawl.concurrency >= 16 and per_host
        return [
            f"late: {contact}, though an outage was over at {over_s:.1f}"
            for name, contact in first.items()
            if calm
            and name in wanted
            and self._was_wanted(name, over_s)
            and contact.start_s > over_s + 2 * delay_s + self._slack_s
        ]

    def _was_wanted(self, slot: str, over_s: float) -> bool:
        """Did it fail during the outage? Then it had URLs to be requested."""
        return any(
            one.failure is not None and self._config.slot_of(one.host) == slot
            for one in self._history.contacts
            if one.end_s <= over_s
        )

    # ------------------------------------------------------------ pauses

    def _begun_in_pauses(self) -> list[str]:
        """A pause takes effect immediately: the crawl begins no request from then on, not even at
        the same moment."""
        if self._scenario.workers > 1:
            return []
        problems = []
        for run in self._history.runs:
            changes = [done for done in run.done if done.verb in ("pause", "resume")]
            changes = [done for done in changes if not done.error]
            for pause, after in itertools.pairwise([*changes, None]):
                if pause is None or pause.verb != "pause":
                    continue
                until = len(self._history.contacts) if after is None else after.begun
                problems += [
                    f"during a pause since {pause.from_s:.3f}: {one}"
                    for one in self._history.contacts[pause.begun : until]
                    if not one.is_callers and one.start_s <= run.to_s
                ]
        return problems

    # ------------------------------------------------------------ redirects

    def _redirects(self) -> list[str]:
        """No URL is requested that only more than `max_redirects` redirects in a row lead to."""
        if self._verbs & {"reload", "retry"} or self._scenario.forever:
            return []
        sources: dict[str, list[Contact]] = defaultdict(list)
        for contact in self._history.contacts:
            for link in contact.links:
                sources[link].append(contact)
        starts = {*self._scenario.seeds} | {
            str(done.value)
            for run in self._history.runs
            for done in run.done
            if done.verb == "seeds"
        }
        hops = dict.fromkeys(starts, 0)
        queue = [*starts]
        for url, found in sources.items():
            if url not in hops and any(one.status not in REDIRECTS for one in found):
                hops[url] = 0
                queue.append(url)
        targets: dict[str, set[str]] = defaultdict(set)
        for url, found in sources.items():
            for one in found:
                if one.status in REDIRECTS:
                    targets[one.url].add(url)
        for url in queue:  # breadth first: it grows meanwhile
            for target in targets[url]:
                if target not in hops:
                    hops[target] = hops[url] + 1
                    queue.append(target)
        most = self._config.fetch.max_redirects
        return [
            f"requested after {hops[one.url]} redirects in a row, of {most}: {one}"
            for one in self._history.contacts
            if not (one.is_robots or one.is_callers) and hops.get(one.url, 0) > most
        ]
