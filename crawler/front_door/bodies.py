"""The bodies of requests, bounded in size and time."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

BODY_S: Final = 30.0
PATH: Final = "/robots.txt"
BODY: Final = b"User-agent: *\nDisallow: /\n"
CONTENT_TYPE: Final = "text/plain"


class BodyTooSlowError(Exception):
    """The body did not arrive within BODY_S."""

    def __init__(self) -> None:
        super().__init__(f"the body did not arrive within {BODY_S:.0f} s")


async def body_of(request: web.Request) -> bytes:
    """The body. Raises BodyTooSlowError, so that slow clients cannot occupy memory forever,
    HTTPRequestEntityTooLarge if it is larger than the application permits, and the errors of a body
    that is not valid HTTP (`CLIENT_ERRORS`)."""
    try:
        async with asyncio.timeout(BODY_S):
            return await request.read()
    except TimeoutError:
        raise BodyTooSlowError from None
