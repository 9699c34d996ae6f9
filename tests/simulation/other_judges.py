"""What sinks, revisits, the audit columns and the bounds of a run must look like, by the log."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Final

from policies.url import host_of
from storage.store import Row
from tests.simulation.history import History, RunRecord
from tests.simulation.robots_model import Times, uncertain_times
from tests.simulation.schedule import Interval, RevisitModel
from tests.simulation.switches import CONSENT_ON_EVERY_ANSWER
from tests.simulation.web import Contact

CALLS_PER_CONTACT: Final = 14
CALLS_PER_RUN: Final = 120
REDIRECTS: Final = (301, 302, 303, 307, 308)
LOOK_S: Final = 2.0  # how seldom a worker may look at a shared database, at most


def sinks(history: History) -> list[str]:
    """A page is in the sinks if and only if it is visited."""
    if not history.scenario.sinks:
        return []
    problems = []
    last = {entry.url: entry for entry in history.sink}
    uncertain = uncertain_times(history)
    withdrawn = {str(row["url"]) for row in history.rows["blocked"] if row["withdrawn"]}
    visited = {str(row["url"]): row for row in history.rows["visited"]}
    for url, row in visited.items():
        entry = last.get(url)
        if row["indexable"] and (entry is None or entry.verb != "put"):
            problems.append(f"visited, but not in the sink: {url} ({entry and entry.verb})")
        if not row["indexable"] and entry is not None and entry.verb == "put":
            problems.append(f"asks not to be indexed, but is in the sink: {url}")
    states = {
        str(row["url"]) for view in ("queued", "failed", "blocked") for row in history.rows[view]
    }
    # A redirect that leads to a blocked URL has no body to withdraw: sinks are not told, nor when
    # it is blocked itself later.
    led = {str(row["url"]) for row in history.rows["blocked"]}
    led = {url for url in led if url in last and last[url].status in REDIRECTS}
    for url in withdrawn - led:
        entry = last.get(url)
        if entry is not None and entry.verb == "put":
            problems.append(f"withdrawn, but the sink was not told: {url}")
    retried = any(done.verb == "retry" for run in history.runs for done in run.done)
    for url, entry in last.items():
        if entry.verb == "put" and url not in visited and url not in states:
            problems.append(f"in the sink, but unknown: {url}")
        left = entry.verb == "put" and url in states - withdrawn - led
        if left and not (retried or uncertain.near(entry.at_s) or _freed(history, url)):
            problems.append(f"in the sink, but not visited: {url}")
    if CONSENT_ON_EVERY_ANSWER:
        problems += _consent(history, visited)
    return problems


def _freed(history: History, url: str) -> bool:
    plan = history.scenario.hosts.get(host_of(url))
    return plan is not None and len(plan.robots) > 1


def _consent(history: History, visited: dict[str, Row]) -> list[str]:
    newest: dict[str, Contact] = {}
    for contact in history.contacts:
        if contact.answered and not contact.is_robots:
            newest[contact.url] = contact
    return [
        f"does not ask for noindex any more, or was not heard: {newest[url]}"
        for url, row in visited.items()
        if url in newest
        and newest[url].noindex == bool(row["indexable"])
        and newest[url].end_s < history.last.to_s - 5.0
    ]


def revisits(history: History) -> list[str]:
    """Pages are visited again, and never sooner than their interval."""
    if not history.scenario.forever:
        return []
    if any(host.sitemap for host in history.scenario.hosts.values()):
        return []
    model = RevisitModel(history)
    problems = []
    due: dict[str, tuple[Contact, Interval]] = {}
    uncertain = uncertain_times(history)
    verbs = {done.verb for run in history.runs for done in run.done}
    loose = bool(history.steps) or bool({"retry", "seeds", "reload"} & verbs)
    for contact in history.contacts:
        if contact.is_robots or contact.is_callers:
            continue
        before = due.get(contact.url)
        if before is not None and not loose and not uncertain.near(before[0].end_s):
            since_s = contact.start_s - before[0].end_s
            if since_s < before[1].low - 1.0 and not _freed(history, contact.url):
                problems.append(f"again after {since_s:.1f} s of {before[1].low:g}: {contact}")
        if contact.answered and not contact.broken_off:
            due[contact.url] = (contact, model.interval(contact))
    problems += _still_due(history, due) if not loose else []
    return problems


def _still_due(history: History, due: dict[str, tuple[Contact, Interval]]) -> list[str]:
    """Pages that were due long before the end, at hosts where nothing was in the way."""
    troubled = {c.host for c in history.contacts if c.failure is not None or (c.status or 0) >= 400}
    last = history.last
    if (
        last.end == "itself"
        or history.faults
        or "visit_window" in history.scenario.sections["politeness"]
        or _was_full(history)
    ):
        return []
    visited = {str(row["url"]) for row in history.rows["visited"]}
    problems = []
    for url, (contact, interval) in due.items():
        waits_s = max(4000.0, 60.0 * 40)
        plan = history.scenario.hosts.get(host_of(url))
        if plan is None or plan.dead or len(plan.robots) > 1 or contact.host in troubled:
            continue
        if plan.robots[0][1].kind not in ("rules", "absent") or plan.robots[0][1].visit_time:
            continue
        if contact.status in (404, 410) or url not in visited or contact.is_sitemap:
            continue
        if max(contact.end_s, last.from_s) + interval.high + waits_s < last.to_s:
            problems.append(f"not visited again since {contact}, due after {interval.high:g} s")
    return problems


def _was_full(history: History) -> bool:
    """Did a worker of the last run reach `crawl.max_pages`? Then it visits nothing more."""
    most = min(config.crawl.max_pages for _, _, config in history.configs)
    pages = Counter(
        one.worker
        for one in history.of_run(history.last)
        if one.answered and not (one.is_robots or one.is_sitemap or one.is_callers)
    )
    return any(count >= most for count in pages.values())


def audit(history: History) -> list[str]:
    """What the database says of the contacts agrees with the log."""
    problems = []
    config = history.configs[0][2]
    of_slot: dict[str, list[Contact]] = defaultdict(list)
    for contact in history.contacts:
        of_slot[config.slot_of(contact.host)].append(contact)
    certain = not uncertain_times(history)
    for row in history.rows["hosts"]:
        contacts = of_slot.get(str(row["host"]), [])
        if row["breaches"]:
            problems.append(f"{row['host']} counts {row['breaches']} breaches")
        if certain and row["contacts"] != len(contacts):
            problems.append(f"{row['host']} counts {row['contacts']} contacts of {len(contacts)}")
        lanes = max(
            c.site(str(row["host"])).politeness.concurrency_per_host for _, _, c in history.configs
        )
        if certain and len(contacts) > 1 and lanes == 1:
            rests = [b.start_s - a.end_s for a, b in itertools.pairwise(contacts)]
            told = row["smallest_rest_s"]
            one_run = len(history.runs) == 1
            # Between two workers, only what is proven without a common clock counts: a look less.
            looks = history.scenario.engine == "postgres" and history.scenario.workers > 1
            # And between two leases, the time that the calls of the store took.
            least_s = min(rests) - (LOOK_S if looks else 0.01 + 8 * history.scenario.slow_store_s)
            if one_run and (told is None or not least_s < float(str(told)) < min(rests) + 0.01):
                problems.append(f"{row['host']} rested {min(rests):.3f} s, not {told}")
    states = Counter[tuple[str, str]]()
    for view in ("visited", "blocked", "failed", "queued"):
        for row in history.rows[view]:
            states[config.slot_of(host_of(str(row["url"]))), view] += 1
    for row in history.rows["hosts"]:
        problems += [
            f"{row['host']} counts {row[view]} {view} of {states[str(row['host']), view]}"
            for view in ("visited", "blocked", "failed", "queued")
            if row[view] != states[str(row["host"]), view]
        ]
    return problems


def bounds(history: History) -> list[str]:
    """The run ends, and does not do much for little."""
    problems = []
    config = history.configs[0][2]
    for run in history.runs:
        contacts = history.of_run(run)
        if run.end == "itself" and not history.scenario.forever:
            problems += _ends_in_time(history, run, contacts, config.crawl.patience_s)
        elapsed_s = run.to_s - run.from_s
        most = CALLS_PER_RUN + CALLS_PER_CONTACT * len(contacts)
        most += int(elapsed_s / 10) if not history.scenario.forever else int(elapsed_s / 4)
        most += 60 * len(run.done) + 200 * len(history.faults)
        if history.scenario.workers > 1:  # each looks at the database each second
            most += int(8 * elapsed_s)
        if run.calls > most * history.scenario.workers:
            problems.append(f"run {run.number}: {run.calls} calls of the store for {len(contacts)}")
    return problems


def _ends_in_time(
    history: History, run: RunRecord, contacts: list[Contact], patience_s: float
) -> list[str]:
    """It ends after its patience at the latest, counted from the last thing that happened."""
    last_s = max([run.from_s, *(one.end_s for one in contacts)])
    last_s = max([last_s, *(done.to_s for done in run.done if done.to_s < run.to_s)])
    pauses = Times((d.from_s, d.to_s) for d in run.done if "pause" in d.verb)
    if (
        pauses
        or history.faults
        or run.to_s - last_s <= patience_s + 100 + 60 * history.scenario.slow_store_s
    ):
        return []
    return [f"run {run.number} ended {run.to_s - last_s:.0f} s after the last contact"]
