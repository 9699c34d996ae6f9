"""Situations: each makes one thing frequent in a scenario that is rare in what is drawn otherwise.

A situation is drawn from a stream of its own, after the scenario. About half of all scenarios are
left as they were drawn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.simulation.availability import LOW_BYTES
from tests.simulation.scenario import DAY_S, Deed, RunPlan, Scenario
from tests.simulation.web import ALWAYS, CALLERS, HostPlan, PagePlan, RobotsPlan

Situation = Callable[[random.Random, Scenario], None]


def place(scenario: Scenario) -> None:
    """Put the scenario into the situation of its seed, if it has one."""
    pick = random.Random(f"{scenario.seed} situation")
    situation = pick.choice([*SITUATIONS, *[None] * USUAL])
    if situation is not None:
        situation(pick, scenario)


# ---------------------------------------------------------------- parts


def _calm(pick: random.Random, scenario: Scenario, hosts: int, *, delay_s: float = 1) -> list[str]:
    """One run, at least this many hosts that answer, all of them seeds, and enough time."""
    scenario.engine, scenario.workers = pick.choice(["memory", "memory", "file"]), 1
    scenario.runs = [RunPlan()]
    scenario.slow_store_s = pick.choice([0.0, 0.0, 0.02])
    sections = scenario.sections
    sections["crawl"] |= {
        "concurrency": 64, "max_pages": math.inf, "max_depth": math.inf,
        "patience": pick.choice([600, 7200]),
    }  # fmt: skip
    sections["scope"] |= {"follow": "any", "max_pages_per_host": math.inf, "exclude": []}
    sections["politeness"] |= {
        "delay": delay_s, "latency_factor": 0, "per": "host", "concurrency_per_host": 1,
    }  # fmt: skip
    sections["politeness"].pop("visit_window", None)
    sections["robots"] = {"dialect": "slurp"}
    sections["revisit"] = {"mode": "off"}
    sections.pop("site", None)
    names = [f"h{n}.test" for n in range(max(hosts, len(scenario.hosts)))]
    scenario.hosts = {name: _host(name, pages=pick.choice([3, 6, 12])) for name in names}
    scenario.seeds = [f"http://{name}/p0" for name in names]
    return names


def _host(name: str, *, pages: int) -> HostPlan:
    """A host whose first page links to all others, each of which is answered."""
    links = tuple(f"http://{name}/p{n}" for n in range(1, pages))
    return HostPlan(
        name=name, address="127.0.0.1", latency_s=0.05, robots=[(0.0, RobotsPlan())],
        pages={"/p0": PagePlan(links=links)} | {f"/p{n}": PagePlan() for n in range(1, pages)},
    )  # fmt: skip


# ---------------------------------------------------------------- failures


def retries(pick: random.Random, scenario: Scenario) -> None:
    """Pages that fail many times in a row, with enough time to try them again."""
    names = _calm(pick, scenario, 2)
    scenario.sections["fetch"]["max_attempts"] = pick.choice([3, 5, 6, 7])
    scenario.sections["crawl"]["patience"] = pick.choice([100, 600, 7200])
    for name in names:
        for n in (1, 2):
            fails = pick.choice([1, 2, 3, 4, 5, 99])
            scenario.hosts[name].pages[f"/p{n}"] = PagePlan(fails=fails, failure="error")


def kinds_of_failures(pick: random.Random, scenario: Scenario) -> None:
    """Pages that are refused and fail by turns."""
    names = _calm(pick, scenario, 1)
    scenario.sections["crawl"]["patience"] = 7200
    scenario.sections["fetch"]["max_attempts"] = pick.choice([2, 3, 5])
    for name in names[:2]:
        failures = [pick.choice(["busy", "error"]) for _ in range(pick.randint(2, 6))]
        scenario.hosts[name].pages["/p1"] = PagePlan(
            failures=tuple(failures), retry_after_s=pick.choice([1, 3])
        )


def unreachable(pick: random.Random, scenario: Scenario) -> None:
    """One host that cannot be connected to for a while, or from some time on; others answer."""
    names = _calm(pick, scenario, 3)
    scenario.sections["crawl"]["patience"] = pick.choice([7200, 2 * DAY_S])
    scenario.sections["fetch"]["unreachable_for"] = pick.choice([40, 600, 7200])
    from_s = pick.choice([0.0, 2.5, 4.0])
    to_s = from_s + pick.choice([30.0, 400.0, 4000.0, ALWAYS])
    scenario.hosts[names[0]] = _host(names[0], pages=8)
    scenario.hosts[names[0]].dead.append((from_s, to_s, "connect"))


def outages(pick: random.Random, scenario: Scenario) -> None:
    """The network is down for a while, in the middle of the crawl."""
    names = _calm(pick, scenario, 3, delay_s=pick.choice([0.5, 1, 3]))
    scenario.sections["crawl"]["patience"] = pick.choice([600, 7200])
    from_s = pick.choice([4.0, 6.0, 10.0])
    to_s = from_s + pick.choice([3.0, 15.0, 60.0, 400.0])
    failure = pick.choice(["connect", "connect", "dns"])
    for name in names:
        plan = scenario.hosts[name] = _host(name, pages=20)
        plan.dead.append((from_s, to_s, failure))
    if pick.random() < 0.6:  # new hosts: a probe is granted to one whose robots.txt is not known
        for n in range(pick.choice([1, 3])):
            name = f"new{n}.test"
            plan = scenario.hosts[name] = _host(name, pages=2)
            plan.dead.append((from_s, to_s, failure))
            at_s = from_s + pick.choice([0.5, 2.0, 9.0])
            deed = Deed(at_s=at_s, verb="seeds", value=f"http://{name}/p0")
            scenario.runs[0].deeds.append(deed)
        scenario.runs[0].deeds.sort(key=lambda deed: deed.at_s)


def redirects(pick: random.Random, scenario: Scenario) -> None:
    """Chains of redirects around the limit."""
    names = _calm(pick, scenario, 2)
    most = scenario.sections["fetch"]["max_redirects"] = pick.choice([1, 2, 3, 5])
    for name in names:
        length = most + pick.choice([-1, 0, 1, 2])
        hosts = [pick.choice(names) if pick.random() < 0.3 else name for _ in range(length + 1)]
        chain = [f"/{name.split('.')[0]}r{n}" for n in range(length + 1)]
        for n in range(length):
            target = f"http://{hosts[n + 1]}{chain[n + 1]}"
            scenario.hosts[hosts[n]].pages[chain[n]] = PagePlan(kind="redirect", links=(target,))
        scenario.hosts[hosts[length]].pages[chain[length]] = PagePlan()
        first = scenario.hosts[name].pages["/p0"]
        links = (*first.links, f"http://{hosts[0]}{chain[0]}")
        scenario.hosts[name].pages["/p0"] = replace(first, links=links)


# ---------------------------------------------------------------- wake-ups


def late_links(pick: random.Random, scenario: Scenario) -> None:
    """Hosts that are first linked to while a request to another takes long."""
    names = _calm(pick, scenario, 5, delay_s=pick.choice([0.5, 0.5, 5]))
    scenario.seeds = [f"http://{name}/p0" for name in names[:2]]
    hub = scenario.hosts[names[0]] = _host(names[0], pages=16)
    for n, name in enumerate(names[2:], 1):
        hub.pages[f"/p{4 * n % 16 + 1}"] = PagePlan(links=(f"http://{name}/p0",))
    slow = scenario.hosts[names[1]] = _host(names[1], pages=12)
    slow_s = pick.choice([6.0, 9.0, 25.0])
    scenario.sections["fetch"]["timeout"] = 30
    for path in list(slow.pages)[1:]:
        slow.pages[path] = PagePlan(slow_s=slow_s)


def long_pauses(pick: random.Random, scenario: Scenario) -> None:
    """The crawl is paused while all its hosts rest, or while it is busy, several times."""
    _calm(pick, scenario, 1, delay_s=pick.choice([1, 20]))
    scenario.sections["crawl"]["patience"] = 7200
    at_s, deeds = 0.3, []
    for _ in range(pick.choice([1, 2, 4])):
        at_s += pick.choice([0.7, 2.0, 7.0])
        for_s = pick.choice([0.5, 15.0, 40.0, 700.0])
        deeds += [Deed(at_s=at_s, verb="pause"), Deed(at_s=at_s + for_s, verb="resume")]
        at_s += for_s
    scenario.runs[0].deeds = deeds


def pauses_between_requests(pick: random.Random, scenario: Scenario) -> None:
    """The crawl is paused at the very moment at which a request ends, and the next has its permit
    already."""
    names = _calm(pick, scenario, 4, delay_s=0.5)
    scenario.sections["crawl"] |= {"patience": 7200, "concurrency": pick.choice([1, 2])}
    for name in names:
        scenario.hosts[name] = _host(name, pages=8)
    number = 0
    for n in range(4):
        number += pick.randint(2, 9)
        scenario.runs[0].deeds += [
            Deed(at_s=0.0, verb="pause", as_ends=number),
            Deed(at_s=100.0 * (n + 1), verb="resume"),
        ]


def restarts(pick: random.Random, scenario: Scenario) -> None:
    """A crawl is stopped while its hosts rest, and is started again before they may be asked."""
    names = _calm(pick, scenario, 1, delay_s=pick.choice([1, 20]))
    for name in names:
        after_s = pick.choice([45, 200, 500])
        scenario.hosts[name].pages["/p1"] = PagePlan(
            fails=1, failure="busy", retry_after_s=after_s, as_date=pick.random() < 0.3
        )
    end = pick.choice(["stop", "stop", "kill", "cancel"])
    at_s = pick.choice([3.0, 25.0, 60.0])
    first = RunPlan(end=end, at_s=at_s, then_s=pick.choice([0.0, 1.0]))
    scenario.runs = [first, RunPlan()]


def full_disks(pick: random.Random, scenario: Scenario) -> None:
    """Nothing can be written for a while, in the middle of the crawl."""
    _calm(pick, scenario, 2, delay_s=pick.choice([1, 3, 20]))
    deeds, at_s = scenario.runs[0].deeds, 0.0
    for _ in range(pick.choice([1, 2])):
        at_s += pick.choice([1.5, 4.0, 25.0])
        kind = pick.choice(["SQLITE_FULL", "SQLITE_IOERR"])
        deeds.append(Deed(at_s=at_s, verb="fault", value=kind))
        at_s += pick.choice([0.5, 4.0, 30.0])
        deeds.append(Deed(at_s=at_s, verb="mend"))


def low_disks(pick: random.Random, scenario: Scenario) -> None:
    """The crawl is held for a while because the disk is nearly full."""
    _calm(pick, scenario, 2, delay_s=pick.choice([1, 3]))
    for name in scenario.hosts:
        scenario.hosts[name] = _host(name, pages=20)
    scenario.sections["storage"] = {"min_free": LOW_BYTES}
    scenario.sections["crawl"]["patience"] = pick.choice([100, 600])
    at_s = pick.choice([1.5, 4.0, 12.0])
    for_s = pick.choice([7.0, 30.0, 300.0])
    scenario.runs[0].deeds = [
        Deed(at_s=at_s, verb="disk", value=LOW_BYTES - 1),
        Deed(at_s=at_s + for_s, verb="disk", value=1000 * LOW_BYTES),
    ]


# ---------------------------------------------------------------- limits and callers


def pages_that_fail(pick: random.Random, scenario: Scenario) -> None:
    """A limit of pages, of which many fail."""
    names = _calm(pick, scenario, 2)
    scenario.sections["fetch"]["max_attempts"] = pick.choice([1, 2])
    for name in names:
        plan = scenario.hosts[name] = _host(name, pages=9)
        for n in (1, 2, 3):
            plan.pages[f"/p{n}"] = PagePlan(kind="error")
    scenario.sections["crawl"]["max_pages"] = 9 * len(names) - pick.choice([4, 6, 8])


def permits(pick: random.Random, scenario: Scenario) -> None:
    """Callers lend permits of hosts that are crawled, and are refused."""
    names = _calm(pick, scenario, 1, delay_s=pick.choice([0.5, 3]))
    for name in names:
        scenario.hosts[name] = _host(name, pages=20)
    deeds, at_s = [], 0.5
    for n in range(pick.randint(2, 5)):
        at_s += pick.choice([0.3, 2.0, 5.0])
        answer = pick.choice([(503, 40), (429, None), (200, 30), (503, None), (200, None)])
        value = (f"{CALLERS}{n}", pick.choice([0.1, 2.0]), *answer)
        deeds.append(Deed(at_s=at_s, verb="permit", host=pick.choice(names), value=value))
    scenario.runs[0].deeds = deeds


def sessions(pick: random.Random, scenario: Scenario) -> None:
    """A caller without a crawl fetches from a host that cannot be connected to for a while."""
    names = _calm(pick, scenario, 1, delay_s=pick.choice([1, 3]))
    for name in names:  # longer than any of the tries
        scenario.hosts[name] = _host(name, pages=60)
    scenario.sections["fetch"]["max_attempts"] = pick.choice([1, 2, 3, 4])
    name = "session.test"
    plan = scenario.hosts[name] = _host(name, pages=1)
    plan.dead.append((0.0, pick.choice([20.0, 60.0, ALWAYS, ALWAYS]), "connect"))
    url = f"http://{name}{CALLERS}1"
    scenario.runs[0].deeds = [Deed(at_s=0.5, verb="session", host=name, value=url)]


def addresses(pick: random.Random, scenario: Scenario) -> None:
    """Hosts that share an address and ask for different delays, and reloads meanwhile."""
    names = _calm(pick, scenario, 2, delay_s=0.5)
    politeness = scenario.sections["politeness"]
    politeness |= {"per": "ip", "ip_delay": 0.25}
    for n, name in enumerate(names):
        scenario.hosts[name] = _host(name, pages=12)
        asked_s = pick.choice([2, 6]) if n % 2 else None
        scenario.hosts[name].robots = [(0.0, RobotsPlan(crawl_delay_s=asked_s))]
    deeds, at_s = [], 1.0
    for n in range(8):
        at_s += pick.choice([0.7, 2.0, 4.0])
        changed = {name: dict(keys) for name, keys in scenario.sections.items()}
        changed["crawl"]["concurrency"] = 64 - n
        deeds.append(Deed(at_s=at_s, verb="reload", value=changed))
    scenario.runs[0].deeds = deeds


def long_requests(pick: random.Random, scenario: Scenario) -> None:
    """Workers that are cut off from the database during requests that take long."""
    _calm(pick, scenario, 3)
    scenario.engine, scenario.workers = "shared", 2
    scenario.sections["crawl"]["patience"] = 120
    scenario.sections["fetch"]["timeout"] = 60
    for plan in scenario.hosts.values():
        for path in list(plan.pages)[1:]:
            plan.pages[path] = PagePlan(slow_s=pick.choice([3.0, 28.0, 45.0]))
    at_s = pick.choice([3.0, 8.0, 15.0]) * pick.uniform(0.8, 1.2)
    worker, for_s = pick.randrange(2), pick.choice([25.0, 60.0])
    scenario.runs[0].deeds = [
        Deed(at_s=at_s, verb="cut off", value=worker),
        Deed(at_s=at_s + for_s, verb="connect", value=worker),
    ]


SITUATIONS: Final[tuple[Situation, ...]] = (
    retries, kinds_of_failures, unreachable, outages, outages, redirects, late_links, long_pauses,
    restarts, full_disks, pages_that_fail, permits, addresses, long_requests,
    pauses_between_requests, low_disks, sessions,
)  # fmt: skip
USUAL: Final = 18  # so many, beside these, are left as they were drawn
