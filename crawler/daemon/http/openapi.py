"""The OpenAPI description, generated from the table of routes and the types of their JSON."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache

import msgspec
from msgspec import Struct

from crawler.daemon import problem
from crawler.daemon.http import caller_routes
from crawler.daemon.http.routes import ROUTES, Route
from crawler.daemon.responses import Liveness, Readiness
from crawler.version import __version__


class ProblemBody(Struct, frozen=True, kw_only=True):
    """The reason why a request was not served (RFC 9457); `field` and `problems` where they apply.
    `type` is "about:blank", or of a request that the crawl did not send "/problems/NAME", with the
    attributes of the error: robots-disallowed (url, verdict), robots-unreachable (url, reason,
    until), fetch-failed (url, failure, until), wait-too-long (url, reason, until),
    too-many-redirects (urls), invalid-url, invalid-request (argument), invalid-config (problems),
    session-closed (the crawl is ending), busy, permit-ended."""

    type: str
    title: str
    status: int
    detail: str


_EVENTS = (
    "Server-sent events: `status` immediately and every second (as /api/status); `contact` for "
    "contacts that ended, at most 50 a second; `change` for commands; `gave_up` for an origin "
    "whose queued URLs failed because no connection could be made; `hold` when a problem of the "
    "crawler's own machine or network puts the whole crawl on hold, and when it is resolved."
)

_LOGIN = {
    "summary": "Begin a browser session; only if a token is set.",
    "operationId": "login",
    "security": [],
    "requestBody": {
        "required": True,
        "content": {
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "properties": {"token": {"type": "string"}, "next": {"type": "string"}},
                    "required": ["token"],
                }
            }
        },
    },
    "responses": {
        "303": {
            "description": "Sets a cookie (HttpOnly, SameSite=Strict) and redirects to `next`."
        },
        "401": {"description": "Wrong token."},
    },
}


@cache
def description() -> Mapping[str, object]:
    """OpenAPI 3.1. Shared by all callers: do not modify it."""
    types = [ProblemBody, Liveness, Readiness, *(route.answer for route in ROUTES)]
    types += [kind for route in ROUTES for kind in (route.query, route.body)]
    types += [*caller_routes.ANSWERS, *caller_routes.BODIES]
    wanted = list(dict.fromkeys(types))
    found, components = msgspec.json.schema_components(
        wanted, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(wanted, found, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for route in ROUTES:
        operation = _operation(route, schemas, components)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    refused = _content(schemas[ProblemBody], problem.CONTENT_TYPE, "A problem.")
    paths |= caller_routes.paths(schemas, refused)
    health = _get("healthz", "Check that the daemon is alive; needs no token.", schemas[Liveness])
    paths["/healthz"] = {"get": {**health, "security": []}}
    ready = _get("readyz", "Check that it makes progress; needs no token.", schemas[Readiness])
    paths["/readyz"] = {"get": {**ready, "security": []}}
    text = {"type": "string"}
    events = _get("events", "Events as they happen.", text, "text/event-stream", _EVENTS)
    metrics = _get("metrics", "Metrics for Prometheus.", text, "text/plain", "The text format.")
    described = _get("openapi", "This description.", {"type": "object"})
    paths["/api/events"] = {"get": events}
    paths["/metrics"] = {"get": metrics}
    paths["/api/openapi.json"] = {"get": described}
    paths["/login"] = {"post": _LOGIN}
    paths["/logout"] = {
        "post": {
            "summary": "End the browser session; only if a token is set.",
            "operationId": "logout",
            "responses": {"303": {"description": "Redirects to the login form."}},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "courtly",
            "version": __version__,
            "description": "Inspect and control a running crawl.",
        },
        "security": [{"bearer": []}, {"session": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "courtly_8710",
                    "description": "Set by POST /login; the number is the port.",
                },
            },
        },
    }


def _operation(
    route: Route,
    schemas: Mapping[type, Mapping[str, object]],
    components: Mapping[str, Mapping[str, object]],
) -> dict[str, object]:
    answer = " ".join((inspect.getdoc(route.answer) or "").split())
    operation: dict[str, object] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.removeprefix('/api').replace('/', '_')}",
        "responses": {
            "200": _content(schemas[route.answer], description=answer),
            "default": _content(schemas[ProblemBody], problem.CONTENT_TYPE, "A problem."),
        },
    }
    if parameters := _parameters(components[route.query.__name__]):
        operation["parameters"] = parameters
    if route.method == "POST":
        required = bool(components[route.body.__name__].get("required"))
        operation["requestBody"] = {"required": required, **_content(schemas[route.body])}
    return operation


def _parameters(query: Mapping[str, object]) -> list[dict[str, object]]:
    properties, required = query.get("properties"), query.get("required")
    assert isinstance(properties, Mapping)
    needed = required if isinstance(required, list) else []
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in properties.items()
    ]


def _content(
    schema: Mapping[str, object], content_type: str = "application/json", description: str = ""
) -> dict[str, object]:
    content: dict[str, object] = {"content": {content_type: {"schema": schema}}}
    return {"description": description, **content} if description else content


def _get(
    name: str,
    summary: str,
    schema: Mapping[str, object],
    content_type: str = "application/json",
    description: str = "",
) -> dict[str, object]:
    answer = _content(schema, content_type, description or summary)
    return {"summary": summary, "operationId": name, "responses": {"200": answer}}
