"""The progress of a crawl, which ends when there is none for its patience."""

from __future__ import annotations

from crawler.frontier.host_queue import HostQueue
from storage.store import Outcome, Retry, Revisited, SitemapRead


def progresses(outcome: Outcome, host: HostQueue | None) -> bool:
    """Whether a URL is finished, or was tried for the first time at a host that did not just fail.

    Another failure, of the same URL or the next one, is not progress: it must not keep a crawl from
    ending. Nor is a sitemap, which is read again each day; the pages that it lists are.
    """
    if isinstance(outcome, Retry):
        if host is None:
            return outcome.attempts + outcome.refusals <= 1
        host.failed_in_row += 1
        return host.failed_in_row == 1 and outcome.attempts + outcome.refusals <= 1
    if isinstance(outcome, Revisited) and outcome.plan and outcome.plan.failures:
        return False
    if host is not None:
        host.failed_in_row = 0
    return not isinstance(outcome, SitemapRead)
