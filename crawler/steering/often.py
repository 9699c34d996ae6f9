"""What kept a crawl from its URLs most often, counted from the views, with one example each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from crawler.events import LOOKED_AT_MAX, Often
from storage.store import Reader, Row

SHOWN = 5


async def errors(reader: Reader) -> tuple[Often, ...]:
    """The most frequent errors of `failed`."""
    return await _most_often(reader, "failed", lambda row: (str(row["error"]), ""))


async def rules(reader: Reader) -> tuple[Often, ...]:
    """The rules that keep most URLs out; a URL blocked without a rule counts for its reason."""

    def rule(row: Row) -> tuple[str, str]:
        return str(row["rule"] or row["reason"]), str(row["robots_url"])

    return await _most_often(reader, "blocked", rule)


async def _most_often(
    reader: Reader, view: str, group: Callable[[Row], tuple[str, str]]
) -> tuple[Often, ...]:
    counts: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], str] = {}
    async with aclosing(reader.iterate(view, limit=LOOKED_AT_MAX)) as rows:
        async for row in rows:
            key = group(row)
            if key not in counts:
                examples[key] = str(row["url"])
            counts[key] = counts.get(key, 0) + 1
    first = sorted(counts, key=lambda key: -counts[key])[:SHOWN]  # stable: the first met goes first
    return tuple(
        Often(words=key[0], where=key[1], count=counts[key], example=examples[key]) for key in first
    )
