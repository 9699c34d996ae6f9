"""Reports: bounded sections, soft 404s, contacts during a Retry-After."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from crawler.reports.broken import BrokenLinks
from crawler.reports.findings import Duplicates
from crawler.reports.politeness_audit import contacts_inside_backoff
from crawler.reports.report_sections import ROWS_MAX
from storage.store import Row, Stats


class Rows:
    """Stands in for a reader: returns given rows for one report."""

    def __init__(self, rows: list[Row], of: str) -> None:
        self._rows = rows
        self._of = of

    async def report(self, kind: str) -> AsyncGenerator[Row, None]:
        for row in self._rows if kind == self._of else ():
            yield row

    async def stats(self) -> Stats:
        return Stats(visited=0, blocked=0, failed=0, queued=0, hosts=0, body_bytes=0)

    async def iterate(self, _: str) -> AsyncGenerator[Row, None]:
        for row in ():
            yield row


async def test_a_section_is_bounded() -> None:
    link = {"url": "http://a.test/x", "status": 404, "error": None, "via": None, "anchor": "x"}
    link["kind"] = "link"
    rows: list[Row] = [{**link, "source": f"http://a.test/{n}"} for n in range(1_000)]
    made = BrokenLinks(Rows(rows, "broken"))  # type: ignore[arg-type]
    (section,) = [one async for one in made.sections()]
    assert (len(section.rows), section.more) == (ROWS_MAX, 1_000 - ROWS_MAX)
    assert section.data["links_total"] == 1_000
    assert made.conclusion() == "1 broken URL, linked to 1,000 times."


def page(url: str, title: str | None, digits: str = "00") -> Row:
    return {
        "body_hash": digits, "url": url, "status": 200, "body_bytes": 9, "content_type": None,
        "title": title, "canonical_url": None,
    }  # fmt: skip


async def test_soft_404s_are_recognized_by_title_or_home_page() -> None:
    home = [page(f"http://a.test/{path}", "Shop", "02") for path in ("", *"abcde")]
    rows = [
        page("http://a.test/1", "Seite nicht gefunden", "01"),
        page("http://a.test/2", "Seite nicht gefunden", "01"),
        *home,
        *[page(f"http://a.test/s{n}", "Same", "03") for n in range(2)],
    ]
    made = Duplicates(Rows(rows, "duplicates"))  # type: ignore[arg-type]
    sections = [one async for one in made.sections()]
    assert [one.data["soft_404"] for one in sections] == [True, True, False]
    assert made.conclusion() == (
        "10 pages in 3 groups of identical bodies; 2 groups look like errors with status 200."
    )


def test_contacts_inside_a_retry_after() -> None:
    def contact(start: float, status: int) -> Row:
        return {"start_at": start, "end_at": start + 1, "kind": "page", "status": status}

    refused = [contact(0, 200), contact(10, 429)]
    assert contacts_inside_backoff(refused, 100.0) == 0
    assert contacts_inside_backoff([*refused, contact(50, 200), contact(101, 200)], 100.0) == 1
    assert contacts_inside_backoff([contact(0, 200), contact(50, 200)], 100.0) == 0, (
        "nobody refused"
    )
    assert contacts_inside_backoff([*refused, contact(50, 200)], None) == 0
