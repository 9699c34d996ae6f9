"""Broken links, what robots.txt forbade, and pages with the same body."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from crawler.config.units import say_bytes
from crawler.reports.base import ROWS_MAX, Report, Section, count, together
from storage.base import Reader

# How an error page that answers 200 is called, in the languages most pages are written in.
_ERROR_TITLE: Final = re.compile(
    r"\b404\b|not found|cannot be found|can.t be found|doesn.t exist|does not exist|no longer"
    r" (?:exists|available)|nicht gefunden|introuvable|no encontrad|non trovat|niet gevonden"
    r"|não encontrad|не найден|見つかりません|找不到",
    re.IGNORECASE,
)
# So many URLs with the body of a host's home page: what is missing there answers with it.
_HOME_COPIES_MIN: Final = 5


def broken(reader: Reader) -> Report:
    """Each broken link, with the pages that link to it."""
    found = {"targets": 0, "links": 0}

    async def sections() -> AsyncGenerator[Section, None]:
        section: Section | None = None
        async with aclosing(reader.report("broken")) as rows:
            async for row, begins in together(rows, ["url"]):
                if begins:
                    if section is not None:
                        yield section
                    why = row["error"] or f"status {row['status']}"
                    section = Section(
                        title=str(row["url"]),
                        note=str(why),
                        columns=("page", "anchor", "through"),
                        data={
                            "url": row["url"], "status": row["status"], "error": row["error"],
                            "links": [], "links_total": 0,
                        },
                    )  # fmt: skip
                    found["targets"] += 1
                assert section is not None
                if row["source"] is None:
                    section.note += "; no page is known to link to it"
                    continue
                found["links"] += 1
                links, total = section.data["links"], section.data["links_total"]
                assert isinstance(links, list)
                assert isinstance(total, int)
                section.data["links_total"] = total + 1
                if section.add(row["source"], row["anchor"], row["via"]):
                    links.append(
                        {"page": row["source"], "anchor": row["anchor"], "through": row["via"]}
                    )
        if section is not None:
            yield section

    def conclude() -> str:
        if not found["targets"]:
            return "No broken links."
        targets = count(found["targets"], "URL is", "URLs are")
        return f"{targets} broken, linked {count(found['links'], 'time', 'times')}."

    return Report(name="broken", title="Broken links", sections=sections(), conclude=conclude)


def robots(reader: Reader) -> Report:
    """What robots.txt forbade, by host and rule: URLs with anchors and referrers, which is all that
    is known of them."""
    found = {"rules": 0, "urls": 0}

    async def sections() -> AsyncGenerator[Section, None]:
        section: Section | None = None
        last: object = None
        async with aclosing(reader.report("forbidden")) as rows:
            keys = ["host", "robots_url", "line", "rule", "reason"]
            async for row, begins in together(rows, keys):
                if begins:
                    if section is not None:
                        yield section
                    section = _rule_section(row)
                    found["rules"] += 1
                assert section is not None
                known = section.data["urls"]
                assert isinstance(known, list)
                if row["url"] != last:
                    last = row["url"]
                    found["urls"] += 1
                    total = section.data["urls_total"]
                    assert isinstance(total, int)
                    section.data["urls_total"] = total + 1
                    if len(known) < ROWS_MAX:
                        known.append(
                            {"url": last, "withdrawn": bool(row["withdrawn"]), "links": []}
                        )
                if section.add(row["url"], row["anchor"], row["referrer"]) and row["referrer"]:
                    known[-1]["links"].append(
                        {"anchor": row["anchor"], "referrer": row["referrer"]}
                    )
        if section is not None:
            yield section

    def conclude() -> str:
        if not found["urls"]:
            return "robots.txt forbade nothing that was met."
        urls = count(found["urls"], "URL is", "URLs are")
        return f"{urls} forbidden, by {count(found['rules'], 'rule', 'rules')}."

    return Report(
        name="robots", title="What robots.txt forbade", sections=sections(), conclude=conclude
    )


def _rule_section(row: object) -> Section:
    assert hasattr(row, "__getitem__")
    rule = row["rule"] or "no rule: the state of the file"
    line = f", line {row['line']}" if row["line"] else ""
    note = f"{row['robots_url']}{line}"
    if row["reason"] == "redirect":
        note += "; these URLs redirect to what it forbids"
    return Section(
        title=f"{row['host']}: {rule}",
        note=note,
        columns=("URL", "anchor", "referrer"),
        data={
            "host": row["host"], "robots_url": row["robots_url"], "line": row["line"],
            "rule": row["rule"], "reason": row["reason"], "urls": [], "urls_total": 0,
        },
    )  # fmt: skip


def duplicates(reader: Reader) -> Report:
    """Pages whose bodies are identical, and which of them look like errors answered with 200."""
    found = {"groups": 0, "pages": 0, "soft": 0}

    async def sections() -> AsyncGenerator[Section, None]:
        section: Section | None = None
        async with aclosing(reader.report("duplicates")) as rows:
            async for row, begins in together(rows, ["body_hash"]):
                if begins:
                    if section is not None:
                        yield _judged(section, found)
                    section = Section(
                        title=str(row["title"] or row["content_type"] or "no title"),
                        note=say_bytes(float(str(row["body_bytes"]))),
                        columns=("URL", "title", "canonical URL"),
                        data={
                            "body_hash": row["body_hash"], "body_bytes": row["body_bytes"],
                            "pages": [], "pages_total": 0, "homes": 0, "errors": 0,
                        },
                    )  # fmt: skip
                assert section is not None
                _count_page(section, row)
        if section is not None:
            yield _judged(section, found)

    def conclude() -> str:
        if not found["groups"]:
            return "No two pages have the same body."
        pages = count(found["pages"], "page", "pages")
        groups = count(found["groups"], "group", "groups")
        soft = (
            f"; {count(found['soft'], 'group looks', 'groups look')} like errors answered with 200"
        )
        return f"{pages} in {groups} of identical bodies{soft if found['soft'] else ''}."

    return Report(
        name="duplicates", title="Identical pages", sections=sections(), conclude=conclude
    )


def _count_page(section: Section, row: object) -> None:
    assert hasattr(row, "__getitem__")
    data = section.data
    url, title = str(row["url"]), str(row["title"] or "")
    pages, total, homes, errors = data["pages"], data["pages_total"], data["homes"], data["errors"]
    assert isinstance(pages, list)
    assert isinstance(total, int)
    assert isinstance(homes, int)
    assert isinstance(errors, int)
    data["pages_total"] = total + 1
    data["homes"] = homes + (url.endswith("/") and url.count("/") == 3)
    data["errors"] = errors + bool(_ERROR_TITLE.search(title))
    if section.add(url, row["title"], row["canonical_url"]):
        pages.append({"url": url, "title": row["title"], "canonical_url": row["canonical_url"]})


def _judged(section: Section, found: dict[str, int]) -> Section:
    """A group, when all of it has been seen."""
    total, homes = section.data["pages_total"], section.data.pop("homes")
    errors = section.data.pop("errors")
    assert isinstance(total, int)
    assert isinstance(homes, int)
    assert isinstance(errors, int)
    why = ""
    if errors:
        why = "by its title an error page, answered with 200"
    elif homes == 1 and total > _HOME_COPIES_MIN:
        why = "the home page, given for URLs that it is not"
    section.data["soft_404"] = bool(why)
    section.data["why"] = why or None
    section.note = f"{count(total, 'page', 'pages')} of {section.note}{'; ' if why else ''}{why}"
    found["groups"] += 1
    found["pages"] += total
    found["soft"] += bool(why)
    return section
