"""The overview: whether the crawl is healthy, what it is doing, and what needs attention."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from crawler.console import charts, filters
from crawler.console.charts import Quantity
from crawler.console.command_forms import STATES
from crawler.console.drawing import Axis, Chart, whole
from crawler.console.host_pages import attention, host_pill
from crawler.console.rendering import PageContext, PageHandlers, link
from crawler.daemon.health import CheckName, HealthState
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.monitoring.series import Track
from crawler.daemon.responses import Status, others_in
from crawler.explain.formatting import counted
from crawler.explain.sentences import returns_sentence
from crawler.operator_commands import CrawlState
from crawler.steering.live_state import HOST_WORDS
from crawler.steering.queue_waits import QueueReason, QueueWait
from storage.store import StoreError

SPANS: Final = (("10m", "10 min", 600.0), ("1h", "1 h", 3_600.0), ("24h", "24 h", 86_400.0))
FETCHING_SHOWN: Final = 8
ATTENTION_KEPT_S: Final = 4.0
_HOSTS_OF_EACH: Final = 4  # in each state that needs attention
_COUNTED_OF_EACH: Final = 100  # further ones are "more than": a count of all would be slow
_ATTENTION_STATES: Final = {
    name: label for name, label in STATES if name in ("backing-off", "paused", "slowed", "failing")
}

URL_LABELS: Final = {
    "visited": "Visited",
    "queued": "Queued",
    "blocked": "Blocked",
    "failed": "Failed",
}
OUTCOME_LABELS: Final = {
    "2xx": "2xx, success",
    "3xx": "3xx, redirect",
    "4xx": "4xx, client error",
    "5xx": "5xx, server error",
    "none": "No usable response",
    "other": "Other statuses",
}
_UNTIL_RESUMED: Final = frozenset((QueueReason.PAUSED, QueueReason.CRAWL_PAUSED))
_AT_ONCE: Final = frozenset((QueueReason.READY, QueueReason.IN_FLIGHT))
CHECK_LINKS: Final = {
    CheckName.NETWORK: "/hosts?state=failing",
    CheckName.RESPONSES: "/hosts?state=backing-off",
    CheckName.URLS: "/hosts?state=failing&sort=-failed",
    CheckName.POLITENESS: "/hosts?sort=-breaches",
}
HOST_LABELS: Final = {
    state.replace(" ", "_"): words[0].upper() + words[1:] for state, words in HOST_WORDS.items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    title: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAttention:
    """A host that needs attention."""

    host: str
    kind: str
    word: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The hosts that need attention. `totals`: a link and words such as "21 with failures" for each
    state, if `rows` leaves out any host."""

    rows: Sequence[HostAttention] = ()
    totals: Sequence[tuple[str, str]] = ()


class OverviewPage(PageHandlers):
    """Handlers of the overview and of its buttons. The hosts that need attention are looked up
    every few seconds at most: the query reads all hosts, which may be 100,000."""

    def __init__(self, context: PageContext) -> None:
        super().__init__(context)
        self._attention = Attention()
        self._attention_at_s = -math.inf
        self._lock = asyncio.Lock()

    async def overview(self, request: web.Request) -> web.Response:
        status, now_s = await self.operations.status(), self.renderer.clock.wall()
        spans = {name: seconds for name, _, seconds in SPANS}
        span = request.query.get("span", "")
        span = span if span in spans else SPANS[0][0]
        outcomes = _outcomes(self.monitor.metrics.by_outcome())
        held = {name.replace(" ", "_"): count for name, count in status.hosts_by_state.items()}
        urls = {name: getattr(status, name) for name in URL_LABELS}
        # Of what one worker does, the others report a part only.
        here = ", this worker" if len(status.workers) > 1 else ""
        values = {
            "headline": headline(status),
            "returned": returned(status),
            "checks": status.health.checks,
            "holds": queue_rows(status),
            "check_links": CHECK_LINKS,
            "here": here,
            "spans": [(name, label) for name, label, _ in SPANS],
            "span": span,
            "plots": plots(self.monitor, here, now_s=now_s, span_s=spans[span]),
            "attention": await self._needing_attention(now_s),
            "fetching": status.fetching[:FETCHING_SHOWN],
            "nothing_now": _nothing_in_flight(status),
            "urls": whole("URLs by state", urls, URL_LABELS),
            "outcomes": whole("Requests of this run by outcome", outcomes, OUTCOME_LABELS),
            "held": whole("Hosts in memory by what each is doing", held, HOST_LABELS),
        }
        return await self.page(request, "overview", values)

    async def _needing_attention(self, now_s: float) -> Attention:
        async with self._lock:
            clock = self.renderer.clock
            if clock.monotonic() - self._attention_at_s >= ATTENTION_KEPT_S:
                with suppress(StoreError):  # this page shows the hold that comes with it
                    self._attention = await self._look_up(now_s)
                self._attention_at_s = clock.monotonic()
            return self._attention

    async def _look_up(self, now_s: float) -> Attention:
        shown: dict[str, HostAttention] = {}
        names: set[str] = set()
        totals: list[tuple[str, str]] = []
        for state, label in _ATTENTION_STATES.items():
            found = await self.operations.hosts(state=state, limit=_COUNTED_OF_EACH)
            names.update(row.host for row in found.hosts)
            if found.hosts:
                number = f"more than {len(found.hosts):,}" if found.after else len(found.hosts)
                totals.append((link("/hosts", {"state": state}), f"{number} {label}"))
            for row in found.hosts[:_HOSTS_OF_EACH]:
                kind, word = host_pill(row, now_s)
                why = attention(row, kind)
                if state == "failing" and kind in ("calm", "good"):
                    kind, word = "bad", "failures"
                shown.setdefault(
                    row.host, HostAttention(host=row.host, kind=kind, word=word, why=why)
                )
        return Attention(
            rows=list(shown.values()), totals=totals if len(names) > len(shown) else ()
        )


