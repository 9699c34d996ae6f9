"""The OpenAPI description, made from the table of routes and the types that they take and give."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Literal, TypedDict

import msgspec

from crawler.daemon import problem
from crawler.daemon.serving.routes import ROUTES, Route
from crawler.daemon.shapes import Health
from crawler.version import __version__


class ProblemBody(TypedDict):
    """Why a request was not served (RFC 9457); `field` and `problems` only where there are any."""

    type: Literal["about:blank"]
    title: str
    status: int
    detail: str


_EVENTS = (
    "Server-sent events: `status` at once and every second (as /api/status); `contact` for "
    "contacts that ended, at most 50 a second; `change` for what was asked of the crawl; `gave_up` "
    "for an origin whose queue failed with its connection; `hold` when trouble of our own machine "
    "or network begins to hold the whole crawl, or ends."
)

_LOGIN = {
    "summary": "Begin a session in a browser; only where there is a token.",
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
        "303": {"description": "A cookie, HttpOnly and SameSite=Strict, and on to `next`."},
        "401": {"description": "This is not the token."},
    },
}


@cache
def description() -> Mapping[str, object]:
    """OpenAPI 3.1. Not to be changed by who asks."""
    types = [ProblemBody, Health, *(route.answer for route in ROUTES)]
    types += [kind for route in ROUTES for kind in (route.query, route.body) if kind is not None]
    wanted = list(dict.fromkeys(types))
    found, components = msgspec.json.schema_components(
        wanted, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(wanted, found, strict=True))
    paths: dict[str, dict[str, object]] = {}
    for route in ROUTES:
        operation = _operation(route, schemas, components)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    paths["/healthz"] = {
        "get": {
            "summary": "Whether the daemon is alive; needs no token.",
            "operationId": "healthz",
            "security": [],
            "responses": {"200": _json("Alive.", schemas[Health])},
        }
    }
    paths["/api/events"] = _text("What happens, as it happens.", "text/event-stream", _EVENTS)
    paths["/metrics"] = _text("Metrics for Prometheus.", "text/plain", "The text format.")
    paths["/login"] = {"post": _LOGIN}
    paths["/logout"] = {
        "post": {
            "summary": "End the session; only where there is a token.",
            "operationId": "logout",
            "responses": {"303": {"description": "To the login form."}},
        }
    }
    paths["/api/openapi.json"] = {
        "get": {
            "summary": "This description.",
            "operationId": "openapi",
            "responses": {"200": _json("OpenAPI 3.1.", {"type": "object"})},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "courtly",
            "version": __version__,
            "description": "A living crawl: watched, and steered.",
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
    told = " ".join((inspect.getdoc(route.answer) or "").split())
    operation: dict[str, object] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.removeprefix('/api').replace('/', '_')}",
        "responses": {
            "200": _json(told, schemas[route.answer]),
            "default": {
                "description": "A problem.",
                "content": {problem.CONTENT_TYPE: {"schema": schemas[ProblemBody]}},
            },
        },
    }
    if parameters := _parameters(components[route.query.__name__]):
        operation["parameters"] = parameters
    if route.body is not None:
        required = bool(components[route.body.__name__].get("required"))
        operation["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": schemas[route.body]}},
        }
    return operation


def _parameters(query: Mapping[str, object]) -> list[dict[str, object]]:
    properties, required = query.get("properties"), query.get("required")
    assert isinstance(properties, Mapping)
    needed = required if isinstance(required, list) else []
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": schema}
        for name, schema in properties.items()
    ]


def _json(told: str, schema: Mapping[str, object]) -> dict[str, object]:
    return {"description": told, "content": {"application/json": {"schema": schema}}}


def _text(summary: str, content_type: str, told: str) -> dict[str, object]:
    return {
        "get": {
            "summary": summary,
            "operationId": summary.split(maxsplit=1)[0].lower(),
            "responses": {
                "200": {
                    "description": told,
                    "content": {content_type: {"schema": {"type": "string"}}},
                }
            },
        }
    }
