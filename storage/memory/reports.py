"""The rows of reports without a file: see `storage.sqlite.report_queries`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from policies.scope import HOPS_MAX
from storage.columns import REPORTS
from storage.memory.rows import Url
from storage.memory.tables import Tables
from storage.store import Looked, Pointer, Rel, Row, UrlState

_Values = tuple[object, ...]
_Linking = dict[str, list[tuple[Url, str | None, Rel | None]]]  # target -> who links to it, how


def rows(tables: Tables, kind: str) -> Iterator[Row]:
    for values in _KINDS[kind](tables):
        yield dict(zip(REPORTS[kind], values, strict=True))


def _linking(tables: Tables) -> _Linking:
    found: _Linking = {}
    for url in tables.urls.values():
        if url.state is UrlState.VISITED and url.page:
            for target in dict.fromkeys(link.url for link in url.page.outlinks):
                link = next(one for one in url.page.outlinks if one.url == target)
                found.setdefault(target, []).append((url, link.anchor, link.rel))
    return found


def _with_first(
    tables: Tables, url: Url, linking: _Linking
) -> Iterator[tuple[Url, str | None, str]]:
    """All that link to it, and the first that did where its links are not kept."""
    known = linking.get(url.url, [])
    found = [
        (source, anchor, str(rel or "link"))
        for source, anchor, rel in known
        if rel is not Rel.REDIRECT
    ]
    if url.referrer is not None:
        first = tables.urls[url.referrer]
        if first.target is not url and first not in [source for source, *_ in known]:
            found.append((first, url.anchor, "requisite" if url.requisite else "link"))
    yield from sorted(found, key=lambda one: one[0].id)


def _broken(tables: Tables) -> Iterator[_Values]:
    linking = _linking(tables)
    for url in tables.urls.values():
        page = url.page if url.state is UrlState.VISITED else None
        failure = url.failure if url.state is UrlState.FAILED else None
        if failure is None and (page is None or page.status < 400):
            continue
        status = page.status if page else None
        error = failure.error if failure else None
        told = False
        for via in _reaching(tables, url):
            for source, anchor, kind in _with_first(tables, via, linking):
                told = True
                by = None if via is url else via.url
                yield url.url, status, error, source.url, by, anchor, kind
        if not told:
            yield url.url, status, error, None, None, None, None


def _reaching(tables: Tables, url: Url) -> list[Url]:
    found, ring = {url.id: url}, [url]
    for _ in range(HOPS_MAX):
        ring = [source for one in ring for source in tables.sources.get(one.id, {}).values()]
        ring = [one for one in ring if one.id not in found]
        found |= {one.id: one for one in ring}
    return [url, *(found[key] for key in sorted(found) if key != url.id)]


def _forbidden(tables: Tables) -> Iterator[_Values]:
    linking = _linking(tables)
    blocked = [one for one in tables.urls.values() if one.state is UrlState.BLOCKED and one.block]

    def order(url: Url) -> tuple[str, str, int, str, int]:
        assert url.block is not None
        block = url.block
        return (url.origin.host.name, block.robots_url, block.line or 0, block.rule or "", url.id)

    for url in sorted(blocked, key=order):
        assert url.block is not None
        block = url.block
        head = (
            url.origin.host.name, block.robots_url, block.line, block.rule, str(block.reason),
            url.url, int(url.withdrawn),
        )  # fmt: skip
        known = linking.get(url.url, [])
        found = [(source, anchor) for source, anchor, _ in known]
        if url.referrer is not None:
            first = tables.urls[url.referrer]
            if first not in [source for source, _ in found]:
                found.append((first, url.anchor))
        for source, anchor in sorted(found, key=lambda one: one[0].id):
            yield (*head, anchor, source.url)
        if not found:
            yield (*head, url.anchor, None)


def _duplicates(tables: Tables) -> Iterator[_Values]:
    groups: dict[str, list[Url]] = {}
    for url in tables.urls.values():
        page = url.page
        if url.state is UrlState.VISITED and page and page.body_hash and 200 <= page.status < 300:
            groups.setdefault(page.body_hash, []).append(url)
    for digits in sorted(groups, key=lambda one: int.from_bytes(bytes.fromhex(one), signed=True)):
        for url in groups[digits] if len(groups[digits]) > 1 else ():
            page = url.page
            assert page is not None
            yield (
                digits, url.url, page.status, page.body_bytes, page.content_type, page.title,
                page.canonical_url,
            )  # fmt: skip


def _dangling(tables: Tables) -> Iterator[_Values]:
    found: list[tuple[tuple[int, str, bool, int, int], _Values]] = []
    for source in tables.urls.values():
        page = source.page if source.state is UrlState.VISITED else None
        for place, pointer in enumerate(page.pointers if page else ()):
            named = tables.by_url[pointer.url]
            target, hops = named, 0
            while target.target is not None and hops < HOPS_MAX:
                own = target.page.pointers if target.page else ()
                if any(each.url == target.target.url for each in own):
                    break
                target, hops = target.target, hops + 1
            if target.target is None and _has_element(target, pointer) is False:
                via = named.url if hops else None
                order = (target.id, pointer.fragment, bool(hops), source.id, place)
                found.append((order, (target.url, pointer.fragment, source.url, via)))
    yield from (values for _, values in sorted(found, key=lambda one: one[0]))


def _malformed(tables: Tables) -> Iterator[_Values]:
    found = [
        (bad.href.encode(), bad.reason, url.id, place, (bad.href, bad.reason, url.url))
        for url in tables.urls.values()
        if url.state is UrlState.VISITED and url.page
        for place, bad in enumerate(url.page.malformed)
    ]
    yield from (values for *_, values in sorted(found))


def _has_element(target: Url, pointer: Pointer) -> bool | None:
    """Whether a page has what a fragment points to; None: its elements are not known."""
    page = target.page if target.state is UrlState.VISITED else None
    if page is None:
        return None
    if pointer.fragment in page.elements or pointer.decoded in page.elements:
        return True
    return False if Looked.FRAGMENTS in page.looked else None


def fragment_rows(tables: Tables, source: Url) -> Iterator[Row]:
    """Of a visited page, in the view `fragments`."""
    for pointer in source.page.pointers if source.page else ():
        found = _has_element(tables.by_url[pointer.url], pointer)
        yield {
            "source": source.url,
            "target": pointer.url,
            "fragment": pointer.fragment,
            "found": None if found is None else int(found),
        }


def _looked(tables: Tables) -> Iterator[_Values]:
    pages = [
        url.page.looked
        for url in tables.urls.values()
        if url.state is UrlState.VISITED
        and url.page
        and 200 <= url.page.status < 300
        and (url.page.content_type or "").lower().startswith(_HTML_TYPES)
    ]
    yield (
        len(pages),
        *(
            float(sum(what in one for one in pages))
            for what in (Looked.LINKS, Looked.POINTERS, Looked.FRAGMENTS, Looked.REQUISITES)
        ),
    )


_HTML_TYPES: Final = ("text/html", "application/xhtml+xml")
_KINDS: Final[Mapping[str, Callable[[Tables], Iterator[_Values]]]] = {
    "broken": _broken,
    "forbidden": _forbidden,
    "duplicates": _duplicates,
    "malformed": _malformed,
    "dangling": _dangling,
    "looked": _looked,
}
