"""The robots tester: verdicts on URLs by a file that was given, or by that of a site."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from crawler.clock import Clock
from crawler.config import ConfigError, check_identity
from crawler.daemon import shapes
from crawler.daemon.problem import Problem
from crawler.steering.control import Control
from crawler.telling.tester import Judge, Known
from crawler.threads import in_thread
from policies import robots as robots_txt
from policies.robots import BYTES_MAX
from policies.robots_state import RobotsState
from policies.url import (
    SeedError,
    canonical,
    host_of,
    origin_of,
    parse_seed,
    robots_url,
    without_userinfo,
)
from storage.store import Reader

VERDICTS_MAX = 10_000  # of one request: each is some tens of microseconds, in a thread
URL_BYTES_MAX = 20_000  # of a URL to be judged
AGENTS_MAX = 20  # tokens of one crawler
AGENT_BYTES_MAX = 200
FETCH_S = 60.0  # as long as somebody waits for a robots.txt before its turn has come
ALL = "all"


class Checking:
    """Judges as the crawl would. Of a site it asks in the crawl's own way: at its host's turn, to
    addresses that the crawl may connect to, as whom the crawl is."""

    def __init__(
        self,
        control: Control,
        reader: Reader,
        *,
        clock: Clock,
        fetch_robots: Callable[[str], Awaitable[RobotsState | None]] | None,
    ) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._fetch_robots = fetch_robots

    async def check(
        self,
        *,
        urls: Sequence[str],
        robots: str | None,
        url: str | None,
        agent: Sequence[str],
        dialect: Sequence[str],
    ) -> shapes.Checked:
        """Raises Problem, and judges nothing then."""
        if (robots is None) == (url is None):
            raise Problem(
                422,
                'give "robots", the text of a file, or "url", whose site is asked for its file',
                field="robots" if robots is not None or url is None else "url",
            )
        _check_urls(urls)
        _check_agents(agent)
        every = list(dialect) == [ALL]
        names = tuple(robots_txt.DIALECTS) if every else self._dialects(dialect, url)
        if len(urls) * (len(names) if every else 1) > VERDICTS_MAX:
            raise Problem(413, f"urls: at most {VERDICTS_MAX:,} verdicts", field="urls")
        if robots is not None:
            known = self._given(robots)
        else:
            assert url is not None
            known = await self._asked(url)
        host = host_of(f"{known.where}") if known.fetched else ""
        rules = self._control.config.site(host).robots
        tokens = tuple(agent) or self._control.config.token(host)
        ways = [(name,) for name in names] if every else [names]

        def judge() -> list[shapes.CheckedUrl]:
            one = Judge(known, tokens, rules)
            verdicts: list[shapes.CheckedUrl] = []
            for each in urls:
                for way in ways:
                    found = one.judge(each, way)
                    if found is None:
                        raise _silent(known.where)
                    verdicts.append(
                        {
                            "url": without_userinfo(each),
                            "dialect": found.dialect,
                            "allowed": found.allowed,
                            "rule": found.rule,
                            "line": found.line,
                            "reason": found.reason,
                        }
                    )
            return verdicts

        body = known.access.body
        return {
            "verdicts": await in_thread(judge),
            "robots": None if body is None else without_userinfo(body.decode("utf-8", "replace")),
            "robots_url": known.where if known.fetched else None,
        }

    def _dialects(self, asked: Sequence[str], url: str | None) -> tuple[str, ...]:
        if not asked:
            found = canonical(url) if url is not None else None
            host = host_of(found) if found else ""
            return self._control.config.site(host).robots.dialect
        try:
            return tuple(row.name for row in robots_txt.dialects(asked))
        except ValueError as error:
            raise Problem(422, f"dialect: {error}", field="dialect") from None

    def _given(self, text: str) -> Known:
        body = text.encode("utf-8", "replace")
        if len(body) > BYTES_MAX:
            raise Problem(413, f"robots: is longer than {BYTES_MAX:,} bytes", field="robots")
        now_s = self._clock.wall()
        copy = RobotsState(
            status=200, body=body, copy_at=now_s, fetched_at=now_s, expires_at=now_s + 1
        )
        return Known(where="the file given", access=copy, now_s=now_s, fetched=False)

    async def _asked(self, url: str) -> Known:
        """The file that governs a URL: the kept one, else asked for."""
        try:
            origin = origin_of(parse_seed(url))
        except SeedError:
            raise Problem(
                422, "url: must be an absolute URL such as https://example.com/", field="url"
            ) from None
        try:
            check_identity(self._control.config, [f"{origin}/"])
        except ConfigError as error:
            raise Problem(422, f"url: {error.problems[0]}", field="url") from None
        where, copy = robots_url(origin), None
        try:
            async with asyncio.timeout(FETCH_S):
                if self._fetch_robots is None:
                    copy = await self._reader.robots_copy(origin)
                else:
                    copy = await self._fetch_robots(origin)
        except TimeoutError:
            raise Problem(
                504,
                f"the turn of {host_of(f'{origin}/')} did not come within {FETCH_S:.0f} s",
                field="url",
            ) from None
        if copy is None:
            raise _silent(where)
        return Known(where=where, access=copy, now_s=self._clock.wall(), fetched=True)


def _silent(where: str) -> Problem:
    return Problem(502, f"{where} could not be asked for", field="url")


def _check_urls(urls: Sequence[str]) -> None:
    if not urls:
        raise Problem(422, "urls: must name at least one URL or path", field="urls")
    for number, each in enumerate(urls):
        field = f"urls[{number}]"
        if len(each) > URL_BYTES_MAX:
            raise Problem(413, f"{field}: is longer than {URL_BYTES_MAX:,} characters", field=field)
        if "://" not in each and not each.startswith("/"):
            raise Problem(422, f"{field}: must be a URL, or a path that begins with /", field=field)


def _check_agents(agents: Sequence[str]) -> None:
    if len(agents) > AGENTS_MAX:
        raise Problem(422, f"agent: at most {AGENTS_MAX} names", field="agent")
    for each in agents:
        if not each.strip() or len(each) > AGENT_BYTES_MAX:
            raise Problem(
                422, f"agent: must be a name of 1 to {AGENT_BYTES_MAX} characters", field="agent"
            )
