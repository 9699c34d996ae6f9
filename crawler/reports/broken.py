"""Broken links: URLs that failed, malformed links, and fragments without a target; and which pages
were not checked for these."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, Self

from crawler.reports.report_sections import GroupSection, Report, Section, count
from policies.scope import SKIP_WORDS
from storage.store import Row, Stats

_MALFORMED: Final = {**SKIP_WORDS, "scheme": "an unknown scheme that looks like a typo"}


class _BrokenUrl(GroupSection):
    query = "broken"
    keys = ("url",)
    columns = ("page", "kind", "anchor", "through")
    items_name = "links"

    @classmethod
    def of(cls, row: Row) -> Self:
        facts = {name: row[name] for name in ("url", "status", "error")}
        note = str(row["error"] or f"status {row['status']}")
        return cls(str(row["url"]), note, {"problem": "url", **facts})

    def add(self, row: Row) -> None:
        page, kind, anchor, through = (row[name] for name in ("source", "kind", "anchor", "via"))
        if page is None:
            self.note += "; no known page links to it"
            return
        self.add_row(page, "" if kind == "link" else kind, anchor, through)
        self.add_item({"page": page, "kind": kind, "anchor": anchor, "through": through})


class _MalformedLink(GroupSection):
    query = "malformed"
    keys = ("href", "reason")
    columns = ("page",)
    items_name = "links"
    title_is_link = False

    @classmethod
    def of(cls, row: Row) -> Self:
        href, reason = str(row["href"]), str(row["reason"])
        note = f"malformed: {_MALFORMED.get(reason, reason)}"
        return cls(href, note, {"problem": "malformed", "href": href, "reason": reason})

    def add(self, row: Row) -> None:
        self.add_row(row["source"])
        self.add_item({"page": row["source"]})


class _MissingFragment(GroupSection):
    query = "dangling"
    keys = ("url", "fragment")
    columns = ("page", "through")
    items_name = "links"

    @classmethod
    def of(cls, row: Row) -> Self:
        url, fragment = row["url"], row["fragment"]
        facts = {"problem": "fragment", "url": url, "fragment": fragment}
        return cls(f"{url}#{fragment}", "the page has no such element", facts)

    def add(self, row: Row) -> None:
        self.add_row(row["source"], row["via"])
        self.add_item({"page": row["source"], "through": row["via"]})


class BrokenLinks(Report):
    """Each broken link, with the pages that contain it."""

    name = "broken"
    title = "Broken links"
    section_types = (_BrokenUrl, _MalformedLink, _MissingFragment)
    _unchecked: Sequence[str] = ()

    async def sections(self) -> AsyncGenerator[Section, None]:
        async with aclosing(super().sections()) as sections:
            async for section in sections:
                yield section
        stats = await self.reader.stats()
        async with aclosing(self.reader.report("looked")) as rows:
            async for row in rows:
                pages = {name: int(float(str(row[name]))) for name in row}
                self._unchecked = [*_unvisited(stats), *_unchecked(pages)]

    def conclusion(self) -> str:
        return "\n".join([self.result, *self._unchecked])

    @property
    def result(self) -> str:
        """The result; known after the last section."""
        sentences = ["No broken links."]
        if urls := self.section_counts[_BrokenUrl]:
            times = count(self.item_counts[_BrokenUrl], "time", "times")
            sentences = [f"{count(urls, 'broken URL', 'broken URLs')}, linked to {times}."]
        if links := self.section_counts[_MalformedLink]:
            sentences.append(f"{count(links, 'link is', 'links are')} malformed.")
        if fragments := self.section_counts[_MissingFragment]:
            do = count(fragments, "fragment does", "fragments do")
            sentences.append(f"{do} not exist on the target page.")
        return " ".join(sentences)


def _unvisited(stats: Stats) -> list[str]:
    """A sentence for each kind of URL that was not requested."""
    sentences = []
    if stats.blocked:
        were = count(stats.blocked, "URL was", "URLs were")
        sentences.append(f"{were} not checked, as robots.txt disallows: courtly report robots")
    if stats.queued:
        urls = count(stats.queued, "URL is still queued", "URLs are still queued")
        sentences.append(f"{urls} and not checked yet.")
    return sentences


def _unchecked(pages: dict[str, int]) -> list[str]:
    """A sentence for each kind of check that was not made for some of the HTML pages."""
    sentences = []
    every = count(pages["pages"], "page", "pages")
    for name, words, key in (
        (
            "links",
            "Not all links were stored, and malformed links were not recorded",
            "[storage] links",
        ),
        ("pointers", "Fragments were not stored", "[storage] fragments"),
        ("requisites", "Images, styles and scripts were not fetched", "[scope] requisites"),
    ):
        missing = pages["pages"] - pages[name]
        if missing:
            of = f"{missing:,} of " if pages[name] else ""
            sentences.append(f"{words} for {of}{every}: set {key} = true.")
    unread = pages["pointers"] - pages["fragments"]
    if unread > 0:
        were = count(unread, "page was", "pages were")
        them = "it" if unread == 1 else "them"
        sentences.append(
            f"{were} not read to the end, so links to fragments in {them} were not checked."
        )
    return sentences
