"""The parts of a report: sections that are read one after the other, each of bounded size."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar, Final, Self

from storage.reader import Reader
from storage.store import Row

# Per section: a link in the footer of every page has as many sources as there are pages.
ROWS_MAX: Final = 100


class Section:
    """One finding: a title, a note and a table of `rows` for people; for programs `facts` and, in
    a list called `items_name`, `items`. Beyond ROWS_MAX both are only counted."""

    columns: ClassVar[tuple[str, ...]] = ()
    items_name: ClassVar[str] = "items"
    title_is_link: ClassVar[bool] = True  # if the title is a URL

    def __init__(self, title: str, note: str = "", facts: dict[str, object] | None = None) -> None:
        self.title = title
        self.note = note
        self.facts = facts or {}
        self.rows: list[tuple[str, ...]] = []
        self.more = 0  # rows beyond ROWS_MAX
        self.items: list[dict[str, object]] = []
        self.items_total = 0

    def add_row(self, *cells: object) -> bool:
        """Add a row. Return False if it is beyond ROWS_MAX and was only counted."""
        if len(self.rows) >= ROWS_MAX:
            self.more += 1
            return False
        self.rows.append(tuple("" if cell is None else str(cell) for cell in cells))
        return True

    def add_item(self, item: dict[str, object]) -> None:
        self.items_total += 1
        if len(self.items) < ROWS_MAX:
            self.items.append(item)

    @property
    def filled_columns(self) -> list[int]:
        """The indices of the columns that are not empty in every row."""
        return [n for n in range(len(self.columns)) if any(row[n] for row in self.rows)]

    @property
    def data(self) -> dict[str, object]:
        name = self.items_name
        return {**self.facts, name: self.items, f"{name}_total": self.items_total}


class GroupSection(Section):
    """A section made of consecutive rows of the query `query` that have equal values of `keys`."""

    query: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, row: Row) -> Self:
        """The section that begins with `row`, which is passed to `add` as well."""
        raise NotImplementedError

    def add(self, row: Row) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Finish the section after the last row."""


class Report:
    """A report on a database. Its conclusion is available after the last section."""

    name: ClassVar[str]
    title: ClassVar[str]
    section_types: ClassVar[tuple[type[GroupSection], ...]] = ()
    politeness_violated = False

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.section_counts = Counter[type[GroupSection]]()
        self.item_counts = Counter[type[GroupSection]]()

    async def sections(self) -> AsyncGenerator[Section, None]:
        """The sections of each type in turn, each when its last row has been read."""
        for section_type in self.section_types:
            section: GroupSection | None = None
            last: tuple[object, ...] = ()
            async with aclosing(self.reader.report(section_type.query)) as rows:
                async for row in rows:
                    key = tuple(row[name] for name in section_type.keys)
                    if section is None or key != last:
                        if section is not None:
                            yield self.finished(section)
                        section, last = section_type.of(row), key
                    section.add(row)
            if section is not None:
                yield self.finished(section)

    def finished(self, section: GroupSection) -> GroupSection:
        """Finish and count a section."""
        section.finish()
        self.section_counts[type(section)] += 1
        self.item_counts[type(section)] += section.items_total
        return section

    @property
    def found_anything(self) -> bool:
        """Whether there were sections; after the last one."""
        return any(self.section_counts.values())

    def conclusion(self) -> str:
        raise NotImplementedError


def count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}"
