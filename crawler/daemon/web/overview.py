"""What the overview shows: is it healthy, what is it doing, and what is worth a look."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crawler.clock import Clock
from crawler.daemon.answering.answers import Answers
from crawler.daemon.shapes import Status
from crawler.daemon.watching.series import Track
from crawler.daemon.watching.watch import Watch
from crawler.daemon.web import charts, words
from crawler.daemon.web.host_words import mood, trouble
from crawler.telling.words import counted

SPANS: Final = (("10m", "10 min"), ("1h", "1 h"), ("24h", "24 h"))
_SECONDS: Final = {"10m": 600.0, "1h": 3_600.0, "24h": 86_400.0}
SPAN_DEFAULT: Final = "10m"
FETCHING_SHOWN: Final = 8
LOOK_KEPT_S: Final = 4.0
_LOOK_OF_EACH: Final = 4  # hosts of each kind of trouble
_LOOK_AT: Final = ("backing-off", "paused", "slowed", "failing")
_FAILING_SHARE: Final = 0.3  # of contacts without an answer, from which on something is wrong…
_FAILING_LEAST: Final = 20  # …if there were so many contacts

URL_LABELS: Final = {
    "visited": "Visited",
    "queued": "Queued",
    "blocked": "Blocked",
    "failed": "Failed",
}
OUTCOME_LABELS: Final = {
    "2xx": "2xx, a page",
    "3xx": "3xx, a redirect",
    "4xx": "4xx, not there or not for us",
    "5xx": "5xx, server error",
    "none": "no usable answer",
    "other": "other statuses",
}
HELD_LABELS: Final = {
    "in_flight": "In contact",
    "ready": "Ready, waiting for us",
    "waiting": "Resting",
    "robots": "Awaiting robots.txt",
    "closed": "Closed or out of reach",
    "paused": "Paused by hand",
    "idle": "Nothing to do now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    title: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A host worth a look."""

    host: str
    kind: str
    word: str
    why: str


class Overview:
    """Makes the values of overview.html. What is worth a look is looked up every few seconds at
    most, whoever asks: it goes over all hosts, of which there may be 100,000."""

    def __init__(self, answers: Answers, watch: Watch, clock: Clock) -> None:
        self._answers = answers
        self._watch = watch
        self._clock = clock
        self._look: list[Look] = []
        self._look_at_s = -math.inf
        self._looking = asyncio.Lock()

    async def values(self, status: Status, *, span: str) -> dict[str, object]:
        now_s = self._clock.wall()
        span = span if span in _SECONDS else SPAN_DEFAULT
        outcomes = _outcomes(self._watch.metrics.by_outcome())
        held = {name.replace(" ", "_"): number for name, number in status["hosts_by_state"].items()}
        return {
            "headline": headline(status, outcomes),
            "spans": SPANS,
            "span": span,
            "plots": plots(self._watch, now_s=now_s, span_s=_SECONDS[span]),
            "look": await self._looked(now_s),
            "fetching": status["fetching"][:FETCHING_SHOWN],
            "nothing_now": _nothing_now(status),
            "url_parts": charts.parts(
                {name: _count(status, name) for name in URL_LABELS}, URL_LABELS
            ),
            "outcome_parts": charts.parts(outcomes, OUTCOME_LABELS),
            "host_parts": charts.parts(held, HELD_LABELS),
        }

    async def _looked(self, now_s: float) -> list[Look]:
        async with self._looking:
            if self._clock.monotonic() - self._look_at_s >= LOOK_KEPT_S:
                self._look = await _look(self._answers, now_s)
                self._look_at_s = self._clock.monotonic()
            return self._look


def headline(status: Status, outcomes: Mapping[str, int]) -> Headline:
    """Is it healthy? One phrase, and the sentence under it."""
    counts = f"{counted(status['visited'], 'page')} visited at {counted(status['hosts'], 'host')}"
    left = f"{status['queued']:,} queued"
    match status["state"]:
        case "paused":
            return Headline(
                title="Paused by hand",
                sentence=f"No new contact begins until it is resumed. {counts}, {left}.",
            )
        case "held":
            return Headline(
                title="Held by trouble of this machine",
                sentence=f"It resumes by itself when that is over. {counts}, {left}.",
            )
        case "stopping":
            return Headline(
                title="Stopping",
                sentence=f"What is in flight ends and is committed. {counts}, {left}.",
            )
        case "idle" if not status["hosts"]:
            return Headline(
                title="Waiting for seeds",
                sentence="No URL is known yet. Add the first, and the crawl begins at once.",
            )
        case "idle":
            why = (
                "nothing is queued: it waits for seeds, and for what falls due again"
                if not status["queued"]
                else "what is queued waits for its hosts"
            )
            return Headline(title="Idle", sentence=f"All is well, and {why}. {counts}.")
    total = sum(outcomes.values())
    lost = outcomes.get("none", 0)
    if total >= _FAILING_LEAST and lost > _FAILING_SHARE * total:
        return Headline(
            title="Running, but much fails",
            sentence=f"{words.percent(lost, total)} of the contacts of this run got no usable"
            f" answer. Is our own network well? {counts}, {left}.",
        )
    return Headline(title="Running well", sentence=f"{counts}, {left}.")


def plots(watch: Watch, *, now_s: float, span_s: float) -> list[charts.Plot]:
    """The four plots."""

    def drawn(track: Track, name: str, label: str, say: charts.Words, least: float) -> charts.Plot:
        return charts.line(
            watch.series.points(track, now_s=now_s, span_s=span_s),
            name=name,
            label=label,
            words=say,
            now_s=now_s,
            span_s=span_s,
            least=least,
        )

    return [
        drawn(Track.PAGES_PER_S, "pages", "Pages per second", lambda v: f"{words.rate(v)}/s", 1),
        drawn(Track.BYTES_PER_S, "bytes", "Bytes per second", lambda v: f"{words.size(v)}/s", 1e3),
        drawn(Track.QUEUED, "queued", "URLs queued", lambda v: str(words.short(v)), 10),
        drawn(Track.MEMORY_BYTES, "memory", "Memory", lambda v: str(words.size(v)), 1e6),
    ]


def _outcomes(found: Mapping[str, int]) -> dict[str, int]:
    """Failures of all codes together: what they have in common is that no answer came."""
    known = {name: number for name, number in found.items() if name in OUTCOME_LABELS}
    known["none"] = sum(found.values()) - sum(known.values()) + known.get("none", 0)
    return known


async def _look(answers: Answers, now_s: float) -> list[Look]:
    found: dict[str, Look] = {}
    for state in _LOOK_AT:
        for row in (await answers.hosts(state=state, limit=_LOOK_OF_EACH))["hosts"]:
            feels = mood(row, now_s)
            if state == "failing" and feels.kind in ("calm", "good"):
                kind, word = "bad", "failures"
            else:
                kind, word = feels.kind, feels.word
            found.setdefault(
                row["host"],
                Look(host=row["host"], kind=kind, word=word, why=trouble(row, feels)),
            )
    return list(found.values())


def _nothing_now(status: Status) -> str:
    match status["state"]:
        case "paused":
            return "Nothing: the crawl is paused."
        case "held":
            return "Nothing: the crawl is held."
        case "idle":
            return "Nothing: no URL can move now."
    return "Nothing at this moment: every host is resting."


def _count(status: Status, name: str) -> int:
    value = status.get(name)
    return value if isinstance(value, int) else 0
