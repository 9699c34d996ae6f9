"""Why a host in memory waits: data, and the catalogue of sentences for it. Sentences about a host
or URL that is only in the database are in `crawler.explain.sentences`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from crawler.config.units import format_duration
from policies.scope import SKIP_KEYS


class Wait(enum.Enum):
    """The kind of a reason to wait."""

    READY = enum.auto()  # nothing: it may be contacted now
    IN_FLIGHT = enum.auto()  # all its lanes are in use
    PAUSED = enum.auto()  # this host is paused
    CRAWL_PAUSED = enum.auto()
    CRAWL_HELD = enum.auto()  # by a system hold, which has its own sentence
    DELAY = enum.auto()  # the politeness delay since its last request
    STORED = enum.auto()  # a delay stored by an earlier run
    BACKOFF = enum.auto()
    RESTARTED = enum.auto()
    VISIT_WINDOW = enum.auto()
    ADDRESS_DELAY = enum.auto()
    ADDRESS_ELSEWHERE = enum.auto()
    SAME_PROCESS = enum.auto()  # another crawl or session of this process contacts it
    RETRY = enum.auto()
    RECONNECT = enum.auto()
    CLOSED = enum.auto()
    ROBOTS_NEEDED = enum.auto()
    ROBOTS_FETCHED = enum.auto()
    ROBOTS_ROOM = enum.auto()
    ROBOTS_ELSEWHERE = enum.auto()
    ROBOTS_PAUSED = enum.auto()
    ROBOTS_HOST_LEASED = enum.auto()
    HOST_FULL = enum.auto()  # its limit of pages or bytes is reached
    RUN_LIMITED = enum.auto()
    LEASED_ELSEWHERE = enum.auto()
    GIVEN_UP = enum.auto()  # no connection could be made, and its URLs have failed
    FORBIDDEN = enum.auto()  # the config does not allow connecting to its address
    IDLE = enum.auto()


class Reason(Struct, frozen=True):
    """The reason why something waits. The meaning of the other fields depends on `wait`.

    source: where a delay comes from, an error, or the name of a host or a limit.
    delay_s: of DELAY. status: of BACKOFF, the answer that caused it; None: not known.
    because: of ROBOTS_ELSEWHERE, why that host waits.
    """

    wait: Wait
    source: str = ""
    delay_s: float = 0.0
    status: int | None = None
    because: Reason | None = None

    @property
    def sentence(self) -> str:
        """The reason in words, without a capital or a full stop."""
        if self.wait is Wait.BACKOFF:
            return _backoff_sentence(self.status)
        because = self.because.sentence if self.because is not None else ""
        return _SENTENCES[self.wait].format(
            source=self.source, delay=format_duration(self.delay_s), because=because
        )


READY: Final = Reason(Wait.READY)
IN_FLIGHT: Final = Reason(Wait.IN_FLIGHT)
PAUSED: Final = Reason(Wait.PAUSED)
CRAWL_PAUSED: Final = Reason(Wait.CRAWL_PAUSED)
CRAWL_HELD: Final = Reason(Wait.CRAWL_HELD)
BACKOFF: Final = Reason(Wait.BACKOFF)
RESTARTED: Final = Reason(Wait.RESTARTED)
VISIT_WINDOW: Final = Reason(Wait.VISIT_WINDOW)
RETRY: Final = Reason(Wait.RETRY)
ROBOTS_NEEDED: Final = Reason(Wait.ROBOTS_NEEDED)
ROBOTS_FETCHED: Final = Reason(Wait.ROBOTS_FETCHED)
ROBOTS_ROOM: Final = Reason(Wait.ROBOTS_ROOM)
SAME_PROCESS: Final = Reason(Wait.SAME_PROCESS)
LEASED_ELSEWHERE: Final = Reason(Wait.LEASED_ELSEWHERE)
IDLE: Final = Reason(Wait.IDLE)

_SENTENCES: Final[dict[Wait, str]] = {
    Wait.READY: "ready",
    Wait.IN_FLIGHT: "a request is in flight",
    Wait.PAUSED: "paused by an operator",
    Wait.CRAWL_PAUSED: "the whole crawl is paused by an operator",
    Wait.CRAWL_HELD: "the whole crawl is on hold",
    Wait.DELAY: "politeness delay of {delay} ({source})",
    Wait.STORED: "{source}",
    Wait.RESTARTED: "full delay after a crawl that ended unexpectedly",
    Wait.VISIT_WINDOW: "outside its visit window",
    Wait.ADDRESS_DELAY: "delay of its address {source}",
    Wait.ADDRESS_ELSEWHERE: "another worker contacts its address {source}",
    Wait.SAME_PROCESS: "another crawl or session of this process contacts it",
    Wait.RETRY: "retry after a failure",
    Wait.RECONNECT: "next attempt to connect ({source})",
    Wait.CLOSED: "{source}",
    Wait.ROBOTS_NEEDED: "robots.txt is needed first",
    Wait.ROBOTS_FETCHED: "its robots.txt is being fetched",
    Wait.ROBOTS_ROOM: "its robots.txt waits for those of other hosts",
    Wait.ROBOTS_ELSEWHERE: "its robots.txt is waiting for {source}: {because}",
    Wait.ROBOTS_PAUSED: "its robots.txt redirects to {source}, which is paused by an operator",
    Wait.ROBOTS_HOST_LEASED: "its robots.txt redirects to {source}, leased by another worker",
    Wait.HOST_FULL: "{source} has been reached",
    Wait.RUN_LIMITED: "{source} has been reached",
    Wait.GIVEN_UP: "its URLs were given up, because no connection could be made ({source})",
    Wait.FORBIDDEN: "the config does not allow connecting to it ({source})",
    Wait.LEASED_ELSEWHERE: "another worker has leased this host",
    Wait.IDLE: "no work to do",
}


def _backoff_sentence(status: int | None) -> str:
    """Names the response that caused it; one of any other status had a Retry-After header."""
    match status:
        case 429:
            return "backing off after a 429 response (too many requests)"
        case 503:
            return "backing off after a 503 response (service unavailable)"
        case 401 | 403:
            return f"backing off after repeated {status} responses"
        case None:
            return "backing off"
    return "backing off as its Retry-After header requests"


def latest_backoff(contacts: object) -> Reason:
    """Return why a host backs off, by its latest response. contacts: those of `Reader.host`, oldest
    first."""
    ring = contacts if isinstance(contacts, list | tuple) else ()
    statuses = [one["status"] for one in ring if isinstance(one, Mapping)]
    return Reason(Wait.BACKOFF, status=next((s for s in reversed(statuses) if s is not None), 0))


def run_limit_reached(limit: str) -> Reason:
    """The reason for all hosts when a limit of the run is reached. limit: a
    `policies.scope.Skip`."""
    return Reason(Wait.RUN_LIMITED, SKIP_KEYS[limit])


def limit_reached(limit: str) -> Reason:
    """The reason for a host that has reached its limit of pages or bytes. limit: a
    `policies.scope.Skip`."""
    return Reason(Wait.HOST_FULL, SKIP_KEYS[limit])
