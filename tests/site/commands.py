"""Commands on a database that no crawl has open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawler.config import from_dict
from crawler.offline_control import execute_in_database
from crawler.operator_commands import OperatorCommand, Result, RetryFailed
from storage.location import url_of

if TYPE_CHECKING:
    from pathlib import Path


async def executed(db: Path, command: OperatorCommand[Result]) -> Result:
    result, _ = await execute_in_database(from_dict({"storage": {"url": url_of(str(db))}}), command)
    return result


async def retried(db: Path, code: str | None = None) -> int:
    return (await executed(db, RetryFailed(code=code))).retried
