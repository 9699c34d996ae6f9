"""Politeness delays: when a host may be contacted next, and why."""

from __future__ import annotations

import enum
import re
from functools import lru_cache
from typing import Annotated

from msgspec import Struct

from policies.config_key import Key
from policies.retries import RETRY_AFTER_S_MAX


class Per(enum.StrEnum):
    """The scope of a delay."""

    HOST = "host"
    DOMAIN = "domain"
    IP = "ip"


DAY_S = 86_400
DELAY_S_MAX = 10 * 365.0 * DAY_S
"""The longest delay: ten years. Longer ones are cut to this."""

_DAY_MINUTES = 24 * 60
_DAY = (1 << _DAY_MINUTES) - 1
_WINDOW = re.compile(r"\s*(\d{1,2}):?(\d{2})\s*-\s*(\d{1,2}):?(\d{2})\s*\Z")


class Window(Struct, frozen=True):
    """A daily window in UTC, in seconds after midnight. It may cross midnight; equal ends mean all
    day."""

    start_s: int
    end_s: int

    def wait_s(self, wall_s: float) -> float:
        """Return seconds from the Unix time `wall_s` until the window opens; 0.0 while it is
        open."""
        day_s = wall_s % DAY_S
        length_s = (self.end_s - self.start_s) % DAY_S or DAY_S
        if (day_s - self.start_s) % DAY_S < length_s:
            return 0.0
        return (self.start_s - day_s) % DAY_S


ALL_DAY = Window(0, 0)


def parse_window(text: str) -> Window:
    """Parse `"22:00-06:00"` or the form of robots.txt, `"2200-0600"`. Raises ValueError."""
    found = _WINDOW.match(text)
    if not found:
        raise ValueError(f'a window is written "22:00-06:00" (UTC), not {text!r}')
    h1, m1, h2, m2 = map(int, found.groups())
    for hour, minute in ((h1, m1), (h2, m2)):
        if minute > 59 or hour * 60 + minute > 24 * 60:
            raise ValueError(f"there is no time of day {hour:02}:{minute:02} (in {text!r})")
    return Window((h1 * 3600 + m1 * 60) % DAY_S, (h2 * 3600 + m2 * 60) % DAY_S)


@lru_cache(maxsize=1024)
def _minutes(windows: tuple[Window, ...]) -> int:
    """The minutes of the day in any of `windows`, as a bit set."""
    found = 0
    for window in windows:
        start = window.start_s // 60
        length = ((window.end_s - window.start_s) % DAY_S or DAY_S) // 60
        both_days = ((1 << length) - 1) << start
        found |= (both_days | both_days >> _DAY_MINUTES) & _DAY
    return found


def _windows(minutes: int) -> tuple[Window, ...]:
    if minutes == _DAY:
        return (ALL_DAY,)
    found: list[Window] = []
    starts = minutes & ~(minutes << 1 | minutes >> _DAY_MINUTES - 1)
    for start in range(_DAY_MINUTES):
        if starts >> start & 1:
            ahead = minutes >> start | minutes << _DAY_MINUTES - start
            length = (~ahead & ahead + 1).bit_length() - 1
            found.append(Window(start * 60, (start + length) * 60 % DAY_S))
    return tuple(found)


