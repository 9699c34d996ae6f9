"""What the daemon answers: the JSON routes, the socket and the HTML pages all stand on this.

Every method gives JSON-ready values of `crawler.daemon.shapes` or raises `Problem`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from typing import Any, TypeVar, cast

from crawler.clock import Clock
from crawler.config import ConfigError
from crawler.daemon import shapes
from crawler.daemon.answering import effective, views
from crawler.daemon.answering.checking import Checking
from crawler.daemon.problem import Problem, unknown_host
from crawler.daemon.watching.stream import Stream
from crawler.steering.control import SLOW_S_MAX, Control
from crawler.steering.status import State, UnknownHost
from crawler.telling.explain import Asked, explain_host, explain_url, host_named, known_host
from crawler.threads import in_thread
from policies import robots as robots_txt
from policies.robots_state import RobotsState
from policies.url import SeedError, canonical, host_of, origin_of, without_userinfo
from storage import paging
from storage.columns import robots_state
from storage.store import Reader, Row

LIMIT_DEFAULT = 100  # rows of a page
LIMIT_MAX = paging.ROWS_MAX
FAILED_SHOWN = 10
FAILED_OF_MAX = 100_000  # URLs of a host; of more, failed ones are not looked for by the page
SEEDS_MAX = 10_000  # of one request; more come in several
SEED_BYTES_MAX = (
    65_536  # no crawl takes such a URL (scope.max_url_bytes), and an error would echo it
)
HOST_SORTS = paging.HOST_SORTS
HOST_STATES = tuple(state.value for state in paging.HostFilter)
COMMAND_WAIT_S = 5.0  # for a database in trouble, before whoever asks is told of it
_LATER = (
    "the command is kept, and carried out when that is over, unless the crawl ends before; there is"
    " no need to repeat it"
)
_T = TypeVar("_T")
STATUS_KEPT_S = 0.25  # a look at every held host is not made for every listener anew


class Answers:
    """Answers of one living crawl. `fetch_robots` asks for an origin's robots.txt politely, at its
    host's turn in the crawl, and gives what is known then; None: it could not be asked."""

    def __init__(
        self,
        control: Control,
        reader: Reader,
        *,
        clock: Clock,
        stream: Stream,
        fetch_robots: Callable[[str], Awaitable[RobotsState | None]] | None = None,
    ) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._checking = Checking(control, reader, clock=clock, fetch_robots=fetch_robots)
        self._status: shapes.Status | None = None
        self._status_at_s = -math.inf
        self._looking = asyncio.Lock()
        self.stream = stream

    # ------------------------------------------------------------ looking

    async def status(self) -> shapes.Status:
        """The whole crawl at this moment: made at most four times a second, whoever asks."""
        async with self._looking:
            now_s = self._clock.monotonic()
            kept = self._status
            if (
                kept is None
                or kept["state"] != self._state()
                or now_s - self._status_at_s >= STATUS_KEPT_S
            ):
                now = self._control.status()
                kept = self._status = views.status(now, await self._control.stats())
                self._status_at_s = now_s
            return kept

    def _state(self) -> shapes.State:
        return self._control.state.value

    async def hosts(
        self,
        *,
        search: str = "",
        state: str = "all",
        sort: str = "host",
        limit: int = LIMIT_DEFAULT,
        after: str = "",
    ) -> shapes.Hosts:
        """A page of hosts. `search`: part of a name, case ignored. `state`: of HOST_STATES. `sort`:
        of HOST_SORTS (`name` is `host`), "-" before it turns it round; equal ones by name. `after`:
        what the page before gave, asked with the same words."""
        if sort in ("name", "-name"):
            sort = sort.replace("name", "host")
        sort = sort or "host"
        state = state or "all"
        if state not in HOST_STATES:
            raise Problem(422, f"state: must be one of {', '.join(HOST_STATES)}", field="state")
        if sort.removeprefix("-") not in HOST_SORTS:
            sorts = ", ".join(HOST_SORTS)
            raise Problem(422, f'sort: must be one of {sorts}, or one after a "-"', field="sort")
        _check_limit(limit)
        if not search.isascii():  # hosts have their ASCII names; whole labels can be found
            with suppress(ValueError):
                search = host_named(search)
        try:
            page = await self._reader.hosts_page(
                search=search,
                state=state,
                sort=sort,
                limit=limit,
                after=after,
                now_s=self._clock.wall(),
            )
        except ValueError as error:
            raise Problem(422, str(error), field="after") from None
        return {"hosts": [self._host_row(row) for row in page.rows], "after": page.after}

    def _host_row(self, row: Row) -> shapes.HostRow:
        name = str(row["host"])
        reason = self._control.wait_reason(name, row)
        return views.host_row(row, reason, self._control.host_now(name))

    async def host(self, host: str) -> shapes.Host:
        """One host, by its name in the hosts view or by any host name that it stands for."""
        name = self._host_name(host)
        told = await explain_host(
            self._reader, self._control.config, name, now_s=self._clock.wall()
        )
        if told.row is None:
            raise unknown_host(name)
        async with aclosing(self._reader.iterate("hosts", host=told.name)) as rows:
            row = await anext(rows)
        return {
            **self._host_row(row),
            "robots": views.robots_rows(told.row["robots"]),
            "recent_contacts": views.contact_rows(told.row["contacts"]),
            "why": list(told.sentences),
        }

    @staticmethod
    def _host_name(text: str, field: str = "host") -> str:
        try:
            return host_named(text)
        except ValueError:
            raise Problem(
                422, f"{field}: must be a host such as example.com", field=field
            ) from None

    async def _slot(self, text: str) -> str:
        """The name under which the store has a host. Raises Problem."""
        name = self._host_name(text)
        row = await known_host(self._reader, name)
        if row is None:
            raise unknown_host(name)
        return str(row["host"])

    async def url(self, url: str) -> shapes.UrlAnswer:
        """All that is known of a URL, as `courtly why` says it."""
        asked = Asked(config=self._control.config, scope=self._control.scope)
        try:
            told = await explain_url(
                self._reader, asked, url, now_s=self._clock.wall(), waits=self._waits
            )
        except SeedError:
            raise Problem(
                422, "url: must be an absolute URL such as https://example.com/a", field="url"
            ) from None
        return {
            "url": told.name,
            "state": "unknown" if told.row is None else str(told.row["state"]),
            "host": host_of(told.name) if told.host is None else str(told.host["host"]),
            "origin": origin_of(told.name),
            "why": list(told.sentences),
            "row": views.plain_row(told.row or {}),
        }

    def _waits(self, host: Row) -> str:
        """What a host waits for, if the crawl holds it."""
        name = str(host["host"])
        held = self._control.host_now(name)
        return "" if held is None else self._control.wait_reason(name, host)

    async def blocked(
        self, *, host: str = "", rule: str = "", limit: int = LIMIT_DEFAULT, after: str = ""
    ) -> shapes.BlockedPage:
        """A page of blocked URLs, of one host and by rules that contain a text (case ignored)."""
        _check_limit(limit)
        name = self._host_name(host) if host else None
        if name is not None and await known_host(self._reader, name) is None:
            raise unknown_host(name)
        try:
            page = await self._reader.blocked_page(host=name, rule=rule, limit=limit, after=after)
        except ValueError as error:
            raise Problem(422, str(error), field="after") from None
        return {"blocked": [views.blocked_row(row) for row in page.rows], "after": page.after}

    async def robots(self, origin: str) -> shapes.RobotsCopy:
        """The robots.txt kept for an origin ("https://example.com"), line by line."""
        url = canonical(origin)
        if url is None:
            raise Problem(
                422, "origin: must be an origin such as https://example.com", field="origin"
            )
        name = origin_of(url)
        copy = await self._reader.robots_copy(name)
        if copy is None:
            raise Problem(404, f"nothing is known of {name}/robots.txt", field="origin")
        counts = await self._reader.blocked_lines(name)
        body = copy.body or b""
        lines = await in_thread(lambda: robots_txt.parse(body).lines)
        return {
            "origin": name,
            "state": robots_state(copy),
            "status": copy.status,
            "lines": [
                {
                    "line": each.number,
                    "text": without_userinfo(each.text),
                    "blocked": counts.get(each.number, 0),
                }
                for each in (lines if copy.body is not None else ())
            ],
            "fetched_at": copy.fetched_at,
            "truncated": copy.truncated,
        }

    async def failed(self, host: str, *, limit: int = FAILED_SHOWN) -> list[shapes.FailedRow]:
        """Some URLs of a host that failed, those met first; for the page. None of a host so large
        that finding them would hold up whoever else reads."""
        _check_limit(limit)
        slot = await self._slot(host)
        row = await self._reader.host(slot)
        if row is None or not row["failed"]:
            return []
        known = sum(int(str(row[state])) for state in ("queued", "visited", "blocked", "failed"))
        if known > FAILED_OF_MAX:
            return []
        async with aclosing(self._reader.iterate("failed", host=slot, limit=limit)) as rows:
            return [cast("shapes.FailedRow", views.plain_row(each)) async for each in rows]

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        """What is known of the robots.txt of each host (`state` of the view), for a page of hosts;
        of one with several origins one that is not "rules". Hosts never asked are missing."""
        return dict(await self._reader.robots_states(hosts[:LIMIT_MAX]))

    async def config(self, host: str = "") -> shapes.Settings:
        """The settings that count now, for one host where it is named; secrets are left out."""
        name = self._host_name(host) if host else None
        return {"host": name, "settings": effective.settings(self._control.config, name)}

    # ------------------------------------------------------------ steering

    async def pause(self) -> shapes.StateAnswer:
        """The whole crawl: no contact begins."""
        await self._in_time(self._control.pause())
        return self._changed("pause")

    async def resume(self) -> shapes.StateAnswer:
        """The whole crawl goes on; hosts paused one by one stay so."""
        await self._in_time(self._control.resume())
        return self._changed("resume")

    async def _in_time(self, command: Coroutine[Any, Any, _T]) -> _T:
        """What a command gives. Raises Problem where the database keeps it waiting: it goes on
        waiting then, and is carried out when the trouble is over."""
        doing = asyncio.ensure_future(command)
        try:
            while not (await asyncio.wait({doing}, timeout=COMMAND_WAIT_S))[0]:
                trouble = self._control.store_trouble
                if trouble is not None and self._control.state is not State.STOPPING:
                    raise Problem(503, f"{trouble.sentence}; {_LATER}")
            return doing.result()
        finally:
            doing.cancel()  # it waits for the command, which is a task of the crawl

    def _changed(self, what: str) -> shapes.StateAnswer:
        self.stream.change(what)
        return {"state": self._state()}

    async def host_pause(self, host: str) -> shapes.Controlled:
        """No contact with this host begins; durable."""
        return await self._steer(host, "host_pause", self._control.pause_host)

    async def host_resume(self, host: str) -> shapes.Controlled:
        """Clears pause and slow."""
        return await self._steer(host, "host_resume", self._control.resume_host)

    async def host_slow(self, host: str, delay_s: float) -> shapes.Controlled:
        """The host rests at least so long after each contact; durable."""
        if not 0 <= delay_s <= SLOW_S_MAX:  # NaN is neither
            raise Problem(
                422,
                f"delay_s: must be a number of seconds from 0 to {SLOW_S_MAX:,.0f}",
                field="delay_s",
            )
        return await self._steer(
            host, "host_slow", lambda slot: self._control.slow_host(slot, delay_s)
        )

    async def _steer(
        self, host: str, what: str, act: Callable[[str], Coroutine[Any, Any, None]]
    ) -> shapes.Controlled:
        slot = await self._slot(host)
        try:
            await self._in_time(act(slot))
        except UnknownHost as unknown:
            raise unknown_host(unknown.host) from None
        row = await self._reader.host(slot)
        self.stream.change(what, host=slot)
        slow_s = None if row is None else row["slow_s"]
        return {
            "host": slot,
            "paused": bool(row and row["paused"]),
            "slow_s": float(slow_s) if isinstance(slow_s, int | float) else None,
        }

    async def retry(self, host: str | None = None, code: str | None = None) -> shapes.Retried:
        """Queue failed URLs again, of one host or of all, of one code or of all."""
        slot = None if host is None else await self._slot(host)
        count = await self._in_time(self._control.retry_failed(slot, code))
        self.stream.change("retry", host=slot, retried=count)
        return {"retried": count}

    async def seeds(self, urls: Sequence[str], priority: float = 0.0) -> shapes.SeedsAnswer:
        """Queue seeds; those that are none are named with the reason, the others are queued."""
        if not urls:
            raise Problem(422, "urls: must name at least one URL", field="urls")
        if len(urls) > SEEDS_MAX:
            raise Problem(413, f"urls: at most {SEEDS_MAX:,} in one request", field="urls")
        for number, url in enumerate(urls):
            if len(url) > SEED_BYTES_MAX:
                raise Problem(
                    413,
                    f"urls[{number}]: is longer than {SEED_BYTES_MAX:,} characters",
                    field=f"urls[{number}]",
                )
        if not math.isfinite(priority):
            raise Problem(422, "priority: must be a finite number", field="priority")
        done = await self._in_time(self._control.add_seeds(urls, priority))
        self.stream.change("seeds", added=done.added, known=done.known, refused=len(done.refused))
        return {
            "added": done.added,
            "known": done.known,
            "refused": [{"url": one.url, "reason": one.reason} for one in done.refused],
        }

    async def reload(self, *, dry_run: bool = False) -> shapes.Reloaded:
        """Read the config again. 422 with the config's errors: nothing changed then."""
        base = self._control.config.given.base
        try:
            done = await self._in_time(self._control.reload(dry_run=dry_run))
        except ConfigError as error:
            problems = tuple(effective.without_folder(each, base) for each in error.problems)
            raise Problem(
                422, "; ".join(problems), title="the config is not valid", problems=problems
            ) from None
        if not dry_run:
            self.stream.change("reload", changes=list(done.changes))
        return {
            "changes": list(done.changes),
            "restart": list(done.restart),
            "warnings": [effective.without_folder(each, base) for each in done.warnings],
            "dry_run": dry_run,
        }

    async def robots_check(
        self,
        *,
        urls: Sequence[str],
        robots: str | None = None,
        url: str | None = None,
        agent: Sequence[str] = (),
        dialect: Sequence[str] = (),
    ) -> shapes.Checked:
        """Verdicts on URLs (or paths) by a robots.txt: the text given, or that of the origin of
        `url`, fetched politely. `agent`: tokens, else the crawl's. `dialect`: several count as the
        strictest of them; ("all",) is one verdict by each; none is the crawl's."""
        return await self._checking.check(
            urls=urls, robots=robots, url=url, agent=agent, dialect=dialect
        )


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= LIMIT_MAX:
        raise Problem(422, f"limit: must be a whole number from 1 to {LIMIT_MAX}", field="limit")
