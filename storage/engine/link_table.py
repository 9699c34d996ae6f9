"""Links: new URLs are queued; most known ones are found in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import Final, NamedTuple

from msgspec import structs

from policies.scope import Skip
from storage.engine.counters import CounterChanges
from storage.engine.name_ids import NameIds, OriginRow
from storage.engine.statements import Statements, Values
from storage.store_errors import SEEDS_AT_ONCE
from storage.url_records import Link, UrlState

OUT: Final = 4  # the state of a URL in no view: left out, or known only as a target
SEED: Final = 1  # flags of a row of urls, which statements decode, too
FETCHED: Final = 2
TRIED: Final = 4
REQUISITE: Final = 8
SITEMAP: Final = 16
LISTED: Final = 32  # it has an entry in a sitemap
SUSPECT: Final = 64  # it was in flight when the process died
DATA: Final = 128  # it has data
_HOPS: Final = 8  # from this bit: consecutive redirects that led to it
_REQUISITE_DEPTH: Final = 16  # from this bit: consecutive requisites that led to it
_QUEUED: Final = int(UrlState.QUEUED)
_PRIORITY_MAX: Final = 1e300  # infinity could be stored, and not be read again
_INTEGER_MAX: Final = 2**31 - 1  # of depths and flags: 4 bytes on a server
_ROWS_AT_ONCE: Final = 1_024  # a page may have 50,000 links, which take more memory as rows


_KnownShape = list[tuple[int, int, int]]  # place, id, depth
# A link that may change something, with the id of its page. None instead of the link: a target that
# is only recorded. Plain tuples, because there is one for each link.
_Found = tuple[Link | None, int | None]
_Place = tuple[str, Link | None, int | None, OriginRow, int]  # URL, link, page, origin, fingerprint


class _NewUrl(NamedTuple):
    """A URL to insert, or to bring into view again."""

    place: _Place
    key: int


def _url_rows(urls: Sequence[_NewUrl]) -> list[Values]:
    """The rows of `urls`. Raises ValueError for what could not be read again, or not be stored by
    every engine. One loop, because there is a row for each new link."""
    rows: list[Values] = []
    for (url, link, page, origin, _), key in urls:
        path = url[url.index("/", 8) :]
        if link is None:
            rows.append((key, origin.id, path, OUT, 0, 0.0, 0, page, None))
            continue
        flags = (
            (SEED if link.seed else 0)
            | (REQUISITE if link.requisite else 0)
            | (SITEMAP if link.sitemap else 0)
            | (LISTED if link.listing is not None else 0)
            | (DATA if link.data is not None else 0)
            | (link.hops << _HOPS)
            | (link.requisite_depth << _REQUISITE_DEPTH)
        )
        if not -_PRIORITY_MAX < link.priority < _PRIORITY_MAX:
            raise ValueError("no priority")
        if flags > _INTEGER_MAX:
            raise ValueError("too many requisites or redirects led to it")
        rows.append(
            (
                key, origin.id, path, _QUEUED, link.depth, link.priority, flags, page, link.anchor,
            )
        )  # fmt: skip
    return rows


def _known_rows(urls: Sequence[_NewUrl]) -> list[Values]:
    """The rows of `known`, where it is a table."""
    return [
        (origin.id, digest, -key, 0) if link is None else (origin.id, digest, key, link.depth)
        for (_, link, _, origin, digest), key in urls
    ]


def hops_of(flags: int) -> int:
    """Consecutive redirects that led to a URL with these flags."""
    return flags >> _HOPS & 0xFF


class KnownUrls:
    """URLs known to be in the database, each with the depth at and below which links change
    nothing.

    Exact, and bounded by starting a new generation.
    """

    _GENERATION: Final = 10_000
    _CHARS_MAX: Final = 200  # longer ones are looked up, which bounds the memory to some 15 MB

    def __init__(self) -> None:
        self.young: dict[str, int] = {}
        self.old: dict[str, int] = {}  # counts for those that are not among the young

    def add(self, depths: Mapping[str, int]) -> None:
        """A transaction's worth of them: no more than a generation."""
        if len(self.young) >= self._GENERATION:
            self.old, self.young = self.young, {}
        longest = self._CHARS_MAX
        some = islice(depths.items(), self._GENERATION)
        self.young |= {url: depth for url, depth in some if len(url) <= longest}

    def discard(self, url: str) -> None:
        self.young.pop(url, None)
        self.old.pop(url, None)


