"""What workers that share a database must not do to each other."""

from __future__ import annotations

from typing import Final

from tests.simulation.history import History

TAKEN_OVER: Final = "other workers have taken over the hosts of this one"
# After these, or a fault of the store, a worker may have been silent for longer than its lease.
SILENCING: Final = frozenset({"freeze", "freeze at release", "cut off", "sleep", "back to copy"})


def takeovers(history: History) -> list[str]:
    """No worker loses its hosts that renews its session in time."""
    verbs = {done.verb for run in history.runs for done in run.done}
    if SILENCING & verbs or history.faults:
        return []
    return [
        f"a worker that was never silent lost its hosts: {line}"
        for line in history.warnings
        if line.startswith(TAKEN_OVER)
    ]
