"""Commands of courtly in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from typing import Any


async def start(*arguments: str, stdout: int = PIPE, stderr: int = PIPE, **more: Any) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crawler.cli", *arguments),
        stdin=DEVNULL, stdout=stdout, stderr=stderr, **more,
    )  # fmt: skip


@contextlib.asynccontextmanager
async def running(*arguments: str, **more: Any) -> AsyncIterator[Process]:
    """A command that is killed at the end of the block."""
    process = await start(*arguments, **more)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
