"""The JSON routes as a table: the server serves them, the OpenAPI description is made of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from crawler.daemon import shapes
from crawler.daemon.answering.answers import Answers
from crawler.daemon.serving import asked
from crawler.daemon.serving.asked import Nothing, Strict, read_body, read_query

Query = TypeVar("Query", bound=Strict)
Body = TypeVar("Body", bound=Strict)
Serve = Callable[[Answers, Iterable[tuple[str, str]], bytes], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route. `serve` takes the query's items and the body; it raises Problem. `answer` is the
    type of what it gives."""

    method: str
    path: str
    summary: str
    query: type[Strict]
    body: type[Strict] | None
    answer: type
    serve: Serve


def _get(
    path: str,
    summary: str,
    query: type[Query],
    answer: type,
    call: Callable[[Answers, Query], Awaitable[object]],
) -> Route:
    async def serve(answers: Answers, items: Iterable[tuple[str, str]], _raw: bytes) -> object:
        return await call(answers, read_query(items, query))

    return Route(
        method="GET",
        path=path,
        summary=summary,
        query=query,
        body=None,
        answer=answer,
        serve=serve,
    )


def _post(
    path: str,
    summary: str,
    body: type[Body],
    answer: type,
    call: Callable[[Answers, Body], Awaitable[object]],
) -> Route:
    async def serve(answers: Answers, items: Iterable[tuple[str, str]], raw: bytes) -> object:
        read_query(items, Nothing)
        return await call(answers, read_body(raw, body))

    return Route(
        method="POST",
        path=path,
        summary=summary,
        query=Nothing,
        body=body,
        answer=answer,
        serve=serve,
    )


async def _reload(answers: Answers, items: Iterable[tuple[str, str]], raw: bytes) -> object:
    query = read_query(items, asked.ReloadQuery)
    read_body(raw, Nothing)
    return await answers.reload(dry_run=query.dry_run)


def _texts(given: str | list[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, str) else tuple(given)


ROUTES: tuple[Route, ...] = (
    _get(
        "/api/status",
        "What the crawl is doing now.",
        Nothing,
        shapes.Status,
        lambda answers, _: answers.status(),
    ),
    _get(
        "/api/hosts",
        "A page of hosts: searched, of one state, sorted.",
        asked.HostsQuery,
        shapes.Hosts,
        lambda answers, query: answers.hosts(
            search=query.search,
            state=query.state,
            sort=query.sort,
            limit=query.limit,
            after=query.after,
        ),
    ),
    _get(
        "/api/host",
        "One host, with its robots.txt copies and recent contacts.",
        asked.HostQuery,
        shapes.Host,
        lambda answers, query: answers.host(query.host),
    ),
    _post(
        "/api/hosts/pause",
        "No contact with this host begins; durable.",
        asked.HostBody,
        shapes.Controlled,
        lambda answers, body: answers.host_pause(body.host),
    ),
    _post(
        "/api/hosts/resume",
        "Undo pause and slow of this host; durable.",
        asked.HostBody,
        shapes.Controlled,
        lambda answers, body: answers.host_resume(body.host),
    ),
    _post(
        "/api/hosts/slow",
        "Rest at least so long after each contact with this host; durable.",
        asked.SlowBody,
        shapes.Controlled,
        lambda answers, body: answers.host_slow(body.host, body.delay_s),
    ),
    _get(
        "/api/url",
        "All that is known of a URL.",
        asked.UrlQuery,
        shapes.UrlAnswer,
        lambda answers, query: answers.url(query.url),
    ),
    _get(
        "/api/blocked",
        "A page of blocked URLs, of one host, by rules that contain a text.",
        asked.BlockedQuery,
        shapes.BlockedPage,
        lambda answers, query: answers.blocked(
            host=query.host, rule=query.rule, limit=query.limit, after=query.after
        ),
    ),
    _get(
        "/api/robots",
        "The robots.txt kept for an origin, line by line.",
        asked.OriginQuery,
        shapes.RobotsCopy,
        lambda answers, query: answers.robots(query.origin),
    ),
    _get(
        "/api/config",
        "The settings that count now, of one host if it is named; without secrets.",
        asked.ConfigQuery,
        shapes.Settings,
        lambda answers, query: answers.config(query.host),
    ),
    _post(
        "/api/seeds",
        "Queue seeds.",
        asked.SeedsBody,
        shapes.SeedsAnswer,
        lambda answers, body: answers.seeds(body.urls, body.priority),
    ),
    _post(
        "/api/retry",
        "Queue failed URLs again, of one host or one code if that is named.",
        asked.RetryBody,
        shapes.Retried,
        lambda answers, body: answers.retry(body.host, body.code),
    ),
    _post(
        "/api/pause",
        "No contact begins until the crawl is resumed.",
        Nothing,
        shapes.StateAnswer,
        lambda answers, _: answers.pause(),
    ),
    _post(
        "/api/resume",
        "Contacts begin again.",
        Nothing,
        shapes.StateAnswer,
        lambda answers, _: answers.resume(),
    ),
    Route(
        method="POST",
        path="/api/reload",
        summary="Read the config again; with dry_run only say what would change.",
        query=asked.ReloadQuery,
        body=Nothing,
        answer=shapes.Reloaded,
        serve=_reload,
    ),
    _post(
        "/api/robots/check",
        "Verdicts on URLs by a robots.txt that is given, or by that of a site.",
        asked.CheckBody,
        shapes.Checked,
        lambda answers, body: answers.robots_check(
            urls=body.urls,
            robots=body.robots,
            url=body.url,
            agent=_texts(body.agent),
            dialect=_texts(body.dialect),
        ),
    ),
)
