"""Optional records of a page: all its links, its canonical URL, a hash of its body, and its
declarations on the use of its content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from crawler.config.model import Config
from crawler.documents.fragments import fragment_of
from crawler.documents.links import MALFORMED_MAX, PageLinks
from crawler.documents.page import ParsedPage
from crawler.fetching.request import REDIRECT_STATUSES, Answer
from crawler.frontier.origin import Origin
from policies import declarations
from policies.declarations import Usage
from policies.scope import Skip
from policies.url import path_of
from storage.store import Looked, Malformed, Outlink, Pointer, Rel

# Not to be forged: who keeps one page of those that have the same must not be made to lose others'.
# Of ten million pages the chance that two differ and look alike is one in 300,000.
_HASH_DIGITS = 16


# As `scope.max_url_bytes` is by default: what no crawl would visit needs no row either.
URL_CHARS_MAX: Final = 2_048


def canonical_url(read: ParsedPage | None) -> str | None:
    url = read.canonical_url if read is not None else None
    return url if url is None or len(url) <= URL_CHARS_MAX else None


def body_hash(answer: Answer) -> str | None:
    """16 hexadecimal digits; None where there is no body to compare."""
    if not answer.body:
        return None
    return sha256(answer.body).hexdigest()[:_HASH_DIGITS]


def robots_usage(url: str, origin: Origin | None) -> list[tuple[str, str]]:
    """Return the declarations of the origin's robots.txt on the use of a page: (name, value)."""
    if origin is None or origin.policy is None or not origin.policy.usages:
        return []
    path = path_of(url)
    return [
        (line.field, ", ".join(f"{key}={value}" for key, value in line.values))
        for line in origin.policy.usages
        if path.startswith(line.path)
    ]


def usage_of(answer: Answer, read: ParsedPage | None, origin: Origin | None) -> Usage:
    """Combine the declarations of the header, meta elements and the origin's robots.txt."""
    robots: list[tuple[str, str]] = []
    if origin is not None and origin.policy is not None and origin.policy.usages:
        robots = robots_usage(answer.url, origin)
    metas = read.metas if read else ()
    headers = answer.headers
    if not robots and not metas and not any(map(headers.__contains__, declarations.NAMES)):
        return declarations.NONE  # as almost all
    return declarations.usage_of(lambda name: headers.getall(name, ()), metas, robots)


class Kept(NamedTuple):
    """The optional records of a page's links."""

    outlinks: Sequence[Outlink] = ()
    malformed: Sequence[Malformed] = ()
    pointers: Sequence[Pointer] = ()
    elements: Sequence[str] = ()
    looked: Looked = Looked(0)


_UNLOOKED: Final = Looked(0)
NOTHING: Final = Kept()


def wanted(config: Config, host: str) -> Looked:
    """Return the kinds of links the config stores for a host, besides those to be followed."""
    storage = config.storage
    looked = _UNLOOKED
    if not (storage.links or storage.fragments or config.requisites):
        return looked  # as a rule; flags are slow to put together
    if storage.links:
        looked |= Looked.LINKS
    if storage.fragments:
        looked |= Looked.POINTERS
    if config.requisites and config.site(host).scope.requisites:
        looked |= Looked.REQUISITES
    return looked


def links_of(
    answer: Answer,
    read: ParsedPage | None,
    redirect_url: str | None,
    requisites: Mapping[str, Rel],
    *,
    looked: Looked,
    admit: Callable[[str], str],
    fits: Callable[[str], bool],
) -> Kept:
    """`redirect_url`: where it leads, canonical. `looked`: what is wanted. `admit` drops what the
    config drops of a query; `fits`: a URL is not too long to be visited."""
    outlinks: Sequence[Outlink] = ()
    malformed: list[Malformed] = []
    pointers: list[Pointer] = []
    elements: Sequence[str] = ()
    if Looked.LINKS in looked:
        outlinks, long = _all_links(read, redirect_url, requisites, admit, fits)
        malformed += read.page_links.malformed if read else bad_redirect(answer).malformed
        if read and long:
            hrefs = {url: href for href, url in read.page_links.resolved.items()}
            noted = PageLinks(answer.url)
            for url in long[: MALFORMED_MAX - len(malformed)]:
                noted.note_malformed(hrefs.get(url) or url, Skip.MAX_URL_BYTES)
            malformed += noted.malformed
    if Looked.POINTERS in looked:
        found = dict.fromkeys(
            pointer._replace(url=admit(pointer.url))
            for pointer in (read.fragments.pointers if read else ())
            if fits(pointer.url)
        )
        if redirect_url is not None and fits(redirect_url):
            fragment = fragment_of(answer.headers.get("Location", ""))
            if fragment is not None:
                found[Pointer(redirect_url, *fragment)] = None
        pointers += found
        if read is not None:
            elements = read.fragments.elements
            looked |= Looked.FRAGMENTS if read.fragments.all_elements else Looked(0)
    return Kept(outlinks, malformed, pointers, elements, looked)


def bad_redirect(answer: Answer) -> PageLinks:
    """A redirect's target where it is no URL, counted as a link of a page is."""
    links = PageLinks(answer.url)
    if answer.status in REDIRECT_STATUSES and (location := answer.headers.get("Location")):
        links.add(location)
    return links


def _all_links(
    read: ParsedPage | None,
    redirect_url: str | None,
    requisites: Mapping[str, Rel],
    admit: Callable[[str], str],
    fits: Callable[[str], bool],
) -> tuple[list[Outlink], list[str]]:
    """Each URL once, in the page's order; and those that are too long."""
    found: dict[str, Outlink] = {}
    long: list[str] = []
    if redirect_url is not None:
        found[redirect_url] = Outlink(redirect_url, None, Rel.REDIRECT)
    for link in read.links if read else ():
        url = admit(link.url)
        if not fits(url):
            long.append(link.url)
            continue
        rel = Rel.NOFOLLOW if link.nofollow else None
        if read is not None and link.url == read.canonical_url and link.anchor is None:
            rel = Rel.CANONICAL
        if (first := found.get(url)) is not None:  # without what `admit` drops they are one
            rel = first.rel if None not in (first.rel, rel) else None
            found[url] = Outlink(url, first.anchor or link.anchor, rel)
        else:
            found[url] = Outlink(url, link.anchor, rel)
    for url, rel in requisites.items():
        if fits(url):
            found.setdefault(url, Outlink(url, None, rel))
        else:
            long.append(url)
    return list(found.values()), long
