"""When a host may be contacted next, and why: a pure reckoning over its clock."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass


class Per(enum.StrEnum):
    """What a delay counts for."""

    HOST = "host"
    DOMAIN = "domain"
    IP = "ip"


DAY_S = 86_400
_WINDOW = re.compile(r"\s*(\d{1,2}):?(\d{2})\s*-\s*(\d{1,2}):?(\d{2})\s*\Z")


@dataclass(frozen=True, slots=True)
class Window:
    """A daily window in UTC, in seconds after midnight; it may cross midnight. Equal ends: all day."""

    start_s: int
    end_s: int

    def wait_s(self, wall_s: float) -> float:
        """Seconds from the Unix time `wall_s` until the window is open; 0.0 while it is."""
        day_s = wall_s % DAY_S
        length_s = (self.end_s - self.start_s) % DAY_S or DAY_S
        if (day_s - self.start_s) % DAY_S < length_s:
            return 0.0
        return (self.start_s - day_s) % DAY_S


def parse_window(text: str) -> Window:
    """`"22:00-06:00"` or, as robots.txt writes it, `"2200-0600"`. Raises ValueError."""
    found = _WINDOW.match(text)
    if not found:
        raise ValueError(f'a window is written "22:00-06:00" (UTC), not {text!r}')
    h1, m1, h2, m2 = map(int, found.groups())
    for hour, minute in ((h1, m1), (h2, m2)):
        if minute > 59 or hour * 60 + minute > 24 * 60:
            raise ValueError(f"there is no time of day {hour:02}:{minute:02} (in {text!r})")
    return Window((h1 * 3600 + m1 * 60) % DAY_S, (h2 * 3600 + m2 * 60) % DAY_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacingRules:
    """The `[politeness]` section. Seconds."""

    delay: float = 1.0
    latency_factor: float = 1.0
    per: Per = Per.HOST
    ip_delay: float = 0.25
    concurrency_per_host: int = 1
    visit_window: Window | None = None
