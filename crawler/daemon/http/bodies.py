"""JSON in requests and responses."""

from __future__ import annotations

import json
from typing import Final

import msgspec
from aiohttp import hdrs, web
from multidict import MultiDict

from crawler.daemon.problem import Problem
from crawler.explain.formatting import json_printable
from crawler.front_door.bodies import BodyTooSlowError, body_of

JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"


async def json_body(request: web.Request) -> bytes:
    """The body, if its type is JSON, which a form of another site cannot send. Programs may omit
    the type; browsers, which send an Origin, may not."""
    raw = await _body_of(request)
    headers = (hdrs.CONTENT_TYPE, hdrs.ORIGIN, "Sec-Fetch-Site")
    untyped = not any(name in request.headers for name in headers)
    if raw and request.content_type != JSON_TYPE and not untyped:
        raise Problem(415, f"the body must be {JSON_TYPE}", field="Content-Type")
    return raw


async def _body_of(request: web.Request) -> bytes:
    try:
        return await body_of(request)
    except BodyTooSlowError as error:
        raise Problem(408, str(error), field="body") from None


async def form_fields(request: web.Request) -> MultiDict[str]:
    """The text fields of a form. Raises Problem if it cannot be read."""
    if request.content_type != FORM_TYPE and request.can_read_body:
        raise Problem(415, f"the form must be {FORM_TYPE}", field="Content-Type")
    try:
        await _body_of(request)  # kept, and used by `post`
        posted = await request.post()
    except (LookupError, ValueError):  # an unknown charset; bytes that are not of it
        raise Problem(400, "the form cannot be read", field="body") from None
    return MultiDict((key, value) for key, value in posted.items() if isinstance(value, str))


def as_json(value: object, *, status: int = 200, content_type: str = JSON_TYPE) -> web.Response:
    text = json.dumps(
        msgspec.to_builtins(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    body = json_printable(text).encode()  # it escapes lone surrogates
    return web.Response(body=body, status=status, content_type=content_type, charset="utf-8")
