"""What the database keeps for the next run: when each host may be contacted next."""

from __future__ import annotations

from typing import Final

from tests.simulation.history import History
from tests.simulation.robots_model import uncertain_times
from tests.simulation.web import Contact

EDGE_S: Final = 0.002


def next_contacts(history: History) -> list[str]:
    """`next_at` of a host is not before its delay after the last contact has passed."""
    if history.steps:
        return []
    uncertain = uncertain_times(history)
    config = history.configs[0][2]
    last: dict[str, Contact] = {}
    for contact in history.contacts:
        last[config.slot_of(contact.host)] = contact
    problems = []
    for row in history.rows["hosts"]:
        slot = str(row["host"])
        newest = last.get(slot)
        if newest is None or newest.broken_off or uncertain.near(newest.end_s):
            continue
        rules = [one.site(slot).politeness for _, _, one in history.configs]
        if any(one.concurrency_per_host > 1 for one in rules):
            continue
        delay_s = min(one.delay for one in rules)
        next_s = float(str(row["next_at"])) - history.wall_from_s
        if next_s < newest.end_s + delay_s - EDGE_S:
            early_s = newest.end_s + delay_s - next_s
            problems.append(f"{slot} may be contacted {early_s:.3f} s too soon after {newest}")
    return problems
