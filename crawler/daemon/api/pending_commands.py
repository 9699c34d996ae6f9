"""Commands that an unavailable database delays."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from crawler.daemon.problem import Problem
from crawler.steering.control import Control
from crawler.steering.live_state import CrawlState

COMMAND_WAIT_S = 5.0  # for an unavailable database, before the request is answered
_LATER: Final = (
    "the command is kept and runs when the database is available again, unless the crawl ends "
    "first; do not repeat it"
)
_T = TypeVar("_T")


async def in_time(control: Control, command: Coroutine[Any, Any, _T]) -> _T:
    """The result of a command. Raises Problem where the database delays it: the command stays
    pending then, and runs when the database is available again."""
    doing = asyncio.ensure_future(command)
    try:
        while not (await asyncio.wait({doing}, timeout=COMMAND_WAIT_S))[0]:
            trouble = control.store_trouble
            if trouble is not None and control.state is not CrawlState.STOPPING:
                raise Problem(503, f"{trouble.sentence}; {_LATER}")
        return doing.result()
    finally:
        doing.cancel()  # this only waits for the command, which is a task of the crawl
