"""Scenarios in which the machine is started again between two runs, in which the orders of one
worker apply to hosts that others lease, and in which workers take over the hosts of others.

Each is drawn from a stream of its own, so that scenarios without one stay what they are.
"""

from __future__ import annotations

import math
import random
from typing import Final

from tests.simulation.scenario import DAY_S, Deed, RunPlan, Scenario
from tests.simulation.web import HostPlan, PagePlan, RobotsPlan

REBOOTS: Final = 0.12  # of the scenarios of one worker
ORDERS: Final = 0.4  # of those of several
TAKEOVERS: Final = 0.35  # of those on a server


def overlay(scenario: Scenario) -> None:
    """Apply the theme of this scenario, if it has one."""
    pick = random.Random(f"{scenario.seed} worker theme")
    if scenario.engine in ("memory", "file") and not scenario.forever:
        if pick.random() < REBOOTS:
            _reboots(pick, scenario)
    elif scenario.engine == "shared" and pick.random() < ORDERS:
        _orders(pick, scenario)


def overlay_on_server(scenario: Scenario) -> None:
    """As `overlay`, for a scenario on a server, once its runs have been drawn."""
    pick = random.Random(f"{scenario.seed} worker theme on a server")
    if pick.random() < TAKEOVERS:
        pick.choice([_takeovers, _takeovers, _takeovers, _orders])(pick, scenario)


def _reboots(pick: random.Random, scenario: Scenario) -> None:
    """The machine is started again between runs; its clock may be wrong afterwards, or before."""
    scenario.engine = "file"
    first = RunPlan(
        end=pick.choice(["stop", "kill"]),
        at_s=pick.choice([2.0, 4.0, 9.0]),
        then_s=pick.choice([1.0, 30.0, 4000.0]),
        step_s=pick.choice([0.0, -3600.0, -3600.0, -30 * DAY_S, 3600.0]),
        reboots=True,
    )
    if pick.random() < 0.4:
        step_s = pick.choice([-3600.0, 3600.0, 3600.0, 40 * DAY_S])
        first.deeds = [Deed(at_s=pick.choice([0.5, 1.5]), verb="wall", value=step_s)]
    scenario.runs = [first, RunPlan()]


def _orders(pick: random.Random, scenario: Scenario) -> None:
    """Hosts are paused and slowed down, whoever leases them."""
    for host in scenario.hosts.values():
        host.dead = []
    names = list(scenario.hosts)
    deeds = []
    for name in pick.sample(names, min(len(names), 4)):
        at_s = pick.choice([1.0, 2.5, 5.0])
        verb = pick.choice(["pause host", "pause host", "slow host"])
        value = pick.choice([4.0, 15.0])
        back_s = at_s + pick.choice([12.0, 25.0])
        deeds += [
            Deed(at_s=at_s, verb=verb, host=name, value=value),
            Deed(at_s=back_s, verb="resume host", host=name),
        ]
    politeness = scenario.sections["politeness"]
    politeness |= {"delay": min(politeness["delay"], 1), "latency_factor": 0}
    scenario.runs[-1].deeds = sorted(deeds, key=lambda deed: deed.at_s)


def _takeovers(pick: random.Random, scenario: Scenario) -> None:
    """A worker is away for longer than its lease, and others take over hosts with much to do."""
    scenario.workers = pick.choice([2, 2, 3])
    sections = scenario.sections
    sections["crawl"] |= {
        "patience": 60, "max_pages": math.inf, "max_depth": math.inf, "concurrency": 64,
    }  # fmt: skip
    sections["scope"]["max_pages_per_host"] = math.inf
    sections["politeness"] |= {
        "delay": pick.choice([2, 3]), "latency_factor": 0, "per": "host", "concurrency_per_host": 1,
    }  # fmt: skip
    sections["politeness"].pop("visit_window", None)
    sections.pop("site", None)
    for number, name in enumerate(("h0.test", "h1.test", "h2.test")):
        paths = [f"/p{n}" for n in range(pick.choice([16, 22]))]
        pages = {path: PagePlan(slow_s=pick.choice([0.0, 0.0, 1.5])) for path in paths}
        pages["/p0"] = PagePlan(links=tuple(f"http://{name}{path}" for path in paths[1:]))
        scenario.hosts[name] = HostPlan(
            name=name, address="127.0.0.1", latency_s=0.05 + 0.1 * number,
            robots=[(0.0, RobotsPlan())], pages=pages,
        )  # fmt: skip
    scenario.hosts = {name: scenario.hosts[name] for name in ("h0.test", "h1.test", "h2.test")}
    scenario.seeds = [f"http://{name}/p0" for name in scenario.hosts]
    at_s = pick.choice([3.0, 5.0, 8.0]) * pick.uniform(0.8, 1.2)
    worker = pick.randrange(scenario.workers)
    verb, back = pick.choice(
        [
            ("freeze", "thaw"), ("freeze at release", "thaw"), ("freeze at release", "thaw"),
            ("cut off", "connect"), ("kill worker", ""),
        ]
    )  # fmt: skip
    run = RunPlan(end="stop", at_s=240.0)
    run.deeds = [Deed(at_s=at_s, verb=verb, value=worker)]
    if back:
        back_s = at_s + pick.choice([22.0, 26.0, 32.0])
        run.deeds.append(Deed(at_s=back_s, verb=back, value=worker))
    if verb == "freeze at release":  # another worker has nothing to do, so that hosts are released
        run.deeds.append(Deed(at_s=at_s + 1.0, verb="start worker", value=0))
    run.deeds.sort(key=lambda deed: deed.at_s)
    scenario.runs = [run]
