"""Scenarios for workers on a PostgreSQL server, and what happens to their connections, to the
server's clock and to what it has stored."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation import scenario as usual
from tests.simulation import worker_themes
from tests.simulation.scenario import Deed, RunPlan, Scenario

PATIENCE_S: Final = 20  # each second, each worker renews its session
STEPS_S: Final = (0.9, -0.9, 0.95, 5.0, -5.0, 3600.0, -3600.0, 30 * 86_400.0, -30 * 86_400.0)
THEMES: Final = (
    "plain", "commands", "workers", "workers", "kills", "kills", "connections", "connections",
    "clock", "clock", "past", "past", "mixed", "mixed",
)  # fmt: skip


def draw(seed: int) -> Scenario:
    """The scenario of this number."""
    scenario = usual.draw(seed, engine="postgres")
    pick = random.Random(f"{seed} postgres")
    scenario.workers = pick.choice([1, 2, 2, 2, 3, 4])
    sections = scenario.sections
    sections["crawl"]["patience"] = min(sections["crawl"]["patience"], PATIENCE_S)
    sections["revisit"] = {"mode": "off"}
    theme = pick.choice(THEMES)
    count = {"kills": pick.choice([1, 2, 3]), "clock": 2}.get(theme, pick.choice([1, 1, 2]))
    scenario.runs = [_run(pick, scenario, theme) for _ in range(count)]
    last = scenario.runs[-1]
    last.end, last.at_s, last.at_call = "stop", pick.choice([60.0, 120.0, 240.0]), 0
    worker_themes.overlay_on_server(scenario)
    return scenario


def _run(pick: random.Random, scenario: Scenario, theme: str) -> RunPlan:
    run = RunPlan(end=pick.choice(["stop", "kill", "kill"]), at_s=pick.choice([3.0, 9.0, 40.0]))
    if run.end == "kill" and pick.random() < 0.6:
        run.at_call, run.after = pick.choice([3, 6, 12, 25, 60]), pick.random() < 0.5
    run.then_s = pick.choice([0.0, 1.0, 30.0, 4000.0])
    run.step_s = pick.choice([0.0, 0.0, *STEPS_S]) if theme == "clock" else 0.0
    run.deeds = sorted(_deeds(pick, scenario, theme), key=lambda deed: deed.at_s)
    return run


def _deeds(pick: random.Random, scenario: Scenario, theme: str) -> list[Deed]:
    parts = {
        "commands": ["command"] * 3, "workers": ["worker"] * pick.randint(1, 2),
        "kills": ["worker"], "connections": ["connection"] * pick.randint(2, 6),
        "clock": ["clock"] * pick.randint(2, 5), "past": ["past"],
        "mixed": pick.sample(["worker", "connection", "connection", "clock", "command"], 3),
    }.get(theme, [])  # fmt: skip
    deeds: list[Deed] = []
    for part in parts:
        deeds += _part(pick, scenario, part)
    return deeds


def _part(pick: random.Random, scenario: Scenario, part: str) -> list[Deed]:
    at_s = pick.choice([0.3, 1.5, 4.0, 12.0, 30.0]) * pick.uniform(0.7, 1.3)
    worker = pick.randrange(scenario.workers)
    host = pick.choice(list(scenario.hosts))
    match part:
        case "worker":
            return usual.of_worker(pick, scenario.workers)
        case "connection":
            verb = pick.choice(["cut connections", "cut before commit", "cut after commit"])
            return [Deed(at_s=at_s, verb=verb, value=worker)]
        case "clock":
            return [Deed(at_s=at_s, verb="server clock", value=pick.choice(STEPS_S))]
        case "past":
            lost_s = pick.choice([0.6, 3.0, 8.0])
            return [
                Deed(at_s=at_s, verb="copy"),
                Deed(at_s=at_s + lost_s, verb="back to copy", value=lost_s),
            ]
        case _:
            verb = pick.choice(["pause", "pause host", "slow host", "seeds", "retry"])
            return usual.deeds_of(pick, scenario, at_s, verb, host)
