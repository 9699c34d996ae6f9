"""Makes what a caller gets for a URL without a page: why it failed, or is blocked."""

from __future__ import annotations

from crawler.documents.crawled_page import CrawledPage, value_of
from crawler.documents.unvisited import BlockedPage, FailedPage, code_and_sentence
from crawler.frontier.commit_buffer import About
from storage.store import Blocked, Failed, Outcome


def unvisited_page(outcome: Outcome, about: About) -> FailedPage | BlockedPage | None:
    """None for an outcome that has a page, or is none yet."""
    source, verdict = about
    data = source.data if isinstance(source, CrawledPage) else value_of(source.data)
    if isinstance(outcome, Failed):
        code, sentence = code_and_sentence(outcome.error)
        return FailedPage(
            url=source.url,
            code=code,
            sentence=sentence,
            attempts=outcome.attempts,
            failed_at=outcome.last_at,
            data=data,
            referrer=source.referrer,
        )
    if isinstance(outcome, Blocked) and verdict is not None:
        return BlockedPage(
            url=source.url,
            verdict=verdict,
            blocked_at=outcome.blocked_at,
            data=data,
            referrer=source.referrer,
        )
    return None
