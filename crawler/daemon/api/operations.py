"""The operations behind the JSON routes, the local socket and the web page.

Every method returns a struct of `crawler.daemon.responses`, or raises `Problem`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime

from msgspec import structs

from crawler.clock import Clock
from crawler.config import ConfigError
from crawler.daemon import responses
from crawler.daemon.api import settings_list
from crawler.daemon.api.caller_requests import CallerRequests
from crawler.daemon.api.history_view import HistoryView
from crawler.daemon.api.host_names import host_name, stored_name
from crawler.daemon.api.host_steering import (
    HostSteering,
    check_reason,
    part_of_name,
    pattern_of,
)
from crawler.daemon.api.log_view import LogView
from crawler.daemon.api.next_urls import next_urls
from crawler.daemon.api.pending_commands import in_time
from crawler.daemon.api.robots_check import RobotsCheck, RobotsThroughCrawl
from crawler.daemon.api.robots_views import RobotsViews
from crawler.daemon.api.url_lists import UrlLists
from crawler.daemon.health import CheckName, HealthState
from crawler.daemon.monitoring.event_stream import EventStream
from crawler.daemon.monitoring.health_monitor import HealthMonitor
from crawler.daemon.monitoring.queue_view import QueueView
from crawler.daemon.monitoring.shared_store import SharedStore
from crawler.daemon.problem import Problem, invalid, unknown_host
from crawler.daemon.responses import from_row, from_rows
from crawler.explain.explanation import (
    ExplainContext,
    explain_host,
    explain_url,
)
from crawler.front_door.tls import Certificate, CertificateError
from crawler.steering.control import Control
from crawler.steering.host_selection import ALL_HOSTS
from crawler.steering.live_state import CrawlState, Reloaded, SeedsAdded
from crawler.steering.queue_holds import QueueReason
from crawler.version import __version__
from policies.url import SeedError, host_of, origin_of
from storage import paging
from storage.reader import Reader
from storage.store import Row, StoreError

LIMIT_DEFAULT = 100  # rows of a page
LIMIT_MAX = paging.ROWS_MAX
FAILED_SHOWN = 10
FAILED_OF_MAX = 100_000  # URLs of a host; its failed URLs are not listed beyond
SEEDS_MAX = 10_000  # in one request
SEED_BYTES_MAX = 65_536  # beyond any `scope.max_url_bytes`; an error message would repeat it
HOST_SORTS = paging.HOST_SORTS
HOST_STATES = tuple(state.value for state in paging.HostFilter)
READY_WITHIN_S = 2.0  # for an answer of the database
_NOT_VALID = "the config is not valid"
NEW_CERTIFICATE = "daemon.tls_certificate: another certificate, for new connections"
_NEEDED = frozenset((CheckName.COMMITS, CheckName.DISK, CheckName.WORKERS))
STATUS_KEPT_S = 0.25  # concurrent listeners share a status: it looks at every host in memory


class Operations:
    """The operations of one running crawl. callers: of other programs, who send requests through
    it. shared: its database, if other workers use it too. certificate: of the page."""

    def __init__(
        self,
        control: Control,
        reader: Reader,
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
        self._certificate = certificate
        self.callers = callers
        self.shared = shared
        self._reader = reader
        self._clock = clock
        self._robots_check = RobotsCheck(control, clock, robots_fetcher)
        self._status: responses.Status | None = None
        self._status_at_s = -math.inf
        self._status_lock = asyncio.Lock()
        self.stream = stream
        self._health = health
        self.history = history
        self.log = log
        self.host_steering = HostSteering(control, reader, clock=clock, stream=stream)
        self.queue = QueueView(control, reader, clock)
        self.robots_views = RobotsViews(control, reader)
        self.url_lists = UrlLists(control, reader, stream=stream)

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
                holds = await self.queue.holds()
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
                    workers=workers,
                    health=self._health.judged(activity, stats, workers, holds),
                    at=self._clock.wall(),
                    queue=holds,
                    queue_at=self.queue.at,
                    name=self._control.config.daemon_name,
                    database_returns=stats.returns,
                    database_returned_at=stats.returned_at,
                )
                self._status_at_s = now_s
            return kept

    async def readiness(self) -> responses.Readiness:
        """Whether the crawl can make progress: it is not ending, and its database takes outcomes.
        What is wrong with sites or the network does not count: another instance would share it."""
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
        check_reason(reason)
        _check_limit(limit)
        pattern = pattern_of(pattern)
        try:
            page = await self._reader.hosts_page(
                search=part_of_name(search),
                pattern="" if pattern == ALL_HOSTS else pattern,
                state=state,
                held=self._control.hosts_held(QueueReason(reason)) if reason else None,
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
        name = host_name(host)
        found = await explain_host(
            self._reader, self._control.config, name, now_s=self._clock.wall()
        )
        if found.row is None:
            raise unknown_host(name)
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
        name = host_name(host) if host else None
        settings = settings_list.effective_settings(self._control.config, name)
        return responses.Settings(host=name, settings=settings)

    # ------------------------------------------------------------ commands

    async def pause(self) -> responses.StateAnswer:
        """Pause the whole crawl."""
        await in_time(self._control, self._control.pause())
        return self._changed("pause")

    async def resume(self) -> responses.StateAnswer:
        """Resume the whole crawl; hosts that were paused individually stay paused."""
        await in_time(self._control, self._control.resume())
        return self._changed("resume")

    def _changed(self, what: str) -> responses.StateAnswer:
        self.stream.change(what)
        return responses.StateAnswer(state=self._control.state)

    async def seeds(self, urls: Sequence[str], priority: float = 0.0) -> SeedsAdded:
        """Queue seeds; invalid URLs are refused individually."""
        if not urls:
            raise invalid("urls", "must name at least one URL")
        if len(urls) > SEEDS_MAX:
            raise invalid("urls", f"at most {SEEDS_MAX:,} in one request", 413)
        for number, url in enumerate(urls):
            if len(url) > SEED_BYTES_MAX:
                field = f"urls[{number}]"
                raise invalid(field, f"is longer than {SEED_BYTES_MAX:,} characters", 413)
        if not math.isfinite(priority):
            raise invalid("priority", "must be a finite number")
        done = await in_time(self._control, self._control.add_seeds(urls, priority))
        self.stream.change("seeds", added=done.added, known=done.known, refused=len(done.refused))
        return done

    async def reload(self, *, dry_run: bool = False) -> Reloaded:
        """Reload the config, and the certificate of the page. Raises Problem (422) with the errors
        of the config: nothing changed then."""
        base = self._control.config.given.base
        try:
            renewed = self._certificate is not None and self._certificate.changed()
        except CertificateError as error:
            sentence = f"daemon.tls_certificate: {error}"
            raise Problem(422, sentence, title=_NOT_VALID, problems=(sentence,)) from None
        try:
            done = await in_time(self._control, self._control.reload(dry_run=dry_run))
        except ConfigError as error:
            problems = tuple(settings_list.without_folder(each, base) for each in error.problems)
            raise Problem(422, "; ".join(problems), title=_NOT_VALID, problems=problems) from None
        if self._certificate is not None:
            done = self._renewed(self._certificate, done, renewed=renewed)
        if not dry_run:
            self.stream.change("reload", changes=list(done.changes))
        warnings = tuple(settings_list.without_folder(each, base) for each in done.warnings)
        return structs.replace(done, warnings=warnings)

    def _renewed(self, certificate: Certificate, done: Reloaded, *, renewed: bool) -> Reloaded:
        """The result of a reload with that of the certificate, which is renewed unless it was a dry
        run."""
        try:
            if renewed and not done.dry_run:
                certificate.renew()
            warnings = certificate.warnings(datetime.fromtimestamp(self._clock.wall(), UTC))
        except CertificateError as error:  # replaced at this very moment
            warnings = (f"daemon.tls_certificate: {error}; the previous one stays in use",)
            renewed = False
        changes = (*done.changes, *([NEW_CERTIFICATE] if renewed else ()))
        return structs.replace(done, changes=changes, warnings=(*done.warnings, *warnings))

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
