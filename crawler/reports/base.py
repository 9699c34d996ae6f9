"""What a report is made of: sections, one after the other, each small enough to hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from storage.base import Row

# Of one section; a link in every page's foot has a million sources that say the same.
ROWS_MAX: Final = 100


@dataclass(slots=True, kw_only=True)
class Section:
    """One finding: a heading, a sentence about it, and a table. `data`: the same for programs."""

    title: str
    note: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    more: int = 0  # rows beyond those
    data: dict[str, object] = field(default_factory=dict)

    def add(self, *cells: object) -> bool:
        """A row, if there is room; False: it is only counted."""
        if len(self.rows) >= ROWS_MAX:
            self.more += 1
            return False
        self.rows.append(tuple("" if cell is None else str(cell) for cell in cells))
        return True


@dataclass(slots=True, kw_only=True)
class Report:
    """`sections` end before `conclusion` is asked for. broken_law: something is there that must
    not be."""

    name: str
    title: str
    sections: AsyncGenerator[Section, None]
    conclude: Callable[[], str]
    broken_law: Callable[[], bool] = lambda: False


async def together(
    rows: AsyncIterator[Row], keys: Sequence[str]
) -> AsyncGenerator[tuple[Row, bool], None]:
    """Each row, and whether it begins a new group: rows of equal `keys` come together."""
    last: tuple[object, ...] | None = None
    async for row in rows:
        key = tuple(row[name] for name in keys)
        yield row, key != last
        last = key


def count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
