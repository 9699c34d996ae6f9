"""All oracles together."""

from __future__ import annotations

from tests.simulation import other_judges
from tests.simulation.history import History
from tests.simulation.liveness_judge import liveness
from tests.simulation.pace_judge import PaceJudge
from tests.simulation.robots_judge import robots_retries
from tests.simulation.sessions import sessions
from tests.simulation.store_judge import next_contacts
from tests.simulation.url_judge import UrlJudge
from tests.simulation.worker_judge import takeovers


def problems_of(history: History) -> list[str]:
    """What is wrong with a history; nothing, if the program kept its promises."""
    found = [*history.errors, *(f"database: {text}" for text in history.sound)]
    if history.errors:
        return found
    pace = PaceJudge(history)
    found += pace.judge()
    found += UrlJudge(history).judge()
    for judge in (
        other_judges.sinks, other_judges.revisits, other_judges.audit, other_judges.bounds,
        robots_retries, next_contacts, takeovers, sessions,
    ):  # fmt: skip
        found += judge(history)
    found += liveness(history, pace)
    return found