class LinkTable:
    """Inserts links, for one writer."""

    def __init__(self, sql: Statements, names: NameIds, *, queries_per_path_max: float) -> None:
        self._sql = sql
        self._names = names
        self._queries_per_path_max = queries_per_path_max
        self._fingerprint = fingerprints(sql.secret())
        self._recent = KnownUrls()
        self.forgot = False  # in this transaction
        self._nearer: list[tuple[_Place, Link, int]] = []  # likewise

    def forget_known(self) -> None:
        """Empty the cache of URLs: another session took some out of view."""
        self._recent = KnownUrls()

    def insert(
        self,
        links: Iterable[tuple[int | None, Sequence[Link]]],
        targets: Sequence[tuple[str, int]],
        tally: CounterChanges,
        skipped: Counter[str],
        now_s: float,
    ) -> dict[str, int]:
        """Queue what is new, each with the id of its page; give the ids of `targets`.

        Targets are URLs that pages redirect to; one that is no link either is noted, out of view.
        """
        young, old = self._recent.young, self._recent.old
        found: dict[str, _Found] = {}
        seeds: dict[str, int] = {}
        roots: set[str] = set()  # those of them that were given
        for referrer, group in links:
            for link in group:
                url = link.url
                if link.seed:
                    seeds[url] = min(seeds.get(url, link.depth), link.depth)
                    if not link.hops:
                        roots.add(url)
                elif (depth := young.get(url, old.get(url))) is not None and depth <= link.depth:
                    continue
                first, page = found.get(url, (link, referrer))
                if first is not None and link.depth < first.depth:
                    first = structs.replace(first, depth=link.depth)
                found[url] = (first, page)
        for url, source in targets:
            if url not in found:
                found[url] = (None, source)
        if not found:
            return {}
        wanted = {*seeds, *(url for url, _ in targets)}
        ids: dict[str, int] = {}
        # Where others write as well, all together: parts would not follow the order of locks.
        items, count = iter(found.items()), len(found) if self._sql.shared else _ROWS_AT_ONCE
        while some := dict(islice(items, count)):
            placed = self._place(some, seeds, tally, skipped, now_s)
            ids |= {url: placed[url] for url in wanted & some.keys()}
        if seeds:
            self._make_seeds(seeds, roots, ids)
        # A target whose link was one too many for its path is noted all the same.
        missing: dict[str, _Found] = {url: (None, page) for url, page in targets if not ids[url]}
        if missing:
            ids |= self._place(missing, {}, tally, skipped, now_s)
        return {url: ids[url] for url, _ in targets}

    def known(self, urls: Sequence[str]) -> dict[str, int]:
        """Return the ids of those URLs that are in a view."""
        return _known(self._sql, self._names, self._fingerprint, urls)

    def forget(self, urls: Sequence[tuple[int, str]]) -> None:
        """Take URLs out of view; a later link to one queues it again."""
        origins = self._names.find_origins(dict.fromkeys(_origin(url) for _, url in urls))
        rows: list[Values] = [
            (origins[_origin(url)].id, self._fingerprint(url), key) for key, url in urls
        ]
        self._sql.many("hide_urls", rows)
        self.forgot = True
        for _, url in urls:
            self._recent.discard(url)

    def _place(
        self,
        found: Mapping[str, _Found],
        seeds: Mapping[str, int],
        tally: CounterChanges,
        skipped: Counter[str],
        now_s: float,
    ) -> dict[str, int]:
        """Sort out what is known, and insert the rest; give all ids."""
        names = [_origin(url) for url in found]
        slots: dict[str, str | None] = {}
        for name, (link, _) in zip(names, found.values(), strict=True):
            if slots.get(name) is None:
                slots[name] = None if link is None else link.slot
        origins = self._names.origins(slots, now_s)
        places: list[_Place] = [
            (url, link, page, origins[name], self._fingerprint(url))
            for name, (url, (link, page)) in zip(names, found.items(), strict=True)
        ]
        rows: list[Values] = [(n, origin.id, key) for n, (*_, origin, key) in enumerate(places)]
        known = {
            n: (key, deep) for n, key, deep in self._sql.read_many(_KnownShape, "known_ids", rows)
        }
        ids = {}
        recent: dict[str, int] = {}
        unknown: list[tuple[_Place, int]] = []  # with the id of those that are out of view
        nearer: list[tuple[_Place, Link, int]] = []
        for n, place in enumerate(places):
            key, depth = known.get(n, (0, 0))
            url, link, *_ = place
            if link is not None and not -_INTEGER_MAX <= link.depth <= _INTEGER_MAX:
                raise ValueError("no depth")
            ids[url] = abs(key)
            if key > 0:
                recent[url] = depth
                if link is not None and link.depth < depth:
                    nearer.append((place, link, key))
            elif key == 0 or link is not None:
                unknown.append((place, -key))
        self._recent.add(recent)
        self._nearer += nearer
        if unknown:
            ids |= self._insert(self._within_limit(unknown, seeds, skipped), tally)
        return ids

    def lower_depths(self) -> None:
        """Lower the depth of queued URLs to which a shorter path was found. This locks URLs of any
        host, so it comes after the counters, whose writing locks hosts: others that commit lock
        their host before its URLs."""
        nearer, self._nearer = self._nearer, []
        if not nearer:
            return
        queued = set(self._sql.read_many(list[int], "queued_ids", [(key,) for *_, key in nearer]))
        urls: list[Values] = []
        known: list[Values] = []
        for (*_, origin, digest), link, key in nearer:
            if key in queued:
                urls.append((key, link.depth))
                known.append((origin.id, digest, key, link.depth))
        self._recent.add({link.url: link.depth for _, link, key in nearer if key in queued})
        self._sql.many("lower_depths", urls)
        if not self._sql.shared:
            self._sql.many("known_again", known)

    def _within_limit(
        self,
        unknown: Sequence[tuple[_Place, int]],
        seeds: Mapping[str, int],
        skipped: Counter[str],
    ) -> Sequence[tuple[_Place, int]]:
        """Count URLs with a query by path, and leave out those beyond the limit."""
        paths: dict[int, tuple[int, int]] = {}
        for n, ((url, link, _, origin, _), _) in enumerate(unknown):
            if "?" in url and link is not None and url not in seeds:
                digest = blake2b(url[: url.index("?")].encode(), digest_size=8).digest()
                paths[n] = (origin.id, int.from_bytes(digest, signed=True))
        if not paths:
            return unknown
        shape = list[tuple[int, int, int]]
        counts = {
            (origin_id, path): count
            for origin_id, path, count in self._sql.read_many(
                shape, "query_counts", list(dict.fromkeys(paths.values()))
            )
        }
        kept = []
        for n, (place, key) in enumerate(unknown):
            path = paths.get(n)
            if path is not None:
                count = counts.get(path, 0)
                if count >= self._queries_per_path_max:
                    skipped[Skip.MAX_QUERIES_PER_PATH] += 1
                    continue
                counts[path] = count + 1
            kept.append((place, key))
        self._sql.many("put_query_counts", [(*path, count) for path, count in counts.items()])
        return kept

    def _insert(
        self, unknown: Sequence[tuple[_Place, int]], tally: CounterChanges
    ) -> dict[str, int]:
        new: list[_NewUrl] = []
        again: list[_NewUrl] = []
        for place, key in unknown:
            if key:
                again.append(_NewUrl(place, key))
            else:
                new.append(_NewUrl(place, self._sql.ids.url(place[3].id)))
        others: dict[str, int] = {}
        if self._sql.shared:
            new, again, others = self._insert_first(new, again)
        else:
            self._sql.many("new_urls", _url_rows(new))
            self._sql.many("new_known", _known_rows(new))
            self._sql.many("known_again", _known_rows(again))
        if again:
            self._sql.many("drop_tries", [(key,) for _, key in again])  # why they were left out
            self._sql.many("found_again", [(row[0], *row[4:]) for row in _url_rows(again)])
        ids: dict[str, int] = {}
        data: list[Values] = []
        depths: dict[str, int] = {}
        queued: dict[OriginRow, int] = {}
        for (url, link, _, origin, _), key in chain(new, again):
            ids[url] = key
            if link is None:
                continue
            depths[url] = link.depth
            queued[origin] = queued.get(origin, 0) + 1
            if link.data is not None:
                data.append((key, link.data))
        for origin, count in queued.items():
            tally.queued(origin.id, origin.slot or 0, origin.slot_name or "", count)
        self._recent.add(depths)
        self._sql.many("put_data", data)
        return ids | others

    def _insert_first(
        self, new: Sequence[_NewUrl], again: Sequence[_NewUrl]
    ) -> tuple[list[_NewUrl], list[_NewUrl], dict[str, int]]:
        """Insert new URLs where other sessions may be faster. Return those that were inserted,
        those that are this session's to queue again, and the ids of the others."""
        rows: list[Values] = [
            (*row, place[4]) for row, (place, _) in zip(_url_rows(new), new, strict=True)
        ]
        won = {*self._sql.read_many(list[int], "new_urls", rows)}
        mine = [row for row in new if row.key in won]
        out = [*again]
        others: dict[str, int] = {}
        for row, key in self._stored([row for row in new if row.key not in won]):
            if key < 0 and row.place[1] is not None:  # negative: only a redirect leads there
                out.append(_NewUrl(row.place, -key))
            else:
                others[row.place[0]] = abs(key)
        self._sql.many("lock_urls", sorted((row.key,) for row in out))
        queue: list[_NewUrl] = []
        for row, key in self._stored(out):
            if key < 0:
                queue.append(row)
            else:
                others[row.place[0]] = key
        return mine, queue, others

    def _stored(self, rows: Sequence[_NewUrl]) -> list[tuple[_NewUrl, int]]:
        """The rows whose fingerprint is stored, with the id there."""
        values: list[Values] = [(n, row.place[3].id, row.place[4]) for n, row in enumerate(rows)]
        read = self._sql.read_many(_KnownShape, "known_ids", values)
        return [(rows[n], key) for n, key, _ in read]

    def _make_seeds(
        self, seeds: Mapping[str, int], roots: Collection[str], ids: Mapping[str, int]
    ) -> None:
        self._sql.many("new_seeds", [(ids[url],) for url in seeds if url in roots])
        self._sql.many("make_seeds", [(ids[url], depth) for url, depth in seeds.items()])


