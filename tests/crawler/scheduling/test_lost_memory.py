"""A callback that failed for lack of memory ends the crawl; any other does not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crawler.scheduling.task_set import until_memory_is_lost


def failing(error: BaseException) -> None:
    raise error


async def test_a_callback_without_memory_ends_it() -> None:
    seen: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: seen.append(context))
    watching = asyncio.create_task(until_memory_is_lost())
    await asyncio.sleep(0)
    loop.call_soon(failing, ValueError("odd"))
    await asyncio.sleep(0.01)
    assert not watching.done()
    loop.call_soon(failing, MemoryError())
    with pytest.raises(MemoryError):
        await watching
    assert [type(one["exception"]) for one in seen] == [ValueError, MemoryError]
    loop.call_soon(failing, MemoryError())  # the handler is as it was
    await asyncio.sleep(0.01)
    assert len(seen) == 3


async def test_cancelled_it_leaves_nothing() -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    watching = asyncio.create_task(until_memory_is_lost())
    await asyncio.sleep(0)
    assert loop.get_exception_handler() is not before
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert loop.get_exception_handler() is before
