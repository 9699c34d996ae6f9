"""`links=` of a Crawler: a function or patterns that filter and annotate the links of pages."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yarl import URL

from crawler.config import ConfigError
from crawler.documents.crawled_page import CrawledPage
from crawler.documents.links import PageLink
from crawler.embedding.url_data import checked_priority, encoded
from crawler.errors import InvalidURL
from crawler.processing.link_filter import ChosenLink
from crawler.threads import in_thread, result_or_error
from policies.url import canonical

if TYPE_CHECKING:
    from crawler.sinks.dispatch import SinkFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowLink:
    """How to follow a link.

    url: in place of the link's own, absolute or relative to the page.
    priority: URLs of a larger one are requested first, within their host.
    data: a JSON value, stored with the URL if it is new: `page.data`.
    """

    url: str | URL | None = None
    priority: float = 0.0
    data: Any = None


LinkAnswer = FollowLink | bool | None
LinkFunction = Callable[[CrawledPage, PageLink], LinkAnswer | Awaitable[LinkAnswer]]
LinkPatterns = Mapping[str, str | Sequence[str]]
Links = LinkFunction | LinkPatterns


class LinkChooser:
    """A `LinkFilter` that asks a function of the program, about one page at a time, in a thread if
    it is not async."""

    def __init__(self, call: LinkFunction) -> None:
        self._call = call
        self._lock = asyncio.Lock()

    async def choose(
        self, page: CrawledPage, links: Sequence[PageLink]
    ) -> Sequence[ChosenLink | None]:
        """Raises what the function raises, InvalidURL, InvalidRequest and TypeError."""
        async with self._lock:
            if inspect.iscoroutinefunction(self._call):
                answers = [await self._call(page, link) for link in links]
            else:
                given = await in_thread(result_or_error, _answers, self._call, page, links)
                if isinstance(given, Exception):
                    raise given
                answers = [await one if inspect.isawaitable(one) else one for one in given]
        return [_chosen(page, link, answer) for link, answer in zip(links, answers, strict=True)]


class LinkGlobs:
    """A `LinkFilter` by patterns, as those of a sink."""

    def __init__(self, patterns: SinkFilter) -> None:
        self._patterns = patterns

    async def choose(
        self, page: CrawledPage, links: Sequence[PageLink]
    ) -> Sequence[ChosenLink | None]:
        accepts_url = self._patterns.accepts_url
        return [ChosenLink(url=one.url) if accepts_url(one.url) else None for one in links]


def link_filter(links: Links) -> LinkChooser | LinkGlobs:
    """Return the filter for the argument `links`. Raises ConfigError."""
    if callable(links):
        return LinkChooser(links)
    given: object = links
    if not (isinstance(given, Mapping) and given.keys() <= {"include", "exclude"}):
        raise ConfigError(
            'links: must be a function, or patterns: {"include": ["*/docs/*"], "exclude": []}'
        )
    from crawler.sinks.build import page_filter

    lists = {key: [one] if isinstance(one, str) else list(one) for key, one in links.items()}
    return LinkGlobs(page_filter(**lists))


def _answers(
    call: LinkFunction, page: CrawledPage, links: Sequence[PageLink]
) -> Sequence[LinkAnswer | Awaitable[LinkAnswer]]:
    return [call(page, link) for link in links]


def _chosen(page: CrawledPage, link: PageLink, answer: object) -> ChosenLink | None:
    if answer is None or answer is True:
        return ChosenLink(url=link.url)
    if answer is False:
        return None
    if not isinstance(answer, FollowLink):
        raise TypeError(f"links must return a FollowLink, a bool or None, not {answer!r}")
    url = link.url
    if answer.url is not None:
        found = canonical(str(answer.url), page.url)
        if found is None:
            raise InvalidURL(f"{answer.url} is not an http(s) URL")
        url = found
    return ChosenLink(
        url=url, priority=checked_priority(answer.priority), data=encoded(answer.data)
    )
