"""Every URL: found, requested with a verdict, in the state that the log says, and explained."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from policies.retries import FailureCode
from policies.url import host_of, origin_of, path_of, registrable_domain
from storage.store import Row
from tests.simulation.availability import retry_delay_s
from tests.simulation.history import History
from tests.simulation.robots_model import (
    ConfigTimeline,
    Known,
    RobotsTimeline,
    uncertain_times,
    verdicts,
)
from tests.simulation.web import Contact

REFUSALS_MAX: Final = 5
REFUSALS: Final = (429, 503)
REDIRECTS: Final = (301, 302, 303, 307, 308)
UNCONNECTED: Final = (FailureCode.DNS, FailureCode.CONNECT)
AGAIN_S: Final = 86_000.0  # almost a day: a sitemap that is named after that is read again
SETTLED_S: Final = 5.0  # what was learned this long before the end has been acted on


class UrlJudge:
    """`judge` returns what is wrong."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.scenario = history.scenario
        self.configs = ConfigTimeline(history)
        self.robots = RobotsTimeline(history, self.configs)
        self.problems: list[str] = []
        self._uncertain = uncertain_times(history)
        self._config = history.configs[-1][2]
        self._stepped = bool(history.steps)
        self._done = [done for run in history.runs for done in run.done]
        self._verbs = {done.verb for done in self._done}
        self.of_url: dict[str, list[Contact]] = defaultdict(list)
        for contact in history.contacts:
            if not (contact.is_robots or contact.is_callers):
                self.of_url[contact.url].append(contact)
        self.rows: dict[str, Row] = {}
        self.states: dict[str, str] = {}
        for view in ("visited", "blocked", "failed", "queued"):
            for row in history.rows[view]:
                self.states[str(row["url"])] = view
                self.rows[str(row["url"])] = row
        self._ended_s = history.last.to_s
        self._slack_s = SETTLED_S + 60 * self.scenario.slow_store_s

    def judge(self) -> list[str]:
        self._requested_with_verdict()
        self._states_agree_with_log()
        self._nothing_is_lost()
        self._nothing_twice()
        self._attempts()
        self._late_robots_are_obeyed()
        self._budgets()
        self._queued_for_a_reason()
        self._explained()
        return self.problems

    def _say(self, problem: str) -> None:
        self.problems.append(problem)

    # ------------------------------------------------------------ verdicts

    def possible(self, url: str, at_s: float) -> set[str]:
        """The verdicts that may apply to a request at this time."""
        found: set[str] = set()
        for known in self.robots.at(origin_of(url), at_s):
            for config in self.configs.at(at_s):
                found |= verdicts(known, path_of(url), at_s, config, unsure=self._stepped)
        return found

    def _requested_with_verdict(self) -> None:
        for contact in self.history.contacts:
            if contact.is_robots:
                continue
            possible = self.possible(contact.url, contact.start_s)
            if "allow" not in possible:
                self._say(
                    f"without a verdict that allows it ({'/'.join(sorted(possible))}): {contact}"
                )
            elif not self._stepped and not self._is_fresh(contact):
                self._say(f"by a robots.txt that has expired: {contact}")

    def _is_fresh(self, contact: Contact) -> bool:
        for known in self.robots.at(contact.origin, contact.start_s):
            if known.anything or known.unreachable_since_s is not None:
                return True
            if known.fetched_at_s is None:
                continue
            if contact.start_s - known.fetched_at_s <= known.kept_s + 1.0:
                return True
        return False

    def _late_robots_are_obeyed(self) -> None:
        """What was fetched for lack of an answer, and is forbidden, is withdrawn; what is blocked,
        and is allowed by now, is queued again."""
        for url, state in self.states.items():
            known = self._settled(url)
            if known is None:
                continue
            now = {
                verdict
                for one in known
                for verdict in verdicts(
                    one, path_of(url), self._ended_s, self._config, unsure=self._stepped
                )
            }
            row = self.rows[url]
            answered = not any(one.unreachable_since_s for one in known)
            if state == "blocked" and row["reason"] == "robots" and now == {"allow"} and answered:
                self._say(f"blocked though robots.txt allows it now: {url}")
            if state == "visited" and now == {"forbid"}:
                visits = [one for one in self.of_url[url] if one.answered]
                if visits and self._was_ungoverned(visits[-1]):
                    self._say(f"fetched without robots.txt, which forbids it now: {url}")

    def _settled(self, url: str) -> list[Known] | None:
        """What is known of its robots.txt at the end, if that was learned a while before."""
        origin = origin_of(url)
        learned = self.robots.changed_s(origin)
        at_ends = any(done.verb == "reload" for done in self._done)
        if not learned or at_ends or self.history.last.end in ("cancel", "kill"):
            return None
        last = self.history.last
        within_s = self._ended_s - max(learned[-1], last.from_s)
        if last.end != "itself" and within_s < self._slack_s:
            return None
        known = self._stored(origin, self.robots.at(origin, self._ended_s))
        return None if any(one.anything for one in known) else known

    def _stored(self, origin: str, known: list[Known]) -> list[Known]:
        """Of what may be known after a kill, that which the database says is known."""
        row = next((row for row in self.history.rows["robots"] if row["origin"] == origin), None)
        if row is None or row["state"] != "rules" or row["failures"] or len(known) == 1:
            return known
        answered = [
            one for one in known if one.copy is not None and one.unreachable_since_s is None
        ]
        return answered or known

    def _was_ungoverned(self, contact: Contact) -> bool:
        """Was it requested because robots.txt gave no answer, by each of what may be known?"""
        return all(
            not known.anything and known.unreachable_since_s is not None and known.copy is None
            for known in self.robots.at(contact.origin, contact.start_s)
        )

    # ------------------------------------------------------------ states

    def _states_agree_with_log(self) -> None:
        for url, state in self.states.items():
            contacts = self.of_url[url]
            answered = [one for one in contacts if one.answered]
            if state == "visited":
                if not answered:
                    self._say(f"visited without an answer: {url}")
                    continue
                statuses = {one.status for one in answered}
                row = self.rows[url]
                if row["status"] not in statuses:
                    self._say(f"visited as {row['status']}, though answered {statuses}: {url}")
                last = answered[-1]
                certain = not self._uncertain.near(last.end_s)
                if certain and last.status not in (row["status"], 304):
                    self._say(f"visited as {row['status']}, but last {last}")
            elif answered and state in ("queued", "failed"):
                self._answer_was_forgotten(url, state, answered[-1])

    def _answer_was_forgotten(self, url: str, state: str, last: Contact) -> None:
        row = self.rows[url]
        if state == "failed" and str(row["error"]).startswith("redirects"):
            return
        if self._uncertain.near(last.end_s) or "retry" in self._verbs:
            return
        plan = self.scenario.hosts.get(host_of(url))
        changed = plan is not None and len(plan.robots) > 1  # it may have been withdrawn, and freed
        stopped = self.history.last.end != "itself"
        if last.is_sitemap and stopped and self._is_read_again(last):
            return
        if not changed and not (stopped and last.end_s > self._ended_s - self._slack_s):
            self._say(f"{state} though it was answered: {last}")

    def _is_read_again(self, last: Contact) -> bool:
        """Whether a sitemap was named anew by a robots.txt, a day after it was read or, since the
        wall clock was set back, a day before."""
        return any(
            one.is_robots
            and one.host == last.host
            and one.start_s > last.start_s
            and abs(one.wall_s - last.wall_s) > AGAIN_S
            for one in self.history.contacts
        )

    # ------------------------------------------------------------ nothing lost, nothing twice

    def _nothing_is_lost(self) -> None:
        for url in self.scenario.seeds:
            if url not in self.states and self.history.last.elapsed_s >= 0 and self._opened():
                self._say(f"a seed is lost: {url}")
        if "drop" in self._verbs:
            return
        roots = self._roots()
        for url, state in list(self.states.items()):
            if state != "visited":
                continue
            answered = [one for one in self.of_url[url] if one.answered and one.status != 304]
            if not answered or self._uncertain.near(answered[-1].end_s):
                continue
            for link in self._followed(answered[-1]):
                if link in self.states or not self._in_scope(link, roots):
                    continue
                if self._too_deep(url, answered[-1]) or self._later(answered[-1]):
                    continue
                self._say(f"a link is lost: {link} of {answered[-1]}")

    def _opened(self) -> bool:
        return any(run.end == "itself" for run in self.history.runs)

    def _followed(self, contact: Contact) -> Iterable[str]:
        if contact.nofollow or contact.is_sitemap:
            return ()
        if contact.status in REDIRECTS:
            return () if self._config.fetch.max_redirects == 0 else contact.links
        return contact.links

    def _too_deep(self, url: str, contact: Contact) -> bool:
        most = self._config.crawl.max_depth
        if most == math.inf:
            return False
        depth = max(self._depth_of(url), *self._other_depths(url, contact))
        return depth + (contact.status not in REDIRECTS) > most

    def _depth_of(self, url: str) -> int:
        depth = self.rows[url]["depth"]
        assert isinstance(depth, int)
        return depth

    def _other_depths(self, url: str, contact: Contact) -> Iterator[int]:
        """By the paths found before it was requested: one that is about to be requested keeps the
        depth of the first, even if a shorter one is stored meanwhile."""
        yield 0
        for source, state in self.states.items():
            if state != "visited":
                continue
            for one in self.of_url[source]:
                if one.end_s <= contact.start_s and url in one.links:
                    yield self._depth_of(source) + (one.status not in REDIRECTS)

    def _later(self, contact: Contact) -> bool:
        """Was it answered too late for its links to be recorded, or under another config?"""
        return self.history.last.end != "itself" and contact.end_s > self._ended_s - self._slack_s

    def _roots(self) -> set[str]:
        """The hosts of seeds, which scope is relative to for sure."""
        return {host_of(url) for url in self.scenario.seeds}

    def _in_scope(self, url: str, roots: set[str]) -> bool:
        if "/x" in path_of(url) and self.scenario.sections["scope"]["exclude"]:
            return False
        match self.scenario.sections["scope"]["follow"]:
            case "any":
                return True
            case "domain":
                return registrable_domain(host_of(url)) in {registrable_domain(r) for r in roots}
            case _:
                return host_of(url) in roots

    def _nothing_twice(self) -> None:
        if self.scenario.forever or "retry" in self._verbs or "seeds" in self._verbs:
            return
        for url, contacts in self.of_url.items():
            answered = [
                one for one in contacts if one.answered and not self._uncertain.near(one.end_s)
            ]
            plan = self.scenario.hosts.get(host_of(url))
            changed = plan is not None and len(plan.robots) > 1
            if len(answered) > 1 and not changed and not answered[0].is_sitemap:
                if self.states.get(url) == "failed":
                    continue
                self._say(f"visited twice: {answered[0]} and {answered[1]}")

    # ------------------------------------------------------------ attempts

    def _attempts(self) -> None:
        troubled = {"retry", "seeds", "drop", "reload"} & self._verbs
        for url, contacts in self.of_url.items():
            self._retried_in_time(url, contacts)
            if troubled or any(self._uncertain.near(one.end_s) for one in contacts):
                continue
            if any(one.broken_off or one.failure is not None for one in contacts):
                continue
            if any(one.answered for one in contacts):
                contacts = contacts[: next(n for n, one in enumerate(contacts) if one.answered)]
            self._count(url, contacts)

    def _count(self, url: str, contacts: list[Contact]) -> None:
        """Of failures of one kind, that were not this machine's."""
        most = self._config.site(host_of(url)).fetch.max_attempts
        refused = [one for one in contacts if one.status in REFUSALS]
        errors = [one for one in contacts if one not in refused]
        state = self.states.get(url)
        if len(errors) > most or len(refused) > REFUSALS_MAX:
            self._say(f"tried {len(contacts)} times: {url}")
        over = len(errors) >= most or len(refused) >= REFUSALS_MAX
        answered = any(one.answered for one in self.of_url[url])
        if state == "failed" and not over and not answered and contacts:
            row = self.rows[url]
            if str(row["error"]).startswith(("http:", "refused:")):
                self._say(f"failed after {len(contacts)} tries: {url} {row['error']}")

    def _retried_in_time(self, url: str, contacts: list[Contact]) -> None:
        """Not sooner than the retry delay after an error of the server."""
        errors = 0
        for before, contact in itertools.pairwise(contacts):
            if before.status is None or before.status < 500 or before.status == 503:
                if before.answered:
                    errors = 0
                continue
            if self._uncertain.near(before.end_s):
                continue  # it may be forgotten, and count for none of the delays that follow
            errors += 1
            if self._forgiven(before, contact):
                continue
            rested_s = contact.start_s - before.end_s
            if rested_s < retry_delay_s(errors) - 0.002 and not self.scenario.forever:
                self._say(f"retried after {rested_s:.3f} s, at attempt {errors}: {contact}")

    def _forgiven(self, before: Contact, contact: Contact) -> bool:
        again = any(
            done.verb in ("retry", "seeds") and done.from_s <= contact.start_s
            for done in self._done
        )
        set_forward = any(
            by_s > 0 and before.start_s <= at_s <= contact.start_s
            for at_s, by_s in self.history.steps
        )
        return again or (set_forward and len(self.history.runs) > 1)

    # ------------------------------------------------------------ budgets

    def _budgets(self) -> None:
        self._concurrency()
        self._pages_of_runs()
        pages = Counter(host_of(url) for url, state in self.states.items() if state == "visited")
        slots = Counter[str]()
        for host, count in pages.items():
            slots[self._config.slot_of(host)] += count
        for slot, count in slots.items():
            most = self._config.site(slot).scope.max_pages_per_host
            if count > most and "reload" not in self._verbs:
                self._say(f"{count} pages of {slot}, of {most:g}")

    def _concurrency(self) -> None:
        open_: list[Contact] = []
        for contact in self.history.contacts:
            open_ = [one for one in open_ if one.end_s > contact.start_s + 1e-6]
            open_.append(contact)
            mine = sum(one.worker == contact.worker for one in open_)
            most = max(
                c.crawl.concurrency
                for c in self.configs.at(contact.start_s, since_s=contact.start_s - 40)
            )
            if mine > most:
                self._say(f"{mine} requests in flight, of {most}: {contact}")
                return

    def _pages_of_runs(self) -> None:
        for run in self.history.runs:
            pages = [
                one
                for one in self.history.of_run(run)
                if one.answered
                and one.status not in REDIRECTS
                and not (one.is_robots or one.is_callers or one.is_sitemap)
                and not self._uncertain.near(one.end_s)
            ]
            by_worker = Counter(one.worker for one in pages)
            most = min(c.crawl.max_pages for _, _, c in self.history.configs)
            for worker, count in by_worker.items():
                if count > most:
                    self._say(f"run {run.number}: {count} pages of worker {worker}, of {most:g}")

    # ------------------------------------------------------------ the end

    def _queued_for_a_reason(self) -> None:
        run = self.history.last
        if run.end != "itself" or self.scenario.forever:
            return
        patience_s = self._config.crawl.patience_s
        pages = [one for one in self.history.of_run(run) if one.answered and not one.is_robots]
        limited = len(pages) >= self._config.crawl.max_pages
        for url in [url for url, state in self.states.items() if state == "queued"]:
            if limited or self._may_wait(url, patience_s):
                continue
            self._say(f"queued at the end without a reason: {url}")

    def _may_wait(self, url: str, patience_s: float) -> bool:
        host = host_of(url)
        slot = self._config.slot_of(host)
        if self.of_url[url] or {"pause host", "pause"} & self._verbs:
            return True  # it failed before
        visited = sum(  # one that was blocked afterwards counts until the run ends
            self._config.slot_of(host_of(one)) == slot
            for one, state in self.states.items()
            if state == "visited" or (state == "blocked" and self._was_visited(one))
        )
        if visited >= self._config.site(slot).scope.max_pages_per_host:
            return True
        plan = self.scenario.hosts.get(host)
        if plan is None or plan.dead or any(one.dead for one in self.scenario.hosts.values()):
            return True
        if any(robots.kind not in ("rules", "absent", "html") for _, robots in plan.robots):
            return True
        if any(robots.visit_time for _, robots in plan.robots):
            return True
        if self._config.politeness.visit_window is not None:
            return True
        rebooted = any(run.reboots for run in self.scenario.runs)
        recent = self.history.contacts if rebooted else self.history.of_run(self.history.last)
        failing = {
            self._config.slot_of(one.host)
            for one in recent
            if one.failure is not None or (one.status or 0) >= 429
        }
        denied = [one for one in recent if one.status in (401, 403) and one.host == host]
        # On a server, another machine may not know of a step of the clock, and patience may be too
        # short to wait until the hosts of a killed worker are free.
        unclaimed = self.scenario.engine == "postgres" and not recent
        return slot in failing or len(denied) >= 15 or unclaimed or self._rests(slot)

    def _was_visited(self, url: str) -> bool:
        """Whether the last run visited a page, whatever became of it."""
        from_s = self.history.last.from_s
        return any(one.answered and one.start_s >= from_s for one in self.of_url[url])

    def _rests(self, slot: str) -> bool:
        """Did it ask, in whichever run, for a rest that lasts beyond the end of the last?"""
        rebooted = any(run.reboots for run in self.scenario.runs)
        from_s = self.history.last.from_s if rebooted else 0.0  # it may count anew from there
        return any(
            max(one.end_s, from_s) + (one.retry_after_s or 0.0) > self.history.last.to_s
            for one in self.history.contacts
            if self._config.slot_of(one.host) == slot and one.retry_after_s is not None
        )

    def _explained(self) -> None:
        for url, sentences in self.history.explained.items():
            if len(sentences) < 2 or not all(sentence.strip() for sentence in sentences):
                self._say(f"explained by {sentences}: {url}")