def fingerprints(secret: bytes) -> Callable[[str], int]:
    """The function from a canonical URL to its fingerprint, a signed integer of 8 bytes.

    It is keyed with a secret of the database, so that nobody can build a URL that is taken for
    another. That two of one origin are alike by chance has a probability of 3 in 100 million for a
    million URLs there; those of different origins may be alike, since the origin is in the key too.
    """
    seeded = blake2b(secret, digest_size=8)

    def fingerprint(url: str) -> int:
        state = seeded.copy()  # 0.26 us for a URL of 75 characters; with `key=` it would be 0.57
        state.update(url.encode())
        return int.from_bytes(state.digest(), "big", signed=True)

    return fingerprint


def known_urls(sql: Statements, urls: Sequence[str]) -> set[str]:
    """Return those of some canonical URLs that are in a view."""
    return set(_known(sql, NameIds(sql), fingerprints(sql.secret()), urls))


def _known(
    sql: Statements, names: NameIds, fingerprint: Callable[[str], int], urls: Sequence[str]
) -> dict[str, int]:
    origins = names.find_origins(dict.fromkeys(_origin(url) for url in urls))
    rows: list[Values] = [
        (n, origins[_origin(url)].id, fingerprint(url))
        for n, url in enumerate(urls)
        if _origin(url) in origins
    ]
    read = sql.read_many(_KnownShape, "known_ids", rows)
    return {urls[n]: key for n, key, _ in read if key > 0}


def some_seeds(sql: Statements, after: int) -> list[tuple[int, str]]:
    """Seeds with ids above `after`, with their ids."""
    return sql.read(list[tuple[int, str]], "seed_urls", after, SEEDS_AT_ONCE)


def _origin(url: str) -> str:
    return url[: url.index("/", 8)]
