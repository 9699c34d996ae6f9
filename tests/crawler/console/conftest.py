"""Operations without a crawl: they return the rows given, and record the calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from msgspec import convert, to_builtins

from crawler.daemon import responses, robots_responses
from crawler.daemon.api.caller_requests import CallerRequests
from crawler.daemon.api.operations import Operations
from crawler.daemon.api.url_lists import UrlLists
from crawler.daemon.health import HealthEvidence, judge
from crawler.daemon.list_responses import (
    FailureCount,
    Failures,
    SeedsPage,
    SkippedLinks,
    SkippedRow,
    UrlsPage,
)
from crawler.daemon.monitoring.event_stream import EventStream
from crawler.daemon.problem import Problem
from crawler.operator_commands import (
    AddSeeds,
    Controlled,
    CrawlState,
    DropFailed,
    FailedDropped,
    HostCommand,
    OperatorCommand,
    PauseCrawl,
    Reload,
    Reloaded,
    ResumeCrawl,
    Retried,
    RetryFailed,
    SeedsAdded,
    StateAnswer,
)
from crawler.testing import JumpClock
from policies import robots
from storage.columns import VIEWS
from tests.crawler.daemon.conftest import daemon, start, town

__all__ = ["daemon", "start", "town"]  # fixtures

NOW_S = 1_790_000_000.0


def host_row(host: str, **more: object) -> dict[str, Any]:
    return {
        "host": host,
        "queued": 3,
        "visited": 120,
        "blocked": 2,
        "failed": 0,
        "body_bytes": 4_200_000,
        "delay_s": 1.0,
        "delay_source": "politeness.delay",
        "next_at": NOW_S + 0.6,
        "paused": False,
        "backoff_until": None,
        "contacts": 130,
        "smallest_rest_s": 1.0,
        "peak_concurrency": 1,
        "breaches": 0,
        "unproven": 2,
        "slow_s": None,
        "latency_s": 0.08,
        "connect_failures": 0,
        "backoff_status": None,
        "wait_reason": "",
        "now": None,
        **more,
    }


class FakeOperations(Operations):
    """`rows`, `files` and the rest may be changed; `asked` lists the calls in order."""

    def __init__(self) -> None:  # the crawl that the real one is made of is what is left out
        self.state = "running"
        self.rows: dict[str, dict[str, Any]] = {}
        self.files: dict[str, str] = {}  # origin -> robots.txt
        self.contacts: list[dict[str, Any]] = []
        self.blocked_rows: list[dict[str, Any]] = []
        self.blocked_groups: list[dict[str, Any]] = []
        self.next_urls: list[dict[str, Any]] = []
        self.change: dict[str, Any] | None = None
        self.urls: dict[str, dict[str, Any]] = {}
        self.changes: list[str] = ["312 hosts: politeness.delay 1 s to 4 s"]
        self.asked: list[tuple[object, ...]] = []
        self.broken: Problem | None = None
        self.queue_waits: list[dict[str, Any]] = []
        self.more_settings: list[dict[str, Any]] = []
        self.health = to_builtins(judge(HealthEvidence(state=CrawlState.RUNNING)))
        self.stream = EventStream(JumpClock())
        self.url_lists = FakeUrlLists(self)
        self.callers = cast("CallerRequests", None)  # no page sends requests for other programs

    async def status(self) -> Any:
        return convert(
            {
                "state": self.state,
                "visited": 1_234_567,
                "blocked": 4_321,
                "failed": 12,
                "queued": 98_765,
                "hosts": len(self.rows),
                "bytes": 10_000_000,
                "in_flight": 1,
                "pages_per_s": 12.3,
                "bytes_per_s": 450_000.0,
                "uptime_s": 7_200.0,
                "memory_bytes": 91_000_000,
                "hosts_held": len(self.rows),
                "hosts_by_state": {"in flight": 1, "waiting": 5, "paused": 1},
                "fetching": [{"url": "http://a.test/slow", "since_s": 1.2}],
                "uncommitted": 0,
                "held": [],
                "version": "0.1.0",
                "health": self.health,
                "at": NOW_S,
                "queue": self.queue_waits,
                "queue_at": NOW_S,
                "name": "news",
            },
            responses.Status,
        )

    async def hosts(self, **asked: Any) -> Any:
        self.asked.append(("hosts", asked))
        if asked.get("state") in ("backing-off", "paused", "slowed", "failing"):
            rows = [row for row in self.rows.values() if row["paused"]]
            rows = rows if asked["state"] == "paused" else []
            return convert({"hosts": rows, "after": None}, responses.Hosts)
        found = [row for name, row in self.rows.items() if asked.get("search", "") in name]
        after = "more" if len(found) > asked["limit"] else None
        return convert({"hosts": found[: asked["limit"]], "after": after}, responses.Hosts)

    async def host(self, host: str) -> Any:
        if host not in self.rows:
            raise Problem(
                404,
                f'unknown host "{host}": no URL on this host has ever been queued',
                field="host",
            )
        copies = [
            {
                "origin": origin,
                "host": host,
                "state": "rules",
                "status": 200,
                "fetched_at": NOW_S - 3_000,
                "expires_at": NOW_S + 80_000,
                "retry_at": None,
                "body_bytes": len(text),
                "failures": 0,
                "error": None,
                "truncated": False,
            }
            for origin, text in self.files.items()
        ]
        return convert(
            {
                **self.rows[host],
                "robots": copies,
                "recent_contacts": self.contacts,
                "next_urls": self.next_urls,
                "why": [],
            },
            responses.HostDetail,
        )

    async def url(self, url: str) -> Any:
        if url not in self.urls:
            raise Problem(404, f"{url} is unknown", field="url")
        return convert(self.urls[url], responses.UrlAnswer)

    @property
    def robots_views(self) -> Any:
        return self

    async def blocked_rules(self, **asked: Any) -> Any:
        self.asked.append(("blocked_rules", asked))
        return convert(
            {"rules": self.blocked_groups, "more": False, "complete": True},
            robots_responses.BlockedRules,
        )

    async def blocked(self, **asked: Any) -> Any:
        self.asked.append(("blocked", asked))
        return convert(
            {"blocked": self.blocked_rows[: asked["limit"]], "after": None},
            robots_responses.BlockedPage,
        )

    async def robots(self, origin: str) -> Any:
        lines = robots.parse(self.files[origin].encode()).lines
        return convert(
            {
                "origin": origin,
                "state": "rules",
                "status": 200,
                "lines": [
                    {"line": line.number, "text": line.text, "blocked": 2 * (line.number == 2)}
                    for line in lines
                ],
                "fetched_at": NOW_S - 3_000,
                "truncated": False,
                "change": self.change,
            },
            robots_responses.RobotsCopy,
        )

    async def config(self, host: str = "") -> Any:
        return convert(
            {
                "host": host or None,
                "settings": [
                    {"key": "crawl.user_agent", "value": "examplebot/1.0", "source": "c.toml:2"},
                    {"key": "politeness.delay", "value": 1.0, "source": "default"},
                    {"key": "robots.dialect", "value": "slurp", "source": "default"},
                    {"key": "daemon.token", "value": "…", "source": "c.toml:9"},
                    *self.more_settings,
                ],
            },
            responses.Settings,
        )

    async def failed(self, host: str, *, limit: int = 10) -> Any:
        return []

    async def robots_states(self, hosts: Sequence[str]) -> dict[str, str]:
        return {"a.test": "rules", "b.test": "unreachable"}

    async def _did(self, *what: object) -> Any:
        if self.broken is not None:
            raise self.broken
        self.asked.append(what)
        return {}

    async def execute(self, command: OperatorCommand[Any]) -> Any:
        await self._did(command)
        match command:
            case PauseCrawl() | ResumeCrawl():
                self.state = "paused" if isinstance(command, PauseCrawl) else "running"
                return StateAnswer(state=CrawlState(self.state), changed=True)
            case HostCommand(dry_run=dry_run):
                names = command.names or tuple(self.rows)
                return Controlled(hosts=len(names), names=names, dry_run=dry_run)
            case AddSeeds(urls=urls):
                refused = [url for url in urls if "://" not in url]
                reasons = [
                    {"url": url, "reason": f"{url} is no absolute URL; try https://{url}"}
                    for url in refused
                ]
                added = len(urls) - len(refused)
                return convert({"added": added, "known": 0, "refused": reasons}, SeedsAdded)
            case RetryFailed():
                return Retried(retried=2)
            case DropFailed():
                return FailedDropped(dropped=1)
        assert isinstance(command, Reload)
        return Reloaded(
            changes=tuple(self.changes), restart=(), warnings=(), dry_run=command.dry_run
        )

    async def robots_check(
        self,
        *,
        urls: Sequence[str],
        robots: str | None = None,
        url: str | None = None,
        agent: str | Sequence[str] | None = None,
        dialect: str | Sequence[str] | None = None,
    ) -> Any:
        from policies import robots as reading

        await self._did("robots_check", tuple(urls), url, agent, dialect)
        file = reading.parse((robots or "").encode())
        found = []
        for each in urls:
            for name, verdict in file.compare(each, agent=agent or "examplebot").items():
                found.append(
                    {
                        "url": each,
                        "dialect": name,
                        "allowed": verdict.allowed,
                        "rule": verdict.rule,
                        "line": verdict.line,
                        "reason": str(verdict),
                    }
                )
        return convert({"verdicts": found, "robots": robots, "robots_url": None}, responses.Checked)


class FakeUrlLists(UrlLists):
    """`rows` are those of every list."""

    def __init__(self, operations: FakeOperations) -> None:
        self._operations = operations
        self.rows: dict[str, list[dict[str, Any]]] = {
            "queued": [
                {"url": "http://a.test/q", "priority": 1.5, "depth": 2, "due_at": 0, "attempts": 1},
            ],
            "failed": [
                {"url": "http://a.test/f", "error": "dns: no", "attempts": 3, "last_at": NOW_S}
            ],
            "visited": [
                dict.fromkeys(VIEWS["visited"])
                | {"url": "http://a.test/v", "status": 404, "fetched_at": NOW_S, "elapsed_s": 0.1}
            ],
            "seeds": [
                {"url": "http://a.test/", "state": "failed", "status": None, "error": "dns: no",
                 "depth": 0, "priority": 0.0}
            ],
        }  # fmt: skip

    async def urls(self, *, state: str, **asked: Any) -> Any:
        self._operations.asked.append(("urls", state, asked))
        return UrlsPage(urls=self.rows[state], after="more" if not asked["after"] else None)

    async def failures(self) -> Any:
        return Failures(codes=[FailureCount(code="dns", urls=2), FailureCount(code="body", urls=1)])

    async def skipped(self) -> Any:
        row = SkippedRow(reason="max_depth", words="too deep (crawl.max_depth)", count=7)
        return SkippedLinks(skipped=[row])

    async def seeds(self, **asked: Any) -> Any:
        return convert({"seeds": self.rows["seeds"], "after": None}, SeedsPage)


@pytest.fixture
def answers() -> FakeOperations:
    fake = FakeOperations()
    fake.rows = {name: host_row(name) for name in ("a.test", "b.test")}
    fake.rows["p.test"] = host_row("p.test", paused=True, wait_reason="paused by an operator")
    fake.files = {"http://a.test": "User-agent: *\nDisallow: /private/\n"}
    return fake


@pytest.fixture
def wall_clock() -> JumpClock:
    return JumpClock()