def queue_rows(status: Status) -> list[dict[str, object]]:
    """Return what holds the queue, with links to its hosts and the length of a bar (1 to 20)."""
    return [
        {
            "hold": one,
            "link": link("/hosts", {"reason": one.reason}),
            "width": max(1, round(20 * one.urls / max(1, status.queued))),
            "until": _until(one),
        }
        for one in status.queue
    ]


def _until(hold: QueueWait) -> str:
    """The end of a wait without a time to come."""
    if hold.reason in _UNTIL_RESUMED:
        return "until resumed"
    return "unknown" if hold.first_at is None and hold.reason not in _AT_ONCE else "now"


def headline(status: Status) -> Headline:
    """The state of the crawl in a phrase, and a sentence about it: first what is wrong."""
    counts = f"{counted(status.visited, 'page')} visited on {counted(status.hosts, 'host')}"
    left = f"{status.queued:,} queued"
    title, sentence = _activity(status, counts, left)
    troubles = status.health.troubles
    if not troubles or status.state in (CrawlState.HELD, CrawlState.STOPPING):
        return Headline(title=title, sentence=sentence)
    bad = [one for one in troubles if one.state is HealthState.BAD]
    title += ", but not well" if bad else ", with warnings"
    shown = " ".join(one.sentence for one in bad or troubles)
    return Headline(title=title, sentence=f"{shown} {counts}, {left}.")


def returned(status: Status) -> str:
    """Describe the returns of the database to an earlier state; "" if there were none."""
    if not status.database_returns or status.database_returned_at is None:
        return ""
    sentence = returns_sentence(status.database_returns, status.database_returned_at)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _activity(status: Status, counts: str, left: str) -> tuple[str, str]:
    """What the crawl is doing: a phrase, and a sentence."""
    match status.state:
        case CrawlState.PAUSED:
            return "Paused", (
                f"No new requests are started until the crawl is resumed. {counts}, {left}."
            )
        case CrawlState.HELD:
            return "On hold: a problem with this machine or its network", (
                f"The crawl resumes automatically once the problem is resolved. {counts}, {left}."
            )
        case CrawlState.STOPPING:
            return "Stopping", (
                "Requests in flight are being finished and their results committed. "
                f"{counts}, {left}."
            )
        case CrawlState.IDLE if any(not one.idle for one in others_in(status.workers)):
            return "Running on other workers", (
                f"This worker has nothing to do at present. {counts}, {left}."
            )
        case CrawlState.IDLE if not status.hosts:
            return "Waiting for seeds", "No URL is known yet. Add a seed to start the crawl."
        case CrawlState.IDLE if status.queued:
            return "Idle", f"Every queued URL is waiting for its host. {counts}."
        case CrawlState.IDLE:
            return "Idle", (
                "Nothing is queued: the crawl is waiting for new seeds or for the next revisit. "
                f"{counts}."
            )
    return "Running", f"{counts}, {left}."


def plots(monitor: Monitor, here: str, *, now_s: float, span_s: float) -> list[Chart]:
    """The four plots. here: added to the labels of those that show one worker of several."""
    axis = Axis(from_s=now_s - span_s, to_s=now_s, live=True)
    shown = {
        Track.PAGES_PER_S: Quantity(
            "pages", "Pages per second", lambda value: f"{filters.rate(value)}/s", 1.0
        ),
        Track.BYTES_PER_S: Quantity(
            "bytes", f"Bytes per second{here}", lambda value: f"{filters.size(value)}/s", 1e3
        ),
        Track.QUEUED: charts.QUEUED,
        Track.MEMORY_BYTES: Quantity(
            "memory", f"Memory{here}", lambda value: str(filters.size(value)), 1e6
        ),
    }
    points = {one: monitor.series.points(one, now_s=now_s, span_s=span_s) for one in shown}
    return [charts.live(axis, points[track], quantity) for track, quantity in shown.items()]


def _outcomes(found: Mapping[str, int]) -> dict[str, int]:
    """Contacts by outcome; all kinds of failure count as no usable response."""
    known = {name: number for name, number in found.items() if name in OUTCOME_LABELS}
    known["none"] = sum(found.values()) - sum(known.values()) + known.get("none", 0)
    return known


def _nothing_in_flight(status: Status) -> str:
    match status.state:
        case CrawlState.PAUSED:
            return "None: the crawl is paused."
        case CrawlState.HELD:
            return "None: the crawl is on hold."
        case CrawlState.IDLE:
            return "None: no URL can be fetched right now."
    return "None at this moment: every host is waiting for its politeness delay."
