"""`per = "ip"`: hosts behind one address share its clock, for robots.txt too."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from crawler.testing import LocalWeb, html, text

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

HOSTS = ("a.test", "b.test", "c.test")


@pytest.mark.parametrize("crawl_delay_s", [None, 0.3])
async def test_hosts_behind_one_address_take_turns(
    courtly: Courtly, crawl_delay_s: float | None
) -> None:
    """According to its help page, Slurp applied Crawl-delay per address."""
    site = {"/": html("Home", "/1", "/2"), "/1": html("1"), "/2": html("2")}
    if crawl_delay_s:
        site["/robots.txt"] = text(f"User-agent: *\nCrawl-delay: {crawl_delay_s}\n")
    async with LocalWeb(dict.fromkeys(HOSTS, site)) as web:
        summary = await courtly.crawl(
            web, *HOSTS, politeness={"per": "ip", "ip_delay": 0.1, "delay": 0, "latency_factor": 0}
        )
        assert summary.visited == 9
        assert web.log.peak_concurrency() == 1
        contacts = sorted((entry.start_s, entry.end_s) for entry in web.log)
        gaps = [after[0] - before[1] for before, after in itertools.pairwise(contacts)]
        assert len(gaps) == 11
        assert min(gaps[3:]) >= (crawl_delay_s or 0.1)  # the first three: robots.txt of each
        assert min(gaps) >= 0.1
