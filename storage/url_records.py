"""URLs and their outcomes as they cross a `Store`.

Times of events (`fetched_at`, `blocked_at`) are Unix seconds; `..._in_s` are seconds from now.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from policies.listing import Listing


class UrlState(enum.IntEnum):
    """The state of a URL. It has exactly one."""

    QUEUED = 0
    VISITED = 1
    BLOCKED = 2
    FAILED = 3


class BlockReason(enum.StrEnum):
    """The reason why a URL is blocked."""

    ROBOTS = "robots"
    REDIRECT = "redirect"
    NOINDEX_LINE = "noindex-line"


class Rel(enum.StrEnum):
    """Properties a link may have. The database stores its place in this order."""

    NOFOLLOW = "nofollow"
    CANONICAL = "canonical"
    REDIRECT = "redirect"
    REQUISITE = "requisite"  # of no known kind
    IMAGE = "image"
    STYLE = "style"
    SCRIPT = "script"
    FONT = "font"
    MEDIA = "media"  # sound, films

    @property
    def kind(self) -> str | None:
        """The kind of a requisite; None for other links, and for an unknown kind."""
        return str(self) if self in _KINDS else None

    @property
    def role(self) -> str:
        """The column `rel` of the view `links`."""
        return str(Rel.REQUISITE if self in _KINDS else self)


_KINDS = frozenset({Rel.IMAGE, Rel.STYLE, Rel.SCRIPT, Rel.FONT, Rel.MEDIA})


class Looked(enum.IntFlag):
    """The kinds of links extracted, so that reports can tell "none" from "not extracted"."""

    LINKS = 1  # `outlinks` and `malformed` are complete
    FRAGMENTS = 2  # `elements` is complete
    REQUISITES = 4  # the requisites of the page were queued
    POINTERS = 8  # `pointers` is complete; `elements` has those of the page that were read


class Link(Struct, frozen=True, kw_only=True):
    """A URL to insert if it is new. `url` is canonical and within scope."""

    url: str
    slot: str  # the politeness slot: a host, or a registrable domain
    host: str
    depth: int
    priority: float = 0.0  # larger goes first
    seed: bool = False  # given by the user, or the target of a seed: scope is relative to it
    hops: int = 0  # consecutive redirects that led to it
    # Text of the first link, white space collapsed, at most 200 characters.
    anchor: str | None = None
    requisite: bool = False  # needed to display a page: scope was widened for it
    requisite_depth: int = 0  # of a requisite: consecutive requisites that led to it
    # A sitemap or feed, not a page: see `SitemapRead`. A known page becomes one.
    sitemap: bool = False
    # A sitemap that was last read, or found unchanged, before this (Unix seconds) is queued again.
    again_before: float | None = None
    # Its entry in a sitemap, which replaces an earlier one unless it names only the URL. If it was
    # modified after the last visit (and not in the future), the next visit is due immediately.
    listing: Listing | None = None
    # A JSON value, as text: of a new URL, that of the first link; of a known one, see `Store.add`.
    data: str | None = None


class Outlink(NamedTuple):
    """One link of a page, for the view `links`. A tuple, because a page has a hundred of them."""

    url: str  # canonical
    anchor: str | None
    rel: Rel | None


class Malformed(NamedTuple):
    """A link that cannot be followed because of how it is written."""

    href: str  # as written, truncated
    reason: str  # a `policies.scope.Skip`


class Pointer(NamedTuple):
    """A link with a fragment."""

    url: str  # canonical
    fragment: str  # as in a URL: percent-encoded
    decoded: str | None  # without percent-encoding, where that differs


class Plan(Struct, frozen=True, kw_only=True, array_like=True):
    """The recrawl plan of a visited URL: when to visit it again, and what to compare with."""

    due_in_s: float  # from now
    interval_s: float  # from visit to visit, as the recrawl schedule chose
    checked_at: float  # Unix seconds: the last answer, including 304
    changed_at: float  # Unix seconds: the last answer with new content
    visits: int = 1  # answers so far
    failures: int = 0  # consecutive attempts without an answer
    etag: str | None = None
    last_modified: str | None = None
    # What was said of its use, as written by `policies.declarations`. None: unknown; a page that
    # was recorded without any restriction is read with "" instead.
    declared: str | None = None


class Before(Struct, frozen=True, kw_only=True, array_like=True):
    """The results of earlier visits, for a visited URL or a sitemap that was read. `due_in_s` of
    the plan is 0."""

    plan: Plan
    status: int
    redirect_url: str | None
    body_hash: str | None
    looked: Looked = Looked(0)
    content_type: str | None = None


class Queued(Struct, frozen=True, kw_only=True, array_like=True):
    """A URL to visit. The statements `prefetch` and `due_plans` list the columns in the order of
    these fields."""

    id: int
    url: str
    depth: int
    priority: float
    attempts: int
    refusals: int
    seed: bool
    hops: int = 0  # consecutive redirects that led to it
    suspect: bool = False  # it was in flight when the process died
    requisite: bool = False  # as in its first Link
    requisite_depth: int = 0  # of a requisite: consecutive requisites that led to it
    sitemap: bool = False
    listing: Listing | None = None  # its entry in a sitemap
    data: str | None = None  # as in its Link
    referrer: str | None = None  # the page that linked to it first, if that was asked for
    before: Before | None = None  # set if this is a revisit


class Visited(Struct, frozen=True, kw_only=True):
    """A complete answer with any status except 429 and 5xx."""

    id: int
    slot: str
    status: int
    fetched_at: float  # Unix seconds
    content_type: str | None
    body_bytes: int
    elapsed_s: float
    # The canonical target of a redirect; its Link is among `links` if it is within scope.
    redirect_url: str | None = None
    title: str | None = None
    indexable: bool = True
    followable: bool = True
    archivable: bool = True
    # Fetched while the origin counted as open for lack of an answer (law 4, docs/laws.md).
    ungoverned: bool = False
    links: Sequence[Link] = ()
    canonical_url: str | None = None  # as declared by the page
    body_hash: str | None = None  # of the body as decoded: 16 hexadecimal digits, lower case
    usage: str | None = None  # usage declarations, as written by `policies.usage.Usage`
    # All its links, each URL once, for the view `links`; empty unless `[storage] links` is set.
    outlinks: Sequence[Outlink] = ()
    malformed: Sequence[Malformed] = ()
    pointers: Sequence[Pointer] = ()
    elements: Sequence[str] = ()  # ids and anchor names that a fragment can point to
    looked: Looked = Looked(0)
    cut: str | None = None  # why parts of it were not read: reasons, separated by spaces
    plan: Plan | None = None  # None: do not visit it again
    again: bool = False  # this was a revisit


class Revisited(Struct, frozen=True, kw_only=True):
    """A visited URL, or a sitemap that was read, stays as it was: nothing had changed, or there was
    no answer (`Plan.failures`). Without a plan, it is not visited again."""

    id: int
    slot: str
    plan: Plan | None
    deferred: bool = False  # no request was made
    # Why sinks may no longer keep the page as it was: "noindex" or "noarchive". Not stored.
    ban: str | None = None


class SitemapRead(Struct, frozen=True, kw_only=True):
    """A sitemap or feed was answered (with any status except 429 and 5xx) and read.

    It moves from the queue to the view `sitemaps`, and links do not queue it again. Its entries
    were passed to `add` before."""

    id: int
    slot: str
    status: int
    fetched_at: float  # Unix seconds
    kind: str | None = None  # "urlset" | "index" | "rss" | "atom" | "text"; None: none of these
    body_bytes: int = 0  # uncompressed
    urls: int = 0  # extracted from it, new or known
    error: str | None = None  # in words
    links: Sequence[Link] = ()  # the target, if it redirects
    plan: Plan | None = None  # None: it is read again only if a link asks for that
    again: bool = False  # it was read before, by its plan


class Blocked(Struct, frozen=True, kw_only=True):
    """A robots.txt forbids the URL, or the URL it redirects to."""

    id: int
    slot: str
    reason: BlockReason
    dialect: str
    rule: str | None  # the line that decided, without its comment
    line: int | None  # counted from 1
    robots_url: str
    blocked_at: float  # Unix seconds


class Failed(Struct, frozen=True, kw_only=True):
    """The URL is given up."""

    id: int
    slot: str
    error: str  # "CODE: sentence"
    attempts: int
    last_at: float  # Unix seconds


class Retry(Struct, frozen=True, kw_only=True):
    """The URL stays queued, due in `due_in_s`.

    At the same priority it comes after URLs that were not tried yet, and after those retried
    earlier, regardless of depth."""

    id: int
    slot: str
    due_in_s: float
    attempts: int  # spent so far
    refusals: int  # 429 and 503 so far
    error: str


class Dropped(Struct, frozen=True, kw_only=True):
    """The URL leaves the frontier, because scope excludes it by now. It is counted in `skipped`. A
    later link queues it again."""

    id: int
    slot: str
    reason: str


class Moved(Struct, frozen=True, kw_only=True):
    """The URL stays queued, but belongs to another slot (`politeness.per` was changed). All URLs of
    its origin move with it, because an origin belongs to one slot."""

    id: int
    slot: str
    to_slot: str


Outcome = Visited | Revisited | SitemapRead | Blocked | Failed | Retry | Dropped | Moved


class Judged(Struct, frozen=True, kw_only=True, array_like=True):
    """A page or blocked URL to be judged again by a newer robots.txt."""

    id: int
    url: str


class Unplanned(Struct, frozen=True, kw_only=True, array_like=True):
    """A visited URL without a recrawl plan."""

    id: int
    url: str
    status: int
    fetched_at: float
    listing: Listing | None
