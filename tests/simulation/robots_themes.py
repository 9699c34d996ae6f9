"""Scenarios in which robots.txt comes late, changes, is away, or is reached by redirects.

A theme replaces parts of a scenario that has been drawn. Each is drawn from a stream of its own, so
that scenarios without one stay what they are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.simulation.scenario import DAY_S, RunPlan, Scenario
from tests.simulation.web import HostPlan, RobotsPlan

SHARE: Final = 0.4  # of all scenarios
FAILING: Final = ("error", "error", "error", "error", "error", "reset", "timeout", "busy")
FORBIDDEN: Final = (("/p",), ("/p1",), ("/no", "/p"), ("/",), ("/q", "/p2", "/p3"))
LATE_S: Final = (2.5, 5.0, 9.0, 30.0, 100.0)
JUDGING: Final = ("ungoverned", "ungoverned", "rejudge", "rejudge", "blocked_by_robots")


def overlay(scenario: Scenario) -> None:
    """Apply the theme of this scenario, if it has one."""
    pick = random.Random(f"{scenario.seed} robots theme")
    if pick.random() < SHARE:
        theme = pick.choice(THEMES)
        theme(pick, scenario)


def _late(pick: random.Random, scenario: Scenario) -> None:
    """Pages are fetched while robots.txt cannot be; then it forbids some of them."""
    _crawl_openly(pick, scenario)
    for host in scenario.hosts.values():
        failing = RobotsPlan(kind=pick.choice(FAILING))
        late = RobotsPlan(disallow=pick.choice([("/p",), *FORBIDDEN]))
        host.robots = [(0.0, failing), (pick.choice(LATE_S), late)]
        host.latency_s = min(host.latency_s, 0.3)
    if scenario.engine in ("memory", "file") and not scenario.forever:
        if pick.random() < 0.5:
            scenario.runs = [_killed_while_judging(pick), RunPlan()]
        else:
            scenario.runs = [RunPlan()]


def _changed(pick: random.Random, scenario: Scenario) -> None:
    """robots.txt is another one after a day: some pages are allowed now that were not."""
    _crawl_openly(pick, scenario)
    for host in scenario.hosts.values():
        before, after = pick.sample(FORBIDDEN[1:], 2)
        phases = [(0.0, RobotsPlan(disallow=before))]
        again_s = 1000.0
        if pick.random() < 0.3:
            phases.append((again_s, RobotsPlan(kind=pick.choice(FAILING))))
            again_s = DAY_S + pick.choice([70.0, 100.0])
        host.robots = [*phases, (again_s, RobotsPlan(disallow=pick.choice([(), after])))]
    _a_day_between(pick, scenario)
    if scenario.engine in ("memory", "file") and pick.random() < 0.4:
        scenario.runs.insert(1, _killed_while_judging(pick))


def _copy(pick: random.Random, scenario: Scenario) -> None:
    """robots.txt cannot be fetched any more when the copy of it has expired."""
    _crawl_openly(pick, scenario)
    scenario.sections["robots"] = {"dialect": pick.choice(["slurp", "rfc9309", "bing", "yandex"])}
    for host in scenario.hosts.values():
        rules = RobotsPlan(disallow=pick.choice([("/no",), ("/no", "/q"), ("/no", "/p1")]))
        host.robots = [(0.0, rules), (1000.0, RobotsPlan(kind=pick.choice(FAILING)))]
        if pick.random() < 0.4:
            host.robots.append((DAY_S + pick.choice([80.0, 200.0]), rules))
        for place, (path, page) in enumerate(list(host.pages.items())):
            if place and page.kind == "page":
                links = (*page.links, f"http://{host.name}/no{20 + place}")
                host.pages[path] = replace(page, links=links)
    _a_day_between(pick, scenario)


def _chains(pick: random.Random, scenario: Scenario) -> None:
    """robots.txt is found, or not, at the end of redirects, at hosts without pages."""
    _crawl_openly(pick, scenario)
    names = list(scenario.hosts)
    number = 0
    for name in pick.sample(names, min(len(names), 2)):
        ending = pick.choice(["rules", "rules", "rules", "error", "error"])
        count = pick.choice([1, 4, 5, 5, 6]) if ending == "rules" else pick.choice([1, 2])
        chain = [f"r{number + n}.test" for n in range(count)]
        number += count
        for source, target in zip([name, *chain], chain, strict=False):
            _put_robots(scenario, source, RobotsPlan(kind="redirect", target=target))
        last = RobotsPlan(disallow=pick.choice(FORBIDDEN[1:]))
        if ending == "error":
            after_s = pick.choice([70, 400])
            last = RobotsPlan(kind=pick.choice(["error", "busy"]), retry_after_s=after_s)
        _put_robots(scenario, chain[-1], last)


def _forbidden_later(pick: random.Random, scenario: Scenario) -> None:
    """Pages are visited again; robots.txt forbids some of them by then."""
    if scenario.engine in ("shared", "postgres"):  # whose workers look at the database each second
        _late(pick, scenario)
        return
    _crawl_openly(pick, scenario)
    scenario.sections["robots"] = {"dialect": pick.choice(["rfc9309", "google"])}
    interval_s = pick.choice([900, 1500])
    scenario.sections["revisit"] = {
        "mode": pick.choice(["fixed", "adaptive"]),
        "interval": interval_s,
        "min_interval": 600,
        "max_interval": 3 * interval_s,
    }
    for host in scenario.hosts.values():
        after = pick.choice([*FORBIDDEN, ()])
        host.robots = [
            (0.0, RobotsPlan(disallow=pick.choice([(), ("/no",)]), max_age_s=0)),
            (pick.choice([1000.0, 3000.0]), RobotsPlan(disallow=after, max_age_s=0)),
        ]
    scenario.runs = [RunPlan(end="stop", at_s=pick.choice([6000.0, 9000.0]))]


THEMES: Final[tuple[Callable[[random.Random, Scenario], None], ...]] = (
    _late, _late, _late, _changed, _copy, _chains, _forbidden_later,
)  # fmt: skip


# ---------------------------------------------------------------- parts


def _crawl_openly(pick: random.Random, scenario: Scenario) -> None:
    """Crawl without an answer of robots.txt, without limits, and fast."""
    sections = scenario.sections
    openly: list[dict[str, object]] = [
        {"dialect": "slurp"}, {"dialect": "yandex"}, {"dialect": "rfc9309", "unreachable": "open"},
    ]  # fmt: skip
    sections["robots"] = pick.choice(openly)
    sections["politeness"] |= {"delay": pick.choice([0.2, 0.5, 1, 2]), "latency_factor": 0}
    sections["crawl"] |= {"max_pages": math.inf, "max_depth": math.inf}
    sections["scope"] |= {"max_pages_per_host": math.inf}
    sections["politeness"].pop("visit_window", None)
    scenario.sinks = pick.random() < 0.8
    for host in scenario.hosts.values():
        host.dead = []


def _killed_while_judging(pick: random.Random) -> RunPlan:
    """A run that is killed when pages are judged again."""
    return RunPlan(
        end="kill", at_s=5000.0, at_call=pick.choice([1, 1, 1, 2]), at_verb=pick.choice(JUDGING),
        after=pick.random() < 0.3, then_s=pick.choice([0.0, 1.0, 30.0]),
    )  # fmt: skip


def _a_day_between(pick: random.Random, scenario: Scenario) -> None:
    """Two runs: the first leaves some URLs to the second."""
    first = RunPlan(
        end=pick.choice(["stop", "stop", "cancel"]),
        at_s=pick.choice([2.0, 4.0, 7.0]),
        then_s=DAY_S + 60.0,
    )
    last = RunPlan(end="stop", at_s=pick.choice([120.0, 4000.0])) if scenario.forever else RunPlan()
    scenario.runs = [first, last]


def _put_robots(scenario: Scenario, name: str, robots: RobotsPlan) -> None:
    if name not in scenario.hosts:
        scenario.hosts[name] = HostPlan(
            name=name, address="127.0.0.1", latency_s=0.05, robots=[], pages={}
        )
    scenario.hosts[name].robots = [(0.0, robots)]
