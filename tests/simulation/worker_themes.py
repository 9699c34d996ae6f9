"""Scenarios in which the machine is started again between two runs, and in which the orders of one
worker apply to hosts that others lease.

Each is drawn from a stream of its own, so that scenarios without one stay what they are.
"""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.scenario import DAY_S, Deed, RunPlan, Scenario

REBOOTS: Final = 0.12  # of the scenarios of one worker
ORDERS: Final = 0.4  # of those of several


def overlay(scenario: Scenario) -> None:
    """Apply the theme of this scenario, if it has one."""
    pick = random.Random(f"{scenario.seed} worker theme")
    if scenario.engine in ("memory", "file") and not scenario.forever:
        if pick.random() < REBOOTS:
            _reboots(pick, scenario)
    elif scenario.engine == "shared" and pick.random() < ORDERS:
        _orders(pick, scenario)


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
