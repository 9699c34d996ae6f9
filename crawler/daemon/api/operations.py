"""The operations behind the JSON routes, the local socket and the web page.

Every method returns a struct of `crawler.daemon.responses`, or raises `Problem`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from msgspec import structs

from crawler.clock import Clock
from crawler.command_table import row_of
from crawler.daemon import responses
from crawler.daemon.api import settings_list
from crawler.daemon.api.caller_requests import CallerRequests
from crawler.daemon.api.command_answers import CertificateReload, carried_out
from crawler.daemon.api.history_view import HistoryView
from crawler.daemon.api.next_urls import next_urls
from crawler.daemon.api.robots_check import RobotsCheck, RobotsThroughCrawl
from crawler.daemon.api.robots_views import RobotsViews
from crawler.daemon.api.url_lists import LogView, UrlLists
from crawler.daemon.health import CheckName, HealthState
from crawler.daemon.monitoring.event_stream import EventStream
from crawler.daemon.monitoring.health_monitor import HealthMonitor
from crawler.daemon.monitoring.monitor import QueueView
from crawler.daemon.monitoring.shared_store import SharedStore
from crawler.daemon.problem import Problem, as_problems, invalid
from crawler.daemon.responses import from_row, from_rows
from crawler.documents import page_reader
from crawler.explain.explanation import (
    ExplainContext,
    explain_host,
    explain_url,
)
from crawler.front_door.tls import Certificate
from crawler.operator_commands import ALL_HOSTS, CrawlState, OperatorCommand, Result, UnknownHost
from crawler.steering.control import Control
from crawler.steering.execution import (
    check_reason,
    host_name,
    part_of_name,
    pattern_of,
    stored_name,
)
from crawler.steering.queue_waits import QueueReason
from crawler.version import __version__
from policies.url import SeedError, host_of, origin_of
from storage import paging
from storage.store import Row, StoreError

LIMIT_DEFAULT = 100  # rows of a page
LIMIT_MAX = paging.ROWS_MAX
FAILED_SHOWN = 10
FAILED_OF_MAX = 100_000  # URLs of a host; its failed URLs are not listed beyond
HOST_SORTS = paging.HOST_SORTS
HOST_STATES = tuple(state.value for state in paging.HostFilter)
READY_WITHIN_S = 2.0  # for an answer of the database
_NEEDED = frozenset((CheckName.COMMITS, CheckName.DISK, CheckName.WORKERS))
STATUS_KEPT_S = 0.25  # concurrent listeners share a status: it looks at every host in memory


class Operations:
    """The operations of one running crawl. callers: of other programs, who send requests through
    it. shared: its database, if other workers use it too. certificate: of the page."""

    def __init__(
        self,
        control: Control,
        *,
        clock: Clock,
        stream: EventStream,
        robots_fetcher: RobotsThroughCrawl,
        callers: CallerRequests,
        health: HealthMonitor,
        history: HistoryView,
        log: LogView,
        shared: SharedStore | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        self._control = control
        self.callers = callers
        self.shared = shared
        self._reader = reader = control.reader
        self._clock = clock
        self._robots_check = RobotsCheck(control, clock, robots_fetcher)
        self._status: responses.Status | None = None
        self._status_at_s = -math.inf
        self._status_lock = asyncio.Lock()
        self.stream = stream
        self._health = health
        self.history = history
        self.log = log
        control.announce = self._announce
        if certificate is not None:
            control.also_reloaded = CertificateReload(certificate, clock)
        self.queue = QueueView(control, reader, clock)
        self.robots_views = RobotsViews(control, reader)
        self.url_lists = UrlLists(reader)

    # ------------------------------------------------------------ queries

    async def status(self) -> responses.Status:
        """The whole crawl at this moment, at most STATUS_KEPT_S old."""
        async with self._status_lock:
            now_s = self._clock.monotonic()
            kept = self._status
            if (
                kept is None
                or kept.state != self._control.state
                or now_s - self._status_at_s >= STATUS_KEPT_S
            ):
                activity, stats = self._control.status(), await self._control.stats()
                waits = await self.queue.waits()
                workers = () if self.shared is None else await self.shared.workers()
                kept = self._status = responses.Status(
                    **structs.asdict(activity),
                    visited=stats.visited,
                    blocked=stats.blocked,
                    failed=stats.failed,
                    queued=stats.queued,
                    hosts=stats.hosts,
                    bytes=stats.body_bytes,
                    version=__version__,
                    page_reader=responses.PageReader(
                        name=page_reader.name(),
                        native=page_reader.pages_read.native,
                        declined=page_reader.pages_read.declined,
                    ),
                    workers=workers,
                    health=self._health.judged(activity, stats, workers, waits),
                    at=self._clock.wall(),
                    queue=waits,
                    queue_at=self.queue.at,
                    name=self._control.config.daemon_name,
                    database_returns=stats.returns,
                    database_returned_at=stats.returned_at,
                )
                self._status_at_s = now_s
            return kept

    async def readiness(self) -> responses.Readiness:
        """Return whether the crawl can make progress: it is not ending, and its database takes
        outcomes. What is wrong with sites or the network does not count: another instance would
        share it."""
        failing = ["stopping"] if self._control.state is CrawlState.STOPPING else []
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                checks = (await self.status()).health.checks
        except (TimeoutError, StoreError):
            failing.append(CheckName.COMMITS)
        else:
            bad = {one.check for one in checks if one.state is HealthState.BAD}
            failing += sorted(bad & _NEEDED)
        return responses.Readiness(
            status="not ready" if failing else "ready", failing=tuple(failing)
        )

    async def hosts(
        self,
        *,
        search: str = "",
        pattern: str = "",
        state: str = "all",
        reason: str = "",
        sort: str = "host",
        limit: int = LIMIT_DEFAULT,
        after: str = "",
    ) -> responses.Hosts:
        """A page of hosts. `search`: part of a name, case ignored. `pattern`: as in the config.
        `state`: one of HOST_STATES. `reason`: what holds their queued URLs, a `QueueReason`.
        `sort`: one of HOST_SORTS (`name` means `host`), descending after a "-"; ties by name.
        `after`: from the page before, with the other arguments unchanged."""
        if sort in ("name", "-name"):
            sort = sort.replace("name", "host")
        sort = sort or "host"
        state = state or "all"
        if state not in HOST_STATES:
            raise invalid("state", f"must be one of {', '.join(HOST_STATES)}")
        if sort.removeprefix("-") not in HOST_SORTS:
            sorts = ", ".join(HOST_SORTS)
            raise invalid("sort", f'must be one of {sorts}, optionally prefixed with "-"')
        _check_limit(limit)
        with as_problems():
            check_reason(reason)
            pattern = pattern_of(pattern)
        try:
            page = await self._reader.hosts_page(
                search=part_of_name(search),
                pattern="" if pattern == ALL_HOSTS else pattern,
                state=state,
                waiting=self._control.hosts_waiting(QueueReason(reason)) if reason else None,
                sort=sort,
                limit=limit,
                after=after,
                now_s=self._clock.wall(),
            )
        except ValueError as error:
            raise Problem(422, str(error), field="after") from None
        rows = [from_row(responses.HostRow, row, **self._live(row)) for row in page.rows]
        return responses.Hosts(hosts=rows, after=page.after)

    def _live(self, row: Row) -> dict[str, object]:
        """The part of a host row that is not in the database."""
        name = str(row["host"])
        return {
            "wait_reason": self._control.wait_reason(name, row),
            "now": self._control.host_now(name),
        }

    async def host(self, host: str) -> responses.HostDetail:
        """One host, by its name in the hosts view or by any host name that it covers."""
        with as_problems():
            name = host_name(host)
            found = await explain_host(
                self._reader, self._control.config, name, now_s=self._clock.wall()
            )
            if found.row is None:
                raise UnknownHost(name)
        async with aclosing(self._reader.iterate("hosts", host=found.name)) as rows:
            row = await anext(rows)
        live = self._live(row)
        coming = await next_urls(
            self._control,
            self._reader,
            from_row(responses.HostRow, row, **live),
            now_s=self._clock.wall(),
        )
        return from_row(
            responses.HostDetail,
            row,
            **live,
            next_urls=coming,
            robots=from_rows(responses.RobotsRow, found.row["robots"]),
            recent_contacts=from_rows(responses.ContactRow, found.row["contacts"]),
            why=found.sentences,
        )

    async def url(self, url: str) -> responses.UrlAnswer:
        """The state of a URL, explained as `courtly why` does."""
        context = ExplainContext(config=self._control.config, scope=self._control.scope)
        try:
            found = await explain_url(
                self._reader, context, url, now_s=self._clock.wall(), waits=self._waits
            )
        except SeedError:
            raise invalid("url", "must be an absolute URL such as https://example.com/a") from None
        return responses.UrlAnswer(
            url=found.name,
            state="unknown" if found.row is None else str(found.row["state"]),
            host=host_of(found.name) if found.host is None else str(found.host["host"]),
            origin=origin_of(found.name),
            why=list(found.sentences),
            row={name: responses.flag(name, value) for name, value in (found.row or {}).items()},
        )

    def _waits(self, host: Row) -> str:
        """The condition a host waits for, if it is in memory."""
        name = str(host["host"])
        held = self._control.host_now(name)
        return "" if held is None else self._control.wait_reason(name, host)

    async def failed(self, host: str, *, limit: int = FAILED_SHOWN) -> list[responses.FailedRow]:
        """Some failed URLs of a host, in the order they were found; empty for a host with more than
        FAILED_OF_MAX URLs, where the search would delay other readers."""
        _check_limit(limit)
        with as_problems():
            slot = await stored_name(self._reader, host)
        row = await self._reader.host(slot)
        if row is None or not row["failed"]:
            return []
        known = sum(int(str(row[state])) for state in ("queued", "visited", "blocked", "failed"))
        if known > FAILED_OF_MAX:
            return []
        async with aclosing(self._reader.iterate("failed", host=slot, limit=limit)) as rows:
            return [from_row(responses.FailedRow, each) async for each in rows]

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        """The state of the robots.txt of each host (`state` of the view `robots`). Of several
        origins, one whose state is not "rules"; hosts without a state are missing."""
        return dict(await self._reader.robots_states(hosts[:LIMIT_MAX]))

    async def config(self, host: str = "") -> responses.Settings:
        """The effective settings, of one host if it is named; without secrets."""
        with as_problems():
            name = host_name(host) if host else None
        settings = settings_list.effective_settings(self._control.config, name)
        return responses.Settings(host=name, settings=settings)

    # ------------------------------------------------------------ commands

    async def execute(self, command: OperatorCommand[Result]) -> Result:
        """Execute a command. Raises Problem."""
        return await carried_out(self._control, command)

    def _announce(self, command: OperatorCommand[Any], result: Any, complete: bool) -> None:
        """Log a command that has changed the crawl, and tell listeners."""
        values = dict(command.logged(result))
        if not complete:
            values["complete"] = False
        self.stream.change(row_of(command).name, **values)

    async def robots_check(
        self,
        *,
        urls: Sequence[str],
        robots: str | None = None,
        url: str | None = None,
        agent: str | Sequence[str] | None = None,
        dialect: str | Sequence[str] | None = None,
    ) -> responses.Checked:
        """Verdicts on URLs or paths by a robots.txt: `robots`, or the one of the origin of `url`,
        fetched politely. `agent`: tokens, by default the crawl's. `dialect`: the strictest of
        several decides; "all" gives one verdict each; by default the crawl's."""
        return await self._robots_check.check(
            urls=urls, robots=robots, url=url, agent=_strings(agent), dialect=_strings(dialect)
        )


def _strings(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given or ())


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= LIMIT_MAX:
        raise invalid("limit", f"must be a whole number from 1 to {LIMIT_MAX}")
