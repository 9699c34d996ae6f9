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
    """One finding: a heading, a sentence about it, and a table; for programs `facts` and, under the
    name `of`, `items`, of which there are `items_total`."""

    title: str
    linked: bool = True  # a title that is a URL can be followed
    note: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    more: int = 0  # rows beyond those
    facts: dict[str, object] = field(default_factory=dict)
    of: str = "items"
    items: list[dict[str, object]] = field(default_factory=list)
    items_total: int = 0

    def add(self, *cells: object) -> bool:
        """A row, if there is room; False: it is only counted."""
        if len(self.rows) >= ROWS_MAX:
            self.more += 1
            return False
        self.rows.append(tuple("" if cell is None else str(cell) for cell in cells))
        return True

    def add_item(self, item: dict[str, object]) -> None:
        """One more for programs; beyond ROWS_MAX it is only counted."""
        self.items_total += 1
        if len(self.items) < ROWS_MAX:
            self.items.append(item)

    @property
    def filled(self) -> list[int]:
        """The columns in which any row says something."""
        return [n for n in range(len(self.columns)) if any(row[n] for row in self.rows)]

    @property
    def data(self) -> dict[str, object]:
        return {**self.facts, self.of: self.items, f"{self.of}_total": self.items_total}


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
