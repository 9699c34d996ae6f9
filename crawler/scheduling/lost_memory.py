"""Ends a crawl that lost a callback for lack of memory, instead of letting it hang."""

from __future__ import annotations

import asyncio
from typing import Any


async def until_memory_is_lost() -> None:
    """Raise MemoryError once an event-loop callback ran out of memory with one.

    Nothing else detects this: the callback's work, such as waking a task, is lost, and the crawl
    would hang. A process that ends is restarted by its service manager."""
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), MemoryError) and not lost.done():
            lost.set_exception(MemoryError("an event-loop callback ran out of memory"))
        if before is None:
            loop.default_exception_handler(context)
        else:
            before(loop, context)

    loop.set_exception_handler(handle)
    try:
        await lost
    finally:
        loop.set_exception_handler(before)
