"""Which changes of health are reported: those that last, and none twice.

A check is in trouble from the moment it reaches the level of the config until it has been better
for a while. What flaps is one trouble, and the more often a check has recovered recently, the
longer it must stay well to count as recovered again. So a check that keeps changing is reported
less and less often.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection
from typing import Final

from msgspec import Struct

from crawler.config.units import format_duration
from crawler.config.webhook import WebhookConfig
from crawler.daemon.health import Check, CheckName, Health, HealthState
from crawler.explain.site_text import for_terminal

CALM_S_MIN: Final = 15.0  # even with `after = 0`, a check has recovered only after this long
CALM_S_MAX: Final = 3_600.0  # and also the time for which recoveries are remembered


class Event(enum.StrEnum):
    """What happened to a check."""

    BEGAN = "began"  # it is in trouble
    WORSENED = "worsened"  # it was reported as a warning, and is bad now
    CONTINUES = "continues"  # as reported before
    RECOVERED = "recovered"


class Change(Struct, frozen=True, kw_only=True):
    """A change to be reported. since: when the trouble began, in Unix seconds. lasted_s: how long
    it has lasted until now, or until the recovery."""

    event: Event
    check: Check
    since: float
    lasted_s: float


class _Trouble:
    """One check in trouble. Times are monotonic unless they say otherwise."""

    def __init__(self, now_s: float, since: float) -> None:
        self.began_s = now_s
        self.since = since  # Unix seconds
        self.told: HealthState | None = None  # the state that was reported
        self.told_s = now_s
        self.bad_s: float | None = None  # since when it is bad
        self.calm_s: float | None = None  # since when it is better than the level


class HealthChanges:
    """Follows the health of one crawl."""

    def __init__(self) -> None:
        self._troubles: dict[CheckName, _Trouble] = {}
        self._recovered_s: dict[CheckName, deque[float]] = {}

    def seen(
        self, health: Health, rules: WebhookConfig, *, now_s: float, at_s: float
    ) -> list[Change]:
        """Return what must be reported now.

        Call it every few seconds. now_s: monotonic; at_s: Unix seconds. The health of the webhook
        itself is not reported: its trouble would reach nobody.
        """
        level = HealthState(rules.level.value)
        found = []
        for check in health.checks:
            if check.check is CheckName.WEBHOOK:
                continue
            if not _selected(check.check, rules.checks):
                self._troubles.pop(check.check, None)
                continue
            if check.state.severity >= level.severity:
                change = self._worse(check, rules, now_s, at_s)
            else:
                change = self._better(check, rules, now_s, at_s)
            if change is not None:
                found.append(change)
        return found

    def _worse(
        self, check: Check, rules: WebhookConfig, now_s: float, at_s: float
    ) -> Change | None:
        trouble = self._troubles.get(check.check)
        if trouble is None:
            trouble = self._troubles[check.check] = _Trouble(now_s, at_s)
        trouble.calm_s = None
        if check.state is not HealthState.BAD:
            trouble.bad_s = None
        elif trouble.bad_s is None:
            trouble.bad_s = now_s
        event = None
        if trouble.told is None:
            if now_s - trouble.began_s >= rules.after_s:
                event = Event.BEGAN
        elif check.state.severity > trouble.told.severity:
            if trouble.bad_s is not None and now_s - trouble.bad_s >= rules.after_s:
                event = Event.WORSENED
        elif now_s - trouble.told_s >= rules.repeat_s:
            event = Event.CONTINUES
        if event is None:
            return None
        if event is not Event.CONTINUES:  # a bad check that is a warning meanwhile was bad
            trouble.told = check.state
        trouble.told_s = now_s
        return Change(
            event=event, check=check, since=trouble.since, lasted_s=now_s - trouble.began_s
        )

    def _better(
        self, check: Check, rules: WebhookConfig, now_s: float, at_s: float
    ) -> Change | None:
        trouble = self._troubles.get(check.check)
        if trouble is None:
            return None
        if trouble.calm_s is None:
            trouble.calm_s = now_s
        recent = self._recent(check.check, now_s)
        needed_s = max(rules.after_s, CALM_S_MIN)
        if trouble.told is not None:
            needed_s = max(needed_s, min(needed_s * 2 ** len(recent), CALM_S_MAX))
        if now_s - trouble.calm_s < needed_s:
            return None
        del self._troubles[check.check]
        if trouble.told is None:
            return None  # too short to be reported
        recent.append(now_s)
        return Change(
            event=Event.RECOVERED,
            check=check,
            since=trouble.since,
            lasted_s=trouble.calm_s - trouble.began_s,
        )

    def _recent(self, name: CheckName, now_s: float) -> deque[float]:
        """The reported recoveries of a check within an hour."""
        recent = self._recovered_s.setdefault(name, deque())
        while recent and now_s - recent[0] > CALM_S_MAX:
            recent.popleft()
        return recent


def _selected(name: CheckName, names: Collection[str]) -> bool:
    return not names or name.value in names


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
