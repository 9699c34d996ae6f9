"""What of a page is kept besides what the crawl goes by: every link, its canonical URL, a hash of
its body, and what it says of the use of its content."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

from crawler.documents.page import Page
from crawler.fetching.request import Answer
from crawler.politeness.origin import Origin
from policies import usage
from policies.url import path_of
from policies.usage import Usage
from storage.base import Outlink, Rel

# Not to be forged: who keeps one page of those that have the same must not be made to lose others'.
_HASH_BYTES = 8  # of ten million pages the chance that two differ and look alike is one in 300,000


# As `scope.max_url_bytes` is by default: what no crawl would visit needs no row either.
_URL_CHARS_MAX = 2_048


def canonical_url(read: Page | None) -> str | None:
    url = read.canonical_url if read is not None else None
    return url if url is None or len(url) <= _URL_CHARS_MAX else None


def body_hash(answer: Answer) -> str | None:
    """16 hexadecimal digits; None where there is no body to compare."""
    if not answer.body:
        return None
    return blake2b(answer.body, digest_size=_HASH_BYTES).hexdigest()


def usage_of(answer: Answer, read: Page | None, origin: Origin | None) -> Usage:
    """What header, meta elements and the origin's robots.txt say."""
    robots: list[tuple[str, str]] = []
    if origin is not None and origin.policy is not None and (lines := origin.policy.usages):
        path = path_of(answer.url)
        robots = [
            (line.field, ", ".join(f"{key}={value}" for key, value in line.values))
            for line in lines
            if path.startswith(line.path)
        ]
    metas = read.metas if read else ()
    headers = answer.headers
    if not robots and not metas and not any(map(headers.__contains__, usage.NAMES)):
        return usage.NONE  # as almost all
    return usage.usage_of(lambda name: headers.getall(name, ()), metas, robots)


def all_links(
    read: Page | None,
    redirect_url: str | None,
    requisites: Iterable[str],
    admit: Callable[[str], str],
) -> list[Outlink]:
    """Each URL once, in the page's order. `admit` drops what the config drops of a query."""
    found: dict[str, Outlink] = {}
    if redirect_url is not None:
        found[redirect_url] = Outlink(redirect_url, None, Rel.REDIRECT)
    for link in read.links if read else ():
        if len(link.url) > _URL_CHARS_MAX:
            continue
        url = admit(link.url)
        rel = Rel.NOFOLLOW if link.nofollow else None
        if read is not None and link.url == read.canonical_url and link.anchor is None:
            rel = Rel.CANONICAL
        found.setdefault(url, Outlink(url, link.anchor, rel))
    for url in requisites:
        found.setdefault(url, Outlink(url, None, Rel.REQUISITE))
    return list(found.values())
