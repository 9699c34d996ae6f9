"""`links=` of a Crawler: a function or patterns that filter and annotate the links of pages."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from yarl import URL

from crawler.config import ConfigError
from crawler.documents.crawled_page import CrawledPage
from crawler.documents.links import PageLink
from crawler.errors import InvalidRequest, InvalidURL
from crawler.processing.link_filter import ChosenLink
from crawler.threads import in_thread, result_or_error
from policies.retries import FailureCode
from policies.url import canonical

if TYPE_CHECKING:
    from crawler.sinks.dispatch import SinkFilter

DATA_BYTES_MAX: Final = 16_384  # of one URL, as JSON
_PRIORITY: Final = 1e9
_DEPTH: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowLink:
    """The decision to follow a link.

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


def encoded(data: Any) -> str | None:
    """Return data as JSON text, in ASCII; None for None. Raises InvalidRequest."""
    if data is None:
        return None
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest("data", f"must be a JSON value ({error})") from error
    if len(text) > DATA_BYTES_MAX:
        raise InvalidRequest(
            "data", f"must be at most {DATA_BYTES_MAX:,} bytes as JSON, not {len(text):,}"
        )
    return text


def checked_priority(priority: object) -> float:
    """Return the priority of a URL. Raises InvalidRequest."""
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        raise InvalidRequest("priority", f"must be a number, not {priority!r}")
    if not (math.isfinite(priority) and abs(priority) <= _PRIORITY):
        raise InvalidRequest("priority", f"must be between -1e9 and 1e9, not {priority!r}")
    return float(priority)


def checked_depth(depth: object) -> int:
    """Return the depth of a URL; 0 for None. Raises InvalidRequest."""
    if depth is None:
        return 0
    if isinstance(depth, bool) or not isinstance(depth, int) or not 0 <= depth <= _DEPTH:
        raise InvalidRequest("depth", f"must be a whole number from 0 to {_DEPTH:,}, not {depth!r}")
    return depth


def checked_code(code: object) -> FailureCode:
    """Return the failure code. Raises InvalidRequest."""
    try:
        return FailureCode(str(code))
    except ValueError:
        known = ", ".join(FailureCode)
        raise InvalidRequest("code", f"must be one of {known}, not {code!r}") from None
