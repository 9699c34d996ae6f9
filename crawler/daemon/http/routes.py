"""The JSON routes as a table, from which the server and the OpenAPI description are made."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from crawler.command_table import COMMANDS, CommandRow
from crawler.daemon import list_responses, responses, robots_responses
from crawler.daemon.api.history_view import HistoryAnswer
from crawler.daemon.api.operations import Operations
from crawler.daemon.api.url_lists import UrlLists
from crawler.daemon.http import request_types as types
from crawler.daemon.http.request_types import NoParams, Strict, read_body, read_query
from crawler.operator_commands import OperatorCommand


@dataclass(frozen=True, slots=True)
class Route:
    """One route. The fields of its query and body are the keyword arguments of `operation`, a
    method of `Operations`, which returns `answer`. Only POST has a body."""

    method: str
    path: str
    summary: str
    answer: type
    operation: Callable[..., Awaitable[object]]
    query: type[Strict] = NoParams
    body: type[Struct] = NoParams
    waits: bool = False  # it may wait for a host, and ends when its client disconnects

    async def serve(
        self, operations: Operations, items: Iterable[tuple[str, str]], raw: bytes
    ) -> object:
        """Decode a request and run it. `items`: of the query. Raises Problem."""
        given = asdict(read_query(items, self.query))
        if self.method == "POST":
            given |= asdict(read_body(raw, self.body))
        return await self.operation(operations, **given)


async def _execute(
    kind: type[OperatorCommand[Any]], operations: Operations, *, dry: bool = False, **given: Any
) -> object:
    """dry: from the query."""
    return await operations.execute(kind(**given | ({"dry_run": True} if dry else {})))


def _command_route(row: CommandRow) -> Route:
    run, query = partial(_execute, row.command), types.DryRunParams
    return Route("POST", row.route, row.summary, row.result, run, query, row.command)


async def _may_fetch(operations: Operations, url: str) -> responses.MayFetch:
    return await operations.callers.may_fetch(url)


async def _next_turn(operations: Operations, url: str) -> responses.NextTurn:
    return await operations.callers.next_turn(url)


async def _robots_state(operations: Operations, url: str) -> responses.RobotsKnown:
    return await operations.callers.robots_state(url)


async def _blocked(operations: Operations, **given: Any) -> robots_responses.BlockedPage:
    return await operations.robots_views.blocked(**given)


async def _blocked_rules(operations: Operations, **given: Any) -> robots_responses.BlockedRules:
    return await operations.robots_views.blocked_rules(**given)


async def _robots(operations: Operations, origin: str) -> robots_responses.RobotsCopy:
    return await operations.robots_views.robots(origin)


async def _of_lists(
    method: Callable[..., Awaitable[object]], operations: Operations, **given: object
) -> object:
    return await method(operations.url_lists, **given)


async def _history(
    operations: Operations, from_: float | None, to: float | None, step: int | None
) -> HistoryAnswer:
    return await operations.history.history(from_=from_, to=to, step=step)


async def _log(operations: Operations, **given: Any) -> list_responses.LogPage:
    return await operations.log.lines(**given)


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/api/status",
        "Describe what the crawl is doing now.",
        responses.Status,
        Operations.status,
    ),
    Route(
        "GET",
        "/api/history",
        "Return what was counted in a span of time, in steps, and what happened to the crawl.",
        HistoryAnswer,
        _history,
        types.HistoryParams,
    ),
    Route(
        "GET",
        "/api/hosts",
        "List hosts, optionally filtered by name, state or what holds their URLs, and sorted.",
        responses.Hosts,
        Operations.hosts,
        types.HostsParams,
    ),
    Route(
        "GET",
        "/api/host",
        "Describe one host, with its robots.txt copies and recent contacts.",
        responses.HostDetail,
        Operations.host,
        types.HostParams,
    ),
    Route(
        "GET",
        "/api/url",
        "Explain the state of a URL.",
        responses.UrlAnswer,
        Operations.url,
        types.UrlParams,
    ),
    Route(
        "GET",
        "/api/blocked",
        "List blocked URLs, of one host, by rules that contain a string.",
        robots_responses.BlockedPage,
        _blocked,
        types.BlockedParams,
    ),
    Route(
        "GET",
        "/api/blocked/rules",
        "Count blocked URLs by host and rule, the most first.",
        robots_responses.BlockedRules,
        _blocked_rules,
        types.BlockedRulesParams,
    ),
    Route(
        "GET",
        "/api/robots",
        "Return the robots.txt stored for an origin, line by line.",
        robots_responses.RobotsCopy,
        _robots,
        types.OriginParams,
    ),
    Route(
        "GET",
        "/api/config",
        "Return the effective settings, of one host if it is named; without secrets.",
        responses.Settings,
        Operations.config,
        types.ConfigParams,
    ),
    Route(
        "GET",
        "/api/urls",
        "List queued, failed or visited URLs, those found last first.",
        list_responses.UrlsPage,
        partial(_of_lists, UrlLists.urls),
        types.UrlsParams,
    ),
    Route(
        "GET",
        "/api/failures",
        "Count the failed URLs by failure code.",
        list_responses.Failures,
        partial(_of_lists, UrlLists.failures),
    ),
    Route(
        "GET",
        "/api/skipped",
        "Count the links that were left out, by reason.",
        list_responses.SkippedLinks,
        partial(_of_lists, UrlLists.skipped),
    ),
    Route(
        "GET",
        "/api/seeds",
        "List the seeds with their states, those added last first.",
        list_responses.SeedsPage,
        partial(_of_lists, UrlLists.seeds),
        types.SeedsParams,
    ),
    Route(
        "GET",
        "/api/log",
        "List the latest lines of the log, the newest first.",
        list_responses.LogPage,
        _log,
        types.LogParams,
    ),
    *map(_command_route, COMMANDS),
    Route(
        "POST",
        "/api/robots/check",
        "Judge URLs by a robots.txt in the request, or by that of a site.",
        responses.Checked,
        Operations.robots_check,
        body=types.CheckBody,
        waits=True,
    ),
    Route(
        "POST",
        "/api/may-fetch",
        "Return whether robots.txt allows a URL; fetches it politely if needed.",
        responses.MayFetch,
        _may_fetch,
        body=types.TargetBody,
        waits=True,
    ),
    Route(
        "POST",
        "/api/next-turn",
        "Return when the host of a URL may be contacted next, without contacting it.",
        responses.NextTurn,
        _next_turn,
        body=types.TargetBody,
        waits=True,
    ),
    Route(
        "POST",
        "/api/robots/state",
        "Return what is known of the robots.txt for a URL; fetches it politely if needed.",
        responses.RobotsKnown,
        _robots_state,
        body=types.TargetBody,
        waits=True,
    ),
)
