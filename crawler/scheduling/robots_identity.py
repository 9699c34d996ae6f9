"""The product token and dialects with which a crawl reads robots.txt, stored in its session's
name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from crawler.config import Config
from storage.reader import Reader

_SESSION = re.compile(r"crawl as (\S+) in (\S+)")


def session_name(config: Config) -> str:
    return f"crawl as {','.join(config.token(''))} in {','.join(config.robots.dialect)}"


async def reading(reader: Reader) -> dict[str, list[str]] | None:
    """The `[robots]` keys by which the latest crawl read robots.txt; None if none is remembered."""
    if found := _latest(await reader.sessions()):
        return {"token": found[1].split(","), "dialect": found[2].split(",")}
    return None


async def reads_otherwise(reader: Reader, config: Config) -> bool:
    """Return whether the crawl before the open session read robots.txt differently."""
    found = _latest((await reader.sessions())[1:])
    return found is not None and found[0] != session_name(config)


def _latest(names: Sequence[str]) -> re.Match[str] | None:
    return next((found for name in names if (found := _SESSION.fullmatch(name))), None)
