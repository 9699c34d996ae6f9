"""What robots.txt forbade, and pages with the same body."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from crawler.config.units import format_bytes
from crawler.reports.base import Report, Section, count, together
from crawler.reports.broken import broken
from storage.base import Reader, Row

# How an error page that answers 200 is called, in the languages most pages are written in.
_ERROR_TITLE: Final = re.compile(
    r"\b404\b|not found|cannot be found|can.t be found|doesn.t exist|does not exist|no longer"
    r" (?:exists|available)|nicht gefunden|introuvable|no encontrad|non trovat|niet gevonden"
    r"|não encontrad|не найден|見つかりません|找不到",
    re.IGNORECASE,
)
# So many URLs with the body of a host's home page: what is missing there answers with it.
_HOME_COPIES_MIN: Final = 5


__all__ = ["broken", "duplicates", "robots"]


def robots(reader: Reader) -> Report:
    """What robots.txt forbade, by host and rule: URLs with anchors and referrers, which is all that
    is known of them."""
    rules, urls = 0, 0

    async def sections() -> AsyncGenerator[Section, None]:
        nonlocal rules, urls
        section: Section | None = None
        url: object = None
        links: list[dict[str, object]] = []  # to that URL
        async with aclosing(reader.report("forbidden")) as rows:
            keys = ["host", "robots_url", "line", "rule", "reason"]
            async for row, begins in together(rows, keys):
                if section is None or begins:
                    if section is not None:
                        yield section
                    rules += 1
                    section = _rule_section(row)
                if row["url"] != url:
                    urls += 1
                    url, links = row["url"], []
                    withdrawn = bool(row["withdrawn"])
                    section.add_item({"url": url, "withdrawn": withdrawn, "links": links})
                if section.add(url, row["anchor"], row["referrer"]) and row["referrer"]:
                    links.append({"anchor": row["anchor"], "referrer": row["referrer"]})
        if section is not None:
            yield section

    def conclude() -> str:
        if not urls:
            return "robots.txt forbade nothing that was met."
        return f"{count(urls, 'URL is', 'URLs are')} forbidden, by {count(rules, 'rule', 'rules')}."

    return Report(
        name="robots", title="What robots.txt forbade", sections=sections(), conclude=conclude
    )


def _rule_section(row: Row) -> Section:
    line = f", line {row['line']}" if row["line"] else ""
    redirects = "; these URLs redirect to what it forbids" if row["reason"] == "redirect" else ""
    return Section(
        title=f"{row['host']}: {row['rule'] or 'no rule: the state of the file'}",
        note=f"{row['robots_url']}{line}{redirects}",
        columns=("URL", "anchor", "referrer"),
        facts={name: row[name] for name in ("host", "robots_url", "line", "rule", "reason")},
        of="urls",
    )


@dataclass(slots=True)
class _Group:
    """Pages of one body, as far as they have been seen."""

    section: Section
    homes: int = 0  # home pages of hosts
    errors: int = 0  # whose title says that they are errors

    def add(self, row: Row) -> None:
        url, title, canonical_url = str(row["url"]), row["title"], row["canonical_url"]
        self.homes += url.endswith("/") and url.count("/") == 3
        self.errors += bool(_ERROR_TITLE.search(str(title or "")))
        self.section.add(url, title, canonical_url)
        self.section.add_item({"url": url, "title": title, "canonical_url": canonical_url})

    def judged(self) -> tuple[Section, bool]:
        """When all have been seen: and whether they look like errors."""
        section, why = self.section, ""
        if self.errors:
            why = "by its title an error page, answered with 200"
        elif self.homes == 1 and section.items_total > _HOME_COPIES_MIN:
            why = "the home page, given for URLs that it is not"
        section.facts |= {"soft_404": bool(why), "why": why or None}
        pages = count(section.items_total, "page", "pages")
        section.note = f"{pages} of {section.note}{'; ' if why else ''}{why}"
        return section, bool(why)


def duplicates(reader: Reader) -> Report:
    """Pages whose bodies are identical, and which of them look like errors answered with 200."""
    groups, pages, soft = 0, 0, 0

    async def sections() -> AsyncGenerator[Section, None]:
        nonlocal groups, pages, soft
        group: _Group | None = None
        async with aclosing(reader.report("duplicates")) as rows:
            async for row, begins in together(rows, ["body_hash"]):
                if group is None or begins:
                    if group is not None:
                        section, is_soft = group.judged()
                        soft += is_soft
                        yield section
                    groups += 1
                    group = _Group(_body_section(row))
                pages += 1
                group.add(row)
        if group is not None:
            section, is_soft = group.judged()
            soft += is_soft
            yield section

    def conclude() -> str:
        if not groups:
            return "No two pages have the same body."
        said = f"{count(pages, 'page', 'pages')} in {count(groups, 'group', 'groups')}"
        looks = count(soft, "group looks", "groups look")
        more = f"; {looks} like errors answered with 200" if soft else ""
        return f"{said} of identical bodies{more}."

    return Report(
        name="duplicates", title="Identical pages", sections=sections(), conclude=conclude
    )


def _body_section(row: Row) -> Section:
    return Section(
        title=str(row["title"] or row["content_type"] or "no title"),
        note=format_bytes(float(str(row["body_bytes"]))),
        columns=("URL", "title", "canonical URL"),
        facts={"body_hash": row["body_hash"], "body_bytes": row["body_bytes"]},
        of="pages",
    )
