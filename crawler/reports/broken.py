"""Broken links: URLs that failed, links that are malformed, fragments that point to nothing; and
where nobody looked for such."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from crawler.reports.base import Report, Section, count, together
from policies.scope import SKIP_WORDS
from storage.base import Reader, Row

_MALFORMED: Final = {
    **SKIP_WORDS,
    "scheme": "an unknown scheme that looks like a typo",
}


@dataclass(slots=True)
class _Found:
    """What a report has seen so far."""

    targets: int = 0
    links: int = 0
    malformed: int = 0
    fragments: int = 0
    unlooked: list[str] = field(default_factory=list)

    def conclusion(self) -> str:
        are = count(self.targets, "URL is", "URLs are")
        said = [
            f"{are} broken, linked {count(self.links, 'time', 'times')}."
            if self.targets
            else "No broken links."
        ]
        if self.malformed:
            are = count(self.malformed, "href is", "hrefs are")
            said.append(f"{are} malformed.")
        if self.fragments:
            point = count(self.fragments, "fragment points", "fragments point")
            said.append(f"{point} to nothing.")
        return "\n".join([" ".join(said), *self.unlooked])


def broken(reader: Reader) -> Report:
    """Each broken link, with the pages that link to it."""
    found = _Found()

    async def sections() -> AsyncGenerator[Section, None]:
        for some in (_urls(reader, found), _malformed(reader, found), _fragments(reader, found)):
            async with aclosing(some) as each:
                async for section in each:
                    yield section
        async with aclosing(reader.report("looked")) as rows:
            async for row in rows:
                found.unlooked = _unlooked({name: int(float(str(row[name]))) for name in row})

    return Report(
        name="broken", title="Broken links", sections=sections(), conclude=found.conclusion
    )


async def _grouped(
    reader: Reader,
    report: str,
    keys: Sequence[str],
    begin: Callable[[Row], Section],
    add: Callable[[Section, Row], None],
) -> AsyncGenerator[Section, None]:
    """A section for each group of a report's rows with equal `keys`: `begin` makes it from the
    first row, `add` adds each."""
    section: Section | None = None
    async with aclosing(reader.report(report)) as rows:
        async for row, begins in together(rows, keys):
            if section is None or begins:
                if section is not None:
                    yield section
                section = begin(row)
            add(section, row)
    if section is not None:
        yield section


def _urls(reader: Reader, found: _Found) -> AsyncGenerator[Section, None]:
    def begin(row: Row) -> Section:
        found.targets += 1
        return Section(
            title=str(row["url"]),
            note=str(row["error"] or f"status {row['status']}"),
            columns=("page", "kind", "anchor", "through"),
            facts={
                "problem": "url",
                "url": row["url"],
                "status": row["status"],
                "error": row["error"],
            },
            of="links",
        )

    def add(section: Section, row: Row) -> None:
        if row["source"] is None:
            section.note += "; no page is known to link to it"
            return
        found.links += 1
        page, kind = row["source"], row["kind"]
        section.add(page, "" if kind == "link" else kind, row["anchor"], row["via"])
        section.add_item(
            {"page": page, "kind": kind, "anchor": row["anchor"], "through": row["via"]}
        )

    return _grouped(reader, "broken", ["url"], begin, add)


def _malformed(reader: Reader, found: _Found) -> AsyncGenerator[Section, None]:
    def begin(row: Row) -> Section:
        found.malformed += 1
        return _malformed_section(row)

    def add(section: Section, row: Row) -> None:
        section.add(row["source"])
        section.add_item({"page": row["source"]})

    return _grouped(reader, "malformed", ["href", "reason"], begin, add)


def _malformed_section(row: Row) -> Section:
    href, reason = str(row["href"]), str(row["reason"])
    return Section(
        title=href,
        linked=False,
        note=f"malformed: {_MALFORMED.get(reason, reason)}",
        columns=("page",),
        facts={"problem": "malformed", "href": href, "reason": reason},
        of="links",
    )


def _fragments(reader: Reader, found: _Found) -> AsyncGenerator[Section, None]:
    def begin(row: Row) -> Section:
        found.fragments += 1
        return _fragment_section(row)

    def add(section: Section, row: Row) -> None:
        section.add(row["source"], row["via"])
        section.add_item({"page": row["source"], "through": row["via"]})

    return _grouped(reader, "dangling", ["url", "fragment"], begin, add)


def _fragment_section(row: Row) -> Section:
    return Section(
        title=f"{row['url']}#{row['fragment']}",
        note="the page has no such element",
        columns=("page", "through"),
        facts={"problem": "fragment", "url": row["url"], "fragment": row["fragment"]},
        of="links",
    )


def _unlooked(pages: dict[str, int]) -> list[str]:
    """What nobody looked for in some of the HTML pages, and how to have it looked for."""
    said = []
    every = count(pages["pages"], "page", "pages")
    for name, words, key in (
        ("links", "All links, and malformed ones, were not stored", "[storage] links"),
        ("pointers", "Fragments were not stored", "[storage] fragments"),
        ("requisites", "Images, styles and scripts were not fetched", "[scope] requisites"),
    ):
        missing = pages["pages"] - pages[name]
        if missing:
            of = f"{missing:,} of " if pages[name] else ""
            said.append(f"{words} for {of}{every}: set {key} = true.")
    unread = pages["pointers"] - pages["fragments"]
    if unread > 0:
        were = count(unread, "page was", "pages were")
        them = "it" if unread == 1 else "them"
        said.append(f"{were} not read to the end, so links to fragments in {them} are not judged.")
    return said
