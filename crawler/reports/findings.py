"""The reports on URLs that robots.txt disallowed, and on pages with identical bodies."""

from __future__ import annotations

import re
from typing import Final, Self

from crawler.config.units import format_bytes
from crawler.reports.report_sections import GroupSection, Report, count
from storage.store import Row

# Titles of error pages that answer 200, in the languages most pages are written in.
_ERROR_TITLE: Final = re.compile(
    r"\b404\b|not found|cannot be found|can.t be found|doesn.t exist|does not exist|no longer"
    r" (?:exists|available)|nicht gefunden|introuvable|no encontrad|non trovat|niet gevonden"
    r"|não encontrad|не найден|見つかりません|找不到",
    re.IGNORECASE,
)
# If the body of a host's home page is returned for more URLs than this, missing pages return it.
_HOME_COPIES_MIN: Final = 5


class _RuleSection(GroupSection):
    query = "forbidden"
    keys = ("host", "robots_url", "line", "rule", "reason")
    columns = ("URL", "anchor", "referrer")
    items_name = "urls"
    _url: object = None
    _links: list[dict[str, object]]  # to that URL

    @classmethod
    def of(cls, row: Row) -> Self:
        line = f", line {row['line']}" if row["line"] else ""
        redirects = (
            "; these URLs redirect to disallowed ones" if row["reason"] == "redirect" else ""
        )
        return cls(
            f"{row['host']}: {row['rule'] or 'no rule: the state of the file'}",
            f"{row['robots_url']}{line}{redirects}",
            {name: row[name] for name in cls.keys},
        )

    def add(self, row: Row) -> None:
        if row["url"] != self._url:
            self._url, self._links = row["url"], []
            withdrawn = bool(row["withdrawn"])
            self.add_item({"url": self._url, "withdrawn": withdrawn, "links": self._links})
        if self.add_row(self._url, row["anchor"], row["referrer"]) and row["referrer"]:
            self._links.append({"anchor": row["anchor"], "referrer": row["referrer"]})


class Disallowed(Report):
    """The URLs that robots.txt disallowed, by host and rule, with anchors and referrers, which is
    all that is known of them."""

    name = "robots"
    title = "URLs disallowed by robots.txt"
    section_types = (_RuleSection,)

    def conclusion(self) -> str:
        if not self.item_counts[_RuleSection]:
            return "robots.txt disallowed no known URL."
        urls = count(self.item_counts[_RuleSection], "URL is", "URLs are")
        return f"{urls} disallowed, by {count(self.section_counts[_RuleSection], 'rule', 'rules')}."


class _IdenticalPages(GroupSection):
    query = "duplicates"
    keys = ("body_hash",)
    columns = ("URL", "title", "canonical URL")
    items_name = "pages"
    _homes = 0  # home pages of hosts
    _errors = 0  # pages with the title of an error page

    @classmethod
    def of(cls, row: Row) -> Self:
        return cls(
            str(row["title"] or row["content_type"] or "no title"),
            format_bytes(float(str(row["body_bytes"]))),
            {"body_hash": row["body_hash"], "body_bytes": row["body_bytes"]},
        )

    def add(self, row: Row) -> None:
        url, title, canonical_url = str(row["url"]), row["title"], row["canonical_url"]
        self._homes += url.endswith("/") and url.count("/") == 3
        self._errors += bool(_ERROR_TITLE.search(str(title or "")))
        self.add_row(url, title, canonical_url)
        self.add_item({"url": url, "title": title, "canonical_url": canonical_url})

    def finish(self) -> None:
        why = ""
        if self._errors:
            why = "an error page, judging by its title, returned with status 200"
        elif self._homes == 1 and self.items_total > _HOME_COPIES_MIN:
            why = "the home page, returned for other URLs"
        self.facts |= {"soft_404": bool(why), "why": why or None}
        pages = count(self.items_total, "page", "pages")
        self.note = f"{pages} of {self.note}{'; ' if why else ''}{why}"


class Duplicates(Report):
    """Pages with identical bodies, and which of them look like errors with status 200."""

    name = "duplicates"
    title = "Identical pages"
    section_types = (_IdenticalPages,)
    _soft = 0

    def finished(self, section: GroupSection) -> GroupSection:
        super().finished(section)
        self._soft += bool(section.facts["soft_404"])
        return section

    def conclusion(self) -> str:
        if not self.section_counts[_IdenticalPages]:
            return "No two pages have the same body."
        pages = count(self.item_counts[_IdenticalPages], "page", "pages")
        groups = count(self.section_counts[_IdenticalPages], "group", "groups")
        soft = count(self._soft, "group looks", "groups look")
        errors = f"; {soft} like errors with status 200" if self._soft else ""
        return f"{pages} in {groups} of identical bodies{errors}."
