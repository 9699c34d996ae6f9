"""When a robots.txt is requested again, by the sites' own log (docs/robots.md)."""

from __future__ import annotations

from typing import Final

from policies.url import host_of
from tests.simulation.history import History
from tests.simulation.robots_model import uncertain_times
from tests.simulation.web import Contact

EDGE_S: Final = 0.002
REFUSED: Final = (429, 503)


def robots_retries(history: History) -> list[str]:
    """A robots.txt that asked for a later request is not requested before, also if it is reached by
    redirects: then the file at their beginning is not either."""
    verbs = {done.verb for run in history.runs for done in run.done}
    if history.steps or history.scenario.workers > 1 or {"retry", "reload"} & verbs:
        return []
    with_pages = _with_pages(history)
    targets = {
        contact.host: contact.robots.target
        for contact in history.contacts
        if contact.robots is not None and contact.robots.kind == "redirect"
    }
    uncertain = uncertain_times(history)
    not_before: dict[str, tuple[float, Contact]] = {}
    problems = []
    for contact in history.contacts:
        if not contact.is_robots or contact.broken_off:
            continue
        asked = not_before.get(contact.host)
        if asked is not None and contact.start_s < asked[0] - EDGE_S:
            early_s = asked[0] - contact.start_s
            problems.append(f"robots.txt {early_s:.1f} s too soon: {contact} after {asked[1]}")
        if contact.status not in REFUSED or contact.retry_after_s is None:
            continue
        if uncertain.near(contact.end_s):
            continue
        until_s = contact.end_s + contact.retry_after_s
        for host in [contact.host, *_led_here(contact.host, targets, with_pages)]:
            not_before[host] = (until_s, contact)
    return problems


def _with_pages(history: History) -> set[str]:
    """Hosts of which more than the robots.txt may have been wanted."""
    wanted = {contact.host for contact in history.contacts if not contact.is_robots}
    for view in ("visited", "blocked", "failed", "queued"):
        wanted |= {host_of(str(row["url"])) for row in history.rows[view]}
    return wanted


def _led_here(host: str, targets: dict[str, str], with_pages: set[str]) -> list[str]:
    """The hosts whose robots.txt redirects to this one's alone: nobody else requested that."""
    led: list[str] = []
    while host not in with_pages:
        sources = [source for source, target in targets.items() if target == host]
        if len(sources) != 1 or sources[0] in led:
            break
        host = sources[0]
        led.append(host)
    return led
