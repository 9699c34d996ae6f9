"""The list of hosts and the page of one host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aiohttp import web

from crawler.config.user_agent import product_token
from crawler.console import filters
from crawler.console.command_forms import REASONS, STATES, conditions, filter_of, is_filtered
from crawler.console.rendering import PageHandlers, link
from crawler.console.robots_sheet import LineMark, sheet
from crawler.console.timeline import timeline
from crawler.daemon.responses import HostRow, RobotsRow
from crawler.daemon.robots_responses import RobotsLine
from crawler.explain.explanation import remark_on
from crawler.explain.formatting import connections_failed, counted
from crawler.explain.sentences import FORBIDDEN
from crawler.steering.queue_waits import PHRASES, QueueReason
from policies.retries import is_address_refused

HOSTS_PER_PAGE: Final = 50
SORT_DEFAULT: Final = "-queued"
BLOCKED_OF_HOST: Final = 10
LIVE_HEADER: Final = "X-Live"  # of a request that updates a page in place
COPIES_SHOWN: Final = 8  # origins of one host whose robots.txt is shown

SORTS: Final = {
    "host": "name",
    "-queued": "most queued",
    "-visited": "most visited",
    "-blocked": "most blocked",
    "-failed": "most failed",
    "next_at": "next request, soonest first",
    "-next_at": "next request, latest first",
    "-delay_s": "longest delay",
    "-latency_s": "slowest responses",
    "-contacts": "most requests",
    "-body_bytes": "most bytes",
}
# Column, label, whether it is a number, and its initial sort order.
_COLUMNS: Final = (
    ("host", "Host", False, "host"),
    ("state", "State", False, ""),
    ("queued", "Queued", True, "-queued"),
    ("visited", "Visited", True, "-visited"),
    ("blocked", "Blocked", True, "-blocked"),
    ("failed", "Failed", True, "-failed"),
    ("robots", "robots.txt", False, ""),
    ("delay_s", "Delay", False, "-delay_s"),
    ("next_at", "Next request", False, "next_at"),
    ("wait_reason", "Waiting for", False, ""),
)
_ROBOTS_STATES: Final = {
    "rules": ("good", "fetched", "The stored copy applies."),
    "stale": ("wait", "stale", "The last good copy applies: the file could not be fetched again."),
    "unreachable": ("bad", "unreachable", "The file could not be fetched."),
    "absent": ("calm", "none", "The site has no robots.txt."),
    "unknown": ("calm", "not fetched yet", "The file has not been fetched yet."),
}


class HostPages(PageHandlers):
    """Handlers of the pages about hosts."""

    async def hosts(self, request: web.Request) -> web.Response:
        chosen = filter_of(request.query)
        fields = chosen | {
            "sort": request.query.get("sort", SORT_DEFAULT),
            "after": request.query.get("after", ""),
        }
        found = await self.operations.hosts(
            **conditions(fields), sort=fields["sort"], after=fields["after"], limit=HOSTS_PER_PAGE
        )
        robots = await self.operations.robots_states([row.host for row in found.hosts])
        now_s, sort, first = self.renderer.clock.wall(), fields["sort"], fields | {"after": ""}
        values = {
            "fields": fields,
            "states": STATES,
            "reasons": REASONS,
            "held_by": PHRASES[QueueReason(fields["reason"])] if fields["reason"] else "",
            "sorts": ({sort: sort} | SORTS if sort not in SORTS else SORTS).items(),
            "rows": [
                {
                    "row": row,
                    "pill": host_pill(row, now_s),
                    "next_at": next_request(row),
                    # the column beside it has the source of the delay
                    "why": waits_for(row).removesuffix(f" ({row.delay_source})"),
                    "robots": _robots_cell(robots.get(row.host, "unknown")),
                }
                for row in found.hosts
            ],
            "columns": [(name, label, number) for name, label, number, _ in _COLUMNS],
            "sort_links": {
                name: link("/hosts", first | {"sort": _toggled(sort, name, initial)})
                for name, _, _, initial in _COLUMNS
                if initial
            },
            "sorted_by": {name: _order(sort, name) for name, _, _, _ in _COLUMNS},
            "filtered": is_filtered(fields),
            "first": link("/hosts", first),
            "next": found.after and link("/hosts", fields | {"after": found.after}),
            "limit": HOSTS_PER_PAGE,
            "here": link("/hosts", fields),
            "downloads": {kind: link(f"/hosts.{kind}", chosen) for kind in ("csv", "jsonl")},
        }
        return await self.page(request, "hosts", values)

    async def host(self, request: web.Request) -> web.Response:
        host = await self.operations.host(request.query.get("host", "").strip())
        now_s = self.renderer.clock.wall()
        failed = await self.operations.failed(host.host) if host.failed else []
        errors = self.monitor.recent.errors(host.host)
        values: dict[str, object] = {"blocked": (), "more_blocked": False, "copies": ()}
        if LIVE_HEADER not in request.headers:  # an update in place shows only what changes
            page = await self.operations.robots_views.blocked(
                host=host.host, limit=BLOCKED_OF_HOST + 1
            )
            agents, dialect = await self._robots_identity(host.host)
            values = {
                "blocked": page.blocked[:BLOCKED_OF_HOST],
                "more_blocked": len(page.blocked) > BLOCKED_OF_HOST,
                "copies": [
                    await self._copy(row, at, agents, dialect)
                    for at, row in enumerate(host.robots[:COPIES_SHOWN])
                ],
            }
        values |= {
            "host": host,
            "pill": host_pill(host, now_s),
            "why": waits_for(host) or ("Nothing is queued." if not host.queued else ""),
            "here": link("/host", {"host": host.host}),
            **_pace(host, now_s),
            "line": timeline(
                host.recent_contacts,
                self.monitor.recent.delays(host.host),
                next_at=next_request(host),
                breaches=host.breaches,
                delay_s=host.delay_s,
                now_s=now_s,
            ),
            "errors": errors,
            "failed": failed,
            "no_copy": _no_copy(
                host, [*(each.error for each in failed), *(each.what for each in errors)]
            ),
        }
        return await self.page(request, "hosts", values, template="host")

    async def _copy(
        self, row: RobotsRow, at: int, agents: Sequence[str], dialect: Sequence[str]
    ) -> dict[str, object]:
        """One robots.txt, its lines marked with the numbers of URLs they blocked and allowed."""
        kind, word, sentence = _ROBOTS_STATES.get(row.state, ("calm", row.state, ""))
        if row.status is not None:
            sentence += f" Status of the last response: {row.status}."
        if row.error:
            sentence += f" {row.error}."
        copy: dict[str, object] = {
            "row": row,
            "pill": (kind, word),
            "sentence": sentence.strip(),
            "again_at": row.retry_at or row.expires_at,
            "sheet": None,
            "findings": (),
            "change": None,
        }
        if row.state not in ("rules", "stale", "absent"):
            return copy
        kept = await self.operations.robots_views.robots(row.origin)
        copy["change"] = kept.change
        if row.state == "absent":
            return copy
        marks = {line.line: found for line in kept.lines if (found := _marks(line, kept.sampled))}
        body = "\n".join(line.text for line in kept.lines)
        instead, remark = remark_on(body)
        if instead:
            kind, word = "calm" if instead == "empty" else "wait", instead
        copy |= {"pill": (kind, word), "sentence": f"{remark} {copy['sentence']}".strip()}
        shown = await sheet(body, name=f"copy{at}", marks=marks, agents=agents, dialect=dialect)
        return copy | {"sheet": shown if shown.blocks else None, "findings": shown.findings}

    async def _robots_identity(self, host: str) -> tuple[Sequence[str], Sequence[str]]:
        """The tokens and dialects by which the crawl reads the robots.txt of a host."""
        found = {each.key: each.value for each in (await self.operations.config(host)).settings}
        if "crawl.user_agent" not in found:
            every = (await self.operations.config()).settings
            found = {each.key: each.value for each in every} | found
        tokens = _strings(found.get("robots.token"))
        agent = str(found.get("crawl.user_agent") or "")
        return tokens or (product_token(agent),), _strings(found.get("robots.dialect"))


# ---------------------------------------------------------------- the state of a host


def host_pill(row: HostRow, now_s: float) -> tuple[str, str]:
    """The state of a host in a word, after its kind: good, calm, wait, bad or robots. The strongest
    reason to wait comes first, as in `courtly why`."""
    now = row.now
    if row.paused:
        return "wait", "paused"
    if (row.backoff_until or 0.0) > now_s:
        return "wait", "backing off"
    if _is_forbidden(row):
        return "bad", "not allowed"
    if row.connect_failures:
        return "bad", "unreachable"
    if row.slow_s:
        return "wait", "slowed"
    if now is not None and now.state == "robots":
        return "robots", "waiting for robots.txt"
    if now is not None and now.state == "closed":
        return "robots", "closed"
    if now is not None and now.in_flight:
        return "good", "in flight"
    if not row.queued:
        return "calm", "done"
    if (row.next_at or 0.0) > now_s:
        return "calm", "waiting"
    return "good", "ready"


def _is_forbidden(row: HostRow) -> bool:
    """Whether the config does not allow connecting to it."""
    return row.wait_reason.startswith(FORBIDDEN)


def _no_copy(row: HostRow, errors: Iterable[str]) -> str:
    """Why a host has no robots.txt. errors: some of its URLs and contacts."""
    if _is_forbidden(row) or any(map(is_address_refused, errors)):
        return f"Not fetched, because {FORBIDDEN} its address (network.allow)."
    if row.connect_failures:
        return "Not fetched, because no connection could be made."
    return "Not fetched yet. It is fetched before the first page of this host."


def next_request(row: HostRow) -> float | None:
    """Return when a host may be contacted next, in Unix seconds; None if that is unknown or nothing
    is queued. The state in memory is newer than the row."""
    if row.paused or not row.queued:
        return None
    return row.next_at if row.now is None else row.now.next_at


def waits_for(row: HostRow) -> str:
    """Return why a host waits, in words; "" for a host without queued URLs."""
    if row.connect_failures and not (row.queued or row.paused):
        given_up = row.wait_reason if "connection" in row.wait_reason else ""
        return given_up or f"{connections_failed(row.connect_failures)}; nothing is queued"
    return row.wait_reason if row.queued or row.paused or _is_forbidden(row) else ""


def attention(row: HostRow, kind: str) -> str:
    """Return why a host needs attention, in words. `kind`: of its pill."""
    if kind not in ("calm", "good") and (reason := waits_for(row)):
        return reason
    if row.connect_failures:
        return connections_failed(row.connect_failures)
    if row.failed:
        return f"{counted(row.failed, 'URL')} failed"
    return "paused by an operator" if row.paused else ""


def _marks(line: RobotsLine, sampled: int) -> tuple[LineMark, ...]:
    """What a line of robots.txt did to URLs of its origin."""
    marks = []
    if line.blocked:
        marks.append(LineMark(kind="blocked", words=f"blocked {line.blocked:,}"))
    if line.allowed:
        some = f"allows {line.allowed:,} of {sampled:,} sampled"
        marks.append(LineMark(kind="allowed", words=some))
    return tuple(marks)


def _robots_cell(state: str) -> tuple[str, str]:
    kind, word, _ = _ROBOTS_STATES.get(state, ("calm", state, ""))
    return kind, word


def _pace(host: HostRow, now_s: float) -> dict[str, object]:
    """The pace of a host in pieces of sentences: the source of its delay, its next request."""
    source = filters.plain(host.delay_source)
    delay_from = f" ({source})" if source else ""
    if host.slow_s and "slow" not in source:
        delay_from += f", slowed by an operator to {filters.duration(host.slow_s)}"
    sentence, next_at = "", next_request(host)
    if host.paused:
        sentence, next_at = "Paused by an operator.", None
    elif host.backoff_until is not None and host.backoff_until > now_s:
        sentence, next_at = "Backing off; next request", host.backoff_until
    elif host.queued and next_at is not None and next_at > now_s:
        sentence = "Next request"
    else:
        sentence, next_at = "The next request can be sent now." if host.queued else "", None
    smallest_s = host.smallest_rest_s
    return {
        "delay_from": delay_from,
        "next_words": sentence,
        "next_at": next_at,
        "smallest": f" Shortest interval so far: {filters.duration(smallest_s)}."
        if smallest_s
        else "",
    }


def _toggled(sort: str, column: str, initial: str) -> str:
    """The sort order after a click on the head of a column."""
    if sort.removeprefix("-") != column:
        return initial
    return column if sort.startswith("-") else f"-{column}"


def _order(sort: str, column: str) -> str:
    """The value of aria-sort."""
    if sort.removeprefix("-") != column:
        return ""
    return "descending" if sort.startswith("-") else "ascending"


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(str(each) for each in value) if isinstance(value, list | tuple) else ()