def merged_windows(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """The same hours in the smallest number of windows."""
    return _windows(_minutes(windows)) if windows else ()


def common_windows(ours: tuple[Window, ...], theirs: tuple[Window, ...]) -> tuple[Window, ...]:
    """The hours in both; an empty tuple means all hours.

    If there are none, the smaller set is returned: a host that is never contacted could never
    publish other hours.
    """
    if not ours or not theirs or ours == theirs:
        return ours or theirs
    a, b = _minutes(ours), _minutes(theirs)
    if a & b:
        return ours if a & b == a else theirs if a & b == b else _windows(a & b)
    return theirs if b.bit_count() < a.bit_count() else ours


class PacingRules(Struct, frozen=True, kw_only=True):
    """The `[politeness]` section."""

    delay: Annotated[float, Key("minimum delay between requests to a host, seconds", "seconds")] = (
        1.0
    )
    latency_factor: Annotated[
        float, Key("wait at least this many times the host's recent response time")
    ] = 1.0
    per: Annotated[
        Per, Key('what a delay applies to; "ip" adds a separate delay per IP address', restart=True)
    ] = Per.HOST
    ip_delay: Annotated[
        float,
        Key('minimum delay between requests to an address, with per = "ip", seconds', "seconds"),
    ] = 0.25
    concurrency_per_host: Annotated[
        int, Key("requests in flight to one host", minimum=1, maximum=1_000)
    ] = 1
    max_retry_after_s: Annotated[
        float,
        Key("longest Retry-After that is obeyed; a longer one is cut to this, seconds", "seconds"),
    ] = RETRY_AFTER_S_MAX
    visit_window: Annotated[
        Window | None, Key('"22:00-06:00" UTC; empty: all day', parse=parse_window)
    ] = None


LATENCY_WEIGHT = 0.3  # of the latest response time in the smoothed one
LATENCY_TERM_MAX_S = 60.0  # a host that hangs must not be delayed forever


class RobotsPacing(Struct, frozen=True, kw_only=True):
    """The pace that a host's robots.txt files request; the strictest of its origins applies."""

    crawl_delay_s: float | None = None
    request_rate_s: float | None = None  # seconds per page
    windows: tuple[Window, ...] = ()  # Visit-time: during any of them; empty: always
    missing: bool = False  # a robots.txt of this host could not be fetched

    def strictest(self, other: RobotsPacing) -> RobotsPacing:
        return RobotsPacing(
            crawl_delay_s=_larger(self.crawl_delay_s, other.crawl_delay_s),
            request_rate_s=_larger(self.request_rate_s, other.request_rate_s),
            windows=common_windows(self.windows, other.windows),
            missing=self.missing or other.missing,
        )

    @property
    def alone(self) -> bool:
        """Whether only one request at a time is welcome (law 1)."""
        return bool(self.crawl_delay_s) or bool(self.request_rate_s)


NO_ROBOTS_PACING = RobotsPacing()


def _larger(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    return max(a, b)


class PolitenessDelay(Struct, frozen=True):
    """The delay of a host after the end of a contact, in seconds, and what determined it."""

    delay_s: float
    source: str


def politeness_delay(
    rules: PacingRules,
    ask: RobotsPacing,
    *,
    latency_s: float | None = None,
    slow_s: float | None = None,
) -> PolitenessDelay:
    """The delay after a contact (law 1).

    The largest of the configured delay, the Crawl-delay and Request-rate of robots.txt, and the
    response time of the host; doubled while its robots.txt could not be fetched.

    latency_s: the smoothed response time. slow_s: a delay set by the operator.
    """
    best_s, source = rules.delay, "politeness.delay"
    if ask.crawl_delay_s is not None and ask.crawl_delay_s > best_s:
        best_s, source = ask.crawl_delay_s, "Crawl-delay in robots.txt"
    if ask.request_rate_s is not None and ask.request_rate_s > best_s:
        best_s, source = ask.request_rate_s, "Request-rate in robots.txt"
    if slow_s is not None and slow_s > best_s:
        best_s, source = slow_s, "slowed manually"
    if latency_s is not None:
        slowness_s = min(rules.latency_factor * latency_s, LATENCY_TERM_MAX_S)
        if slowness_s > best_s:
            best_s = slowness_s
            source = f"{rules.latency_factor:g} × its recent response time"
    if ask.missing and best_s > 0:
        best_s *= 2
        source += ", doubled while its robots.txt could not be fetched"
    return PolitenessDelay(min(best_s, DELAY_S_MAX), source)


def address_delay_s(rules: PacingRules, ask: RobotsPacing) -> float:
    """The delay of an address (`per = "ip"`): Yahoo's help page counted Crawl-delay per address."""
    asked_s = max(rules.ip_delay, ask.crawl_delay_s or 0.0, ask.request_rate_s or 0.0)
    return min(asked_s, DELAY_S_MAX)


def smoothed_latency_s(latency_s: float | None, newest_s: float) -> float:
    """The exponentially weighted response time."""
    if latency_s is None:
        return newest_s
    return latency_s + LATENCY_WEIGHT * (newest_s - latency_s)


def window_wait_s(rules: PacingRules, ask: RobotsPacing, wall_s: float) -> float:
    """Return the seconds until visits are welcome: by the configured window and any window of
    robots.txt. DELAY_S_MAX: these have no hour in common."""
    windows = _welcome(rules.visit_window, ask.windows)
    return min((window.wait_s(wall_s) for window in windows), default=DELAY_S_MAX)


@lru_cache(maxsize=1024)
def _welcome(ours: Window | None, theirs: tuple[Window, ...]) -> tuple[Window, ...]:
    """The hours in `ours` and in any of `theirs`; empty if there are none."""
    if ours is None:
        return theirs or (ALL_DAY,)
    return _windows(_minutes((ours,)) & _minutes(theirs)) if theirs else (ours,)


def lanes(rules: PacingRules, ask: RobotsPacing, *, backing_off: bool) -> int:
    """Return how many contacts with a host may be open at a time (law 1)."""
    return 1 if backing_off or ask.alone else rules.concurrency_per_host
