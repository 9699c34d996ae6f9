"""The routes for requests of other programs: their bodies are not JSON, or they end with the
connection of the client."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web
from msgspec.structs import asdict

from crawler.daemon.api.caller_requests import CallerRequests, description
from crawler.daemon.http import request_types as types
from crawler.daemon.http.bodies import JSON_TYPE, as_json, json_body
from crawler.daemon.http.request_types import read_body, read_query
from crawler.daemon.responses import LentPermit, PermitEnded
from crawler.errors import CourtlyError
from crawler.front_door import connections

DESCRIPTION: Final = "Courtly-Response"
BINARY: Final = "application/octet-stream"
PERMIT: Final = "/api/permit/{id}"


def add_caller_routes(app: web.Application, callers: CallerRequests) -> None:
    """Serve POST /api/fetch, POST /api/permit, and the renewal and end of a permit."""

    async def fetch(request: web.Request) -> web.StreamResponse:
        asked = await _read(request, types.FetchBody)
        fetching = callers.fetch(asked, stream=asked.stream)
        async with await connections.while_connected(request, fetching) as fetched:
            # What was fetched must not act as a page or a script of this server.
            answer = web.StreamResponse(
                headers={
                    hdrs.CONTENT_TYPE: BINARY,
                    DESCRIPTION: description(fetched.response, asked.description_bytes),
                }
            )
            try:
                await answer.prepare(request)
                async for piece in fetched.pieces:
                    await answer.write(piece)
                await answer.write_eof()
            except CourtlyError:
                connections.abort(request)  # the body broke off, and so does this one
            except ConnectionError:
                pass  # the client has disconnected
        return answer

    async def permit(request: web.Request) -> web.StreamResponse:
        asked = await _read(request, types.PermitBody)
        lending = callers.permit(asked, asked.expires_in_s)
        lent = await connections.while_connected(request, lending)
        return as_json(lent, status=HTTPStatus.CREATED)

    async def renew(request: web.Request) -> web.StreamResponse:
        given = asdict(await _read(request, types.RenewBody))
        return as_json(await callers.renew_permit(request.match_info["id"], **given))

    async def end(request: web.Request) -> web.StreamResponse:
        given = asdict(await _read(request, types.PermitEndBody))
        return as_json(await callers.end_permit(request.match_info["id"], **given))

    app.router.add_post("/api/fetch", fetch)
    app.router.add_post("/api/permit", permit)
    app.router.add_post(PERMIT, renew)
    app.router.add_delete(PERMIT, end)


async def _read(request: web.Request, kind: type[types.T]) -> types.T:
    read_query(request.query.items(), types.NoParams)
    return read_body(await json_body(request), kind)


BODIES: Final = (types.FetchBody, types.PermitBody, types.RenewBody, types.PermitEndBody)
ANSWERS: Final = (LentPermit, PermitEnded)


def paths(
    schemas: Mapping[type, Mapping[str, object]], problem: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """Return these routes as in the OpenAPI description. problem: the response for errors."""

    def operation(
        name: str, summary: str, body: type, status: str, answer: Mapping[str, object]
    ) -> dict[str, object]:
        return {
            "summary": summary,
            "operationId": name,
            "requestBody": {
                "required": body in (types.FetchBody, types.PermitBody),
                "content": {JSON_TYPE: {"schema": schemas[body]}},
            },
            "responses": {status: answer, "default": problem},
        }

    def in_json(kind: type, text: str) -> dict[str, object]:
        return {"description": text, "content": {JSON_TYPE: {"schema": schemas[kind]}}}

    def of_a_permit(described: dict[str, object]) -> dict[str, object]:
        name = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
        return {**described, "parameters": [name]}

    fetched = {
        "description": "The body of the response, whatever its status.",
        "headers": {
            DESCRIPTION: {
                "description": "The response in JSON: url, status, headers (pairs), elapsed_s and "
                "redirects (the same of each); shortened is true if headers were left out.",
                "schema": {"type": "string"},
            }
        },
        "content": {BINARY: {}},
    }
    lent = in_json(
        LentPermit, "One request may be sent now; the contact lasts until the permit ends."
    )
    return {
        "/api/fetch": {
            "post": operation(
                "post_fetch",
                "Send a request when robots.txt and its host permit, and return the response.",
                types.FetchBody,
                "200",
                fetched,
            )
        },
        "/api/permit": {
            "post": operation(
                "post_permit",
                "Wait until one request may be sent, by a client of your own.",
                types.PermitBody,
                "201",
                lent,
            )
        },
        PERMIT: {
            "post": of_a_permit(
                operation(
                    "renew_permit", "Have a permit expire later.", types.RenewBody, "200", lent
                )
            ),
            "delete": of_a_permit(
                operation(
                    "end_permit",
                    "End the contact of a permit, with the answer if there was one.",
                    types.PermitEndBody,
                    "200",
                    in_json(PermitEnded, "The contact has ended; the delay of its host begins."),
                )
            ),
        },
    }
