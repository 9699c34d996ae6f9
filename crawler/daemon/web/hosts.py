"""The list of hosts, and the page of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from crawler.clock import Clock
from crawler.config.user_agent import product_token
from crawler.daemon.answering.answers import Answers
from crawler.daemon.shapes import BlockedRow, HostRow, RobotsRow
from crawler.daemon.watching.watch import Watch
from crawler.daemon.web import words
from crawler.daemon.web.frame import Frame, link
from crawler.daemon.web.host_words import mood, next_turn, waits_for
from crawler.daemon.web.render import Renderer
from crawler.daemon.web.sheet import Mark, sheet
from crawler.daemon.web.timeline import timeline

HOSTS_PER_PAGE: Final = 50
BLOCKED_OF_HOST: Final = 10
LIVE_HEADER: Final = "X-Live"  # of a page that is asked for again, to keep itself up to date
COPIES_SHOWN: Final = 8  # origins of one host whose robots.txt is shown

STATES: Final = (
    ("all", "any"),
    ("queued", "with URLs queued"),
    ("waiting", "waiting for their turn"),
    ("paused", "paused"),
    ("slowed", "slowed"),
    ("backing-off", "backing off"),
    ("failing", "failing"),
    ("done", "done"),
)
SORTS: Final = (
    ("host", "name"),
    ("-queued", "most queued"),
    ("-visited", "most visited"),
    ("-blocked", "most blocked"),
    ("-failed", "most failed"),
    ("next_at", "next turn, soonest"),
    ("-next_at", "next turn, latest"),
    ("-delay_s", "longest rest"),
    ("-latency_s", "slowest answers"),
    ("-contacts", "most contacts"),
    ("-body_bytes", "most bytes"),
)
# Column, label, whether it is a number, and the way it is sorted at first.
_COLUMNS: Final = (
    ("host", "Host", False, "host"),
    ("mood", "State", False, ""),
    ("queued", "Queued", True, "-queued"),
    ("visited", "Visited", True, "-visited"),
    ("blocked", "Blocked", True, "-blocked"),
    ("failed", "Failed", True, "-failed"),
    ("robots", "robots.txt", False, ""),
    ("delay_s", "Rests", False, "-delay_s"),
    ("next_at", "Next turn", False, "next_at"),
    ("wait_reason", "Why it waits", False, ""),
)
_ROBOTS_WORDS: Final = {
    "rules": ("good", "in force", "A copy is in force."),
    "stale": ("wait", "stale", "The last good copy is in force, as it cannot be had anew."),
    "unreachable": ("bad", "unreachable", "It cannot be had."),
    "absent": ("calm", "absent", "There is none."),
    "unknown": ("calm", "not asked yet", "Not asked for yet."),
}


class HostPages:
    """Handlers of both."""

    def __init__(
        self, answers: Answers, watch: Watch, clock: Clock, renderer: Renderer, frame: Frame
    ) -> None:
        self._answers = answers
        self._watch = watch
        self._clock = clock
        self._renderer = renderer
        self._frame = frame

    async def hosts(self, request: web.Request) -> web.Response:
        asked = {
            "search": request.query.get("search", "").strip(),
            "state": request.query.get("state", "all"),
            "sort": request.query.get("sort", "host"),
            "after": request.query.get("after", ""),
        }
        values = await self._frame.values(request, "hosts")
        found = await self._answers.hosts(**asked, limit=HOSTS_PER_PAGE)
        robots = await self._answers.robots_states([row["host"] for row in found["hosts"]])
        now_s = self._clock.wall()
        words_asked = {key: value for key, value in asked.items() if key != "after"}
        values |= {
            "asked": asked,
            "states": STATES,
            "sorts": SORTS
            if asked["sort"] in dict(SORTS)
            else (*SORTS, (asked["sort"], asked["sort"])),
            "rows": [
                _with_mood(row, now_s) | {"robots": _robots_word(robots.get(row["host"]))}
                for row in found["hosts"]
            ],
            "columns": [(name, label, number) for name, label, number, _ in _COLUMNS],
            "sort_links": {
                name: link("/hosts", words_asked | {"sort": _turned(asked["sort"], name, at_first)})
                for name, _, _, at_first in _COLUMNS
                if at_first
            },
            "sorted_by": {name: _sorted(asked["sort"], name) for name, _, _, _ in _COLUMNS},
            "filtered": bool(asked["search"] or asked["state"] != "all"),
            "first": link("/hosts", words_asked),
            "next": found["after"] and link("/hosts", words_asked | {"after": found["after"]}),
            "limit": HOSTS_PER_PAGE,
            "here": link("/hosts", asked),
        }
        return self._renderer.response("hosts.html", values)

    async def host(self, request: web.Request) -> web.Response:
        name = request.query.get("host", "").strip()
        values = await self._frame.values(request, "hosts")
        host = await self._answers.host(name)
        now_s = self._clock.wall()
        again = LIVE_HEADER in request.headers  # only what moves is looked at
        blocked: Sequence[BlockedRow] = ()
        copies: list[dict[str, object]] = []
        if not again:
            page = await self._answers.blocked(host=host["host"], limit=BLOCKED_OF_HOST + 1)
            blocked = page["blocked"]
            agents, dialect = await self._reads_as(host["host"])
            for at, row in enumerate(host["robots"][:COPIES_SHOWN]):
                copies.append(await self._copy(row, at, agents, dialect))
        feels = mood(host, now_s)
        values |= {
            "host": host,
            "kind": feels.kind,
            "word": feels.word,
            "why": waits_for(host) or ("Nothing of it is queued." if not host["queued"] else ""),
            "here": link("/host", {"host": host["host"]}),
            **_pace(host, now_s),
            "line": timeline(
                host["recent_contacts"],
                self._watch.recent.floors(host["host"]),
                next_at=next_turn(host),
                breaches=host["breaches"],
                delay_s=host["delay_s"],
                now_s=now_s,
            ),
            "copies": copies,
            "blocked": blocked[:BLOCKED_OF_HOST],
            "more_blocked": len(blocked) > BLOCKED_OF_HOST,
            "troubles": self._watch.recent.troubles(host["host"]),
            "failed": await self._answers.failed(host["host"]) if host["failed"] else [],
            "unasked": "No connection could be made to ask for it."
            if host["connect_failures"]
            else "Not asked for yet: it is fetched before the first page of this host.",
        }
        return self._renderer.response("host.html", values)

    async def _copy(
        self, row: RobotsRow, at: int, agents: Sequence[str], dialect: Sequence[str]
    ) -> dict[str, object]:
        """One robots.txt, its lines marked with what they blocked."""
        kind, word, sentence = _ROBOTS_WORDS.get(row["state"], ("calm", row["state"], ""))
        if row["status"] is not None:
            sentence += f" Its last answer had the status {row['status']}."
        if row["error"]:
            sentence += f" {row['error']}."
        copy: dict[str, object] = {
            "origin": row["origin"],
            "kind": kind,
            "word": word,
            "sentence": sentence.strip(),
            "fetched_at": row["fetched_at"],
            "again_at": row["retry_at"] or row["expires_at"],
            "truncated": row["truncated"],
            "sheet": None,
            "findings": (),
        }
        if row["state"] not in ("rules", "stale"):
            return copy
        kept = await self._answers.robots(row["origin"])
        marks = {
            line["line"]: (Mark(kind="blocked", words=f"blocked {line['blocked']:,}"),)
            for line in kept["lines"]
            if line["blocked"]
        }
        body = "\n".join(line["text"] for line in kept["lines"])
        shown = await sheet(body, name=f"copy{at}", marks=marks, agents=agents, dialect=dialect)
        return copy | {"sheet": shown if shown.rows else None, "findings": shown.findings}

    async def _reads_as(self, host: str) -> tuple[Sequence[str], Sequence[str]]:
        """For whom, and in which dialects, robots.txt is read at a host."""
        found = {
            each["key"]: each["value"] for each in (await self._answers.config(host))["settings"]
        }
        if "crawl.user_agent" not in found:
            every = (await self._answers.config())["settings"]
            found = {each["key"]: each["value"] for each in every} | found
        tokens = _texts(found.get("robots.token"))
        agent = str(found.get("crawl.user_agent") or "")
        return tokens or (product_token(agent),), _texts(found.get("robots.dialect"))


def _with_mood(row: HostRow, now_s: float) -> dict[str, object]:
    feels = mood(row, now_s)
    return {
        **row,
        "kind": feels.kind,
        "word": feels.word,
        "turn_at": next_turn(row),
        "wait_reason": waits_for(row),
    }


def _robots_word(state: str | None) -> tuple[str, str]:
    """Kind and word for a cell."""
    if state is None:
        return "calm", "not asked yet"
    kind, word, _ = _ROBOTS_WORDS.get(state, ("calm", state, ""))
    return kind, word


def _pace(host: HostRow, now_s: float) -> dict[str, object]:
    """How a host is paced, in pieces of sentences: where its rest comes from, its next turn."""
    source = words.plain(host["delay_source"])
    rest_from = f", from {source}" if source else ""
    if host["slow_s"]:
        by_hand = f"slowed by hand to {words.duration(host['slow_s'])}"
        rest_from = f", {source}" if "by hand" in source else f"{rest_from}; {by_hand}"
    turn, turn_at = "", next_turn(host)
    backoff_until = host["backoff_until"]
    if host["paused"]:
        turn = "Paused by hand: no next turn."
    elif backoff_until is not None and backoff_until > now_s:
        turn, turn_at = "It is left alone, and may be contacted again", backoff_until
    elif host["queued"] and turn_at is not None and turn_at > now_s:
        turn = "Next turn"
    elif host["queued"]:
        turn = "Its next turn may come at any moment."
    least_s = host["smallest_rest_s"]
    return {
        "rest_from": rest_from,
        "turn": turn,
        "turn_at": turn_at
        if turn_at is not None and turn_at > now_s and turn[-1:] != "."
        else None,
        "least": f" The least rest it ever had: {words.duration(least_s)}." if least_s else "",
    }


def _turned(sort: str, column: str, at_first: str) -> str:
    """Where a click on a column's head leads: sorted by it, or the other way round."""
    if sort.removeprefix("-") != column:
        return at_first
    return column if sort.startswith("-") else f"-{column}"


def _sorted(sort: str, column: str) -> str:
    if sort.removeprefix("-") != column:
        return ""
    return "descending" if sort.startswith("-") else "ascending"


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else ()
