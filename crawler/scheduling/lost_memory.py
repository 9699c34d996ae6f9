"""A crawl that lost something for lack of memory ends, rather than wait for it for ever."""

from __future__ import annotations

import asyncio
from typing import Any


async def until_memory_is_lost() -> None:
    """Raise MemoryError once a callback of the event loop failed with one.

    Nobody else notices: what the callback was to do, such as to wake a task, is lost, and the crawl
    would stand still, alive. Whoever manages the service starts a process that ended anew."""
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), MemoryError) and not lost.done():
            lost.set_exception(MemoryError("a callback of the event loop failed"))
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    loop.set_exception_handler(handle)
    try:
        await lost
    finally:
        loop.set_exception_handler(before)
