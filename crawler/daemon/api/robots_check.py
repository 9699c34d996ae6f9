"""The robots tester of the API: verdicts by a robots.txt from the request, or by that of a site."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from crawler.clock import Clock
from crawler.config import ConfigError, check_identity
from crawler.daemon.actor import acting_client
from crawler.daemon.api.caller_limits import Limit, Room
from crawler.daemon.problem import Problem, invalid
from crawler.daemon.responses import Checked, CheckedUrl
from crawler.explain.robots_tester import KnownRobots, RobotsTester
from crawler.scheduling.scheduler import Scheduler
from crawler.steering.control import Control
from crawler.threads import in_thread
from policies import robots as robots_txt
from policies.robots import BYTES_MAX
from policies.robots_state import RobotsState, is_due
from policies.url import (
    SeedError,
    canonical,
    host_of,
    origin_of,
    parse_seed,
    robots_url,
    without_userinfo,
)
from storage.reader import Reader

VERDICTS_MAX = 10_000  # in one request
URL_BYTES_MAX = 20_000  # of a URL to be judged
AGENTS_MAX = 20  # tokens of one crawler
AGENT_BYTES_MAX = 200
FETCH_S = 60.0  # how long a request waits for a robots.txt
_FETCHES = Limit(what="robots.txt files being fetched", total=16, of_one=8, share=1, reserve=4)
ALL = "all"


@dataclass(slots=True, kw_only=True)
class RobotsThroughCrawl:
    """Fetches the robots.txt of any site through the crawl: when the host may be contacted, over
    the crawl's own connections, to permitted addresses, once; the copy is stored like any other."""

    scheduler: Scheduler
    reader: Reader
    clock: Clock
    _room: Room = field(default_factory=lambda: Room(_FETCHES), init=False)

    async def fetch(self, origin: str) -> RobotsState | None:
        """Return what is known of an origin's robots.txt, fetched first if that is due; None if no
        connection could be made, or if the crawl ends. Raises Problem."""
        known = await self.reader.robots_copy(origin)
        if known is not None and not is_due(known, self.clock.wall()):
            return known
        if not self.scheduler.loop.under_way:
            raise Problem(503, "the crawl is starting or stopping", retry_after_s=1.0)
        with self._room.taken(acting_client()):
            return await self.scheduler.fetch_robots(origin)


class RobotsCheck:
    """Judges URLs as the crawl would, by the config and identity of the crawl."""

    def __init__(self, control: Control, clock: Clock, fetcher: RobotsThroughCrawl) -> None:
        self._control = control
        self._clock = clock
        self._fetcher = fetcher

    async def check(
        self,
        *,
        urls: Sequence[str],
        robots: str | None,
        url: str | None,
        agent: Sequence[str],
        dialect: Sequence[str],
    ) -> Checked:
        """See `Operations.robots_check`. Raises Problem for the whole request."""
        if (robots is None) == (url is None):
            raise Problem(
                422,
                'give either "robots", the content of a file, or "url", whose robots.txt is used',
                field="robots" if robots is not None or url is None else "url",
            )
        _check_urls(urls)
        _check_agents(agent)
        every = list(dialect) == [ALL]
        names = tuple(robots_txt.DIALECTS) if every else self._dialects(dialect, url)
        if len(urls) * (len(names) if every else 1) > VERDICTS_MAX:
            raise invalid("urls", f"at most {VERDICTS_MAX:,} verdicts", 413)
        if robots is not None:
            known = self._given(robots)
        else:
            assert url is not None
            known = await self._fetched(url)
        host = host_of(known.where) if known.fetched else ""
        rules = self._control.config.site(host).robots
        tokens = tuple(agent) or self._control.config.token(host)
        combinations = [(name,) for name in names] if every else [names]

        def judge() -> list[CheckedUrl]:
            tester = RobotsTester(known, tokens, rules)
            verdicts = []
            for each in urls:
                for dialects in combinations:
                    if (other := known.other_origin(each)) is not None:
                        verdicts.append(_ungoverned(each, dialects[0], other))
                        continue
                    found = tester.judge(each, dialects)
                    if found is None:
                        raise _unreachable(known.where)
                    verdicts.append(
                        CheckedUrl(
                            url=without_userinfo(each),
                            dialect=found.dialect,
                            allowed=found.allowed,
                            rule=found.rule,
                            line=found.line,
                            reason=found.reason,
                        )
                    )
            return verdicts

        body = known.access.body
        return Checked(
            verdicts=await in_thread(judge),
            robots=None if body is None else without_userinfo(body.decode("utf-8", "replace")),
            robots_url=known.where if known.fetched else None,
        )

    def _dialects(self, given: Sequence[str], url: str | None) -> tuple[str, ...]:
        if not given:
            found = canonical(url) if url is not None else None
            host = host_of(found) if found else ""
            return self._control.config.site(host).robots.dialect
        try:
            return tuple(row.name for row in robots_txt.dialects(given))
        except ValueError as error:
            raise invalid("dialect", f"{error}") from None

    def _given(self, text: str) -> KnownRobots:
        body = text.encode("utf-8", "replace")
        if len(body) > BYTES_MAX:
            raise invalid("robots", f"is longer than {BYTES_MAX:,} bytes", 413)
        now_s = self._clock.wall()
        copy = RobotsState(
            status=200, body=body, copy_at=now_s, fetched_at=now_s, expires_at=now_s + 1
        )
        return KnownRobots(where="the file given", access=copy, now_s=now_s, fetched=False)

    async def _fetched(self, url: str) -> KnownRobots:
        """The robots.txt that applies to a URL: the stored copy, or a new one."""
        try:
            origin = origin_of(parse_seed(url))
        except SeedError:
            raise invalid("url", "must be an absolute URL such as https://example.com/") from None
        try:
            check_identity(self._control.config, [f"{origin}/"])
        except ConfigError as error:
            raise invalid("url", f"{error.problems[0]}") from None
        where, copy = robots_url(origin), None
        try:
            async with asyncio.timeout(FETCH_S):
                copy = await self._fetcher.fetch(origin)
        except TimeoutError:
            raise Problem(
                504,
                f"{host_of(f'{origin}/')} could not be contacted politely within {FETCH_S:.0f} s",
                field="url",
            ) from None
        if copy is None:
            raise _unreachable(where)
        return KnownRobots(where=where, access=copy, now_s=self._clock.wall(), fetched=True)


def _ungoverned(url: str, dialect: str, origin: str) -> CheckedUrl:
    return CheckedUrl(
        url=without_userinfo(url),
        dialect=dialect,
        allowed=False,
        rule=None,
        line=None,
        reason=f"Not governed by this file, but by {robots_url(origin)}.",
        governed=False,
    )


def _unreachable(where: str) -> Problem:
    return Problem(502, f"{where} could not be fetched", field="url")


def _check_urls(urls: Sequence[str]) -> None:
    if not urls:
        raise invalid("urls", "must name at least one URL or path")
    for number, each in enumerate(urls):
        field = f"urls[{number}]"
        if len(each) > URL_BYTES_MAX:
            raise invalid(field, f"is longer than {URL_BYTES_MAX:,} characters", 413)
        if "://" not in each and not each.startswith("/"):
            raise invalid(field, "must be a URL, or a path that begins with /")


def _check_agents(agents: Sequence[str]) -> None:
    if len(agents) > AGENTS_MAX:
        raise invalid("agent", f"at most {AGENTS_MAX} names")
    for each in agents:
        if not each.strip() or len(each) > AGENT_BYTES_MAX:
            raise invalid("agent", f"must be a name of 1 to {AGENT_BYTES_MAX} characters")
