"""A notification as JSON: the body of a request to the webhook."""

from __future__ import annotations

from msgspec import Struct

from crawler.config.units import format_duration
from crawler.daemon.health import CheckName, HealthState
from crawler.daemon.webhook.changes import Change, Event
from crawler.explain.site_text import for_terminal


class Notification(Struct, frozen=True, kw_only=True):
    """A change of one check. Fields may be added, and none is renamed or removed.

    daemon: its name. state, sentence: of the check, now. since: when the trouble began; at: when
    this was found (Unix seconds). lasted_s: how long the trouble has lasted, or had when it was
    over. health: the worst state of all checks. page: the URL of the daemon's page. text: all of
    this for a person.
    """

    event: Event
    daemon: str
    check: CheckName
    state: HealthState
    sentence: str
    since: float
    lasted_s: float
    at: float
    health: HealthState
    page: str
    text: str


def notification_of(
    change: Change, *, daemon: str, health: HealthState, page: str, at_s: float
) -> Notification:
    """Describe a change. at_s: Unix seconds."""
    check = change.check
    return Notification(
        event=change.event,
        daemon=daemon,
        check=check.check,
        state=check.state,
        sentence=for_terminal(check.sentence),
        since=change.since,
        lasted_s=round(change.lasted_s, 3),
        at=at_s,
        health=health,
        page=page,
        text=f"{daemon}: {_summary(change)} {for_terminal(check.sentence)}",
    )


def _summary(change: Change) -> str:
    name, lasted = change.check.check.value, format_duration(round(change.lasted_s))
    warning = change.check.state is HealthState.WARNING
    match change.event:
        case Event.BEGAN:
            return f"{name} {'has a warning' if warning else 'is bad'}."
        case Event.WORSENED:
            return f"{name} is bad now."
        case Event.CONTINUES:
            return f"{name} {'still has a warning' if warning else 'is still bad'}, after {lasted}."
        case Event.RECOVERED:
            return f"{name} is {'no longer bad' if warning else 'ok again'}, after {lasted}."
