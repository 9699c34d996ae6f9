"""URLs as they go into the store and come out of it, and what became of them.

Times that are history (`fetched_at`, `blocked_at`) are Unix seconds; `..._in_s` counts from now.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from policies.listing import Listing


class UrlState(enum.IntEnum):
    """The one state of a URL."""

    QUEUED = 0
    VISITED = 1
    BLOCKED = 2
    FAILED = 3


class BlockReason(enum.StrEnum):
    ROBOTS = "robots"
    REDIRECT = "redirect"
    NOINDEX_LINE = "noindex-line"


class Rel(enum.StrEnum):
    """What a link is, besides a plain one. Rows are stored by their place in this order."""

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
        """What kind of file a requisite is; None of what is none, or of no known kind."""
        return str(self) if self in _KINDS else None

    @property
    def role(self) -> str:
        """The column `rel` of the view `links`."""
        return str(Rel.REQUISITE if self in _KINDS else self)


_KINDS = frozenset({Rel.IMAGE, Rel.STYLE, Rel.SCRIPT, Rel.FONT, Rel.MEDIA})


class Looked(enum.IntFlag):
    """What was looked for in a page, so that a report can say where nobody looked."""

    LINKS = 1  # `outlinks` and `malformed` were kept
    FRAGMENTS = 2  # all of `elements` were
    REQUISITES = 4  # what the page needs to be shown was queued
    POINTERS = 8  # `pointers` were kept, and `elements` as far as it has any


class Link(Struct, frozen=True, kw_only=True):
    """A URL to insert if it is new. `url` is canonical; scope has already passed it."""

    url: str
    slot: str  # the politeness slot: a host, or a registrable domain
    host: str
    depth: int
    priority: float = 0.0  # larger goes first
    seed: bool = False  # given by the user, or what a seed redirects to: scope is relative to it
    hops: int = 0  # redirects in a row that led to it
    anchor: str | None = (
        None  # text of the first link, white space collapsed, at most 200 characters
    )
    requisite: bool = False  # what a page needs to be shown: scope was widened for it
    requisite_depth: int = 0  # of a requisite: the requisites in a row that led to it
    # A sitemap or feed, and no page: see `SitemapRead`. One that is known as a page becomes one.
    sitemap: bool = False
    # If it was last read as a sitemap, or found unchanged, before this (Unix seconds), it is to be
    # read again.
    again_before: float | None = None
    # What a sitemap says of it; it replaces what one said before. If that knows of a change after
    # the last visit (and not of one to come), the next visit is due at once.
    listing: Listing | None = None


class Outlink(NamedTuple):
    """One link of a page, for the view `links`. (A tuple because a page has a hundred of them.)"""

    url: str  # canonical
    anchor: str | None
    rel: Rel | None


class Malformed(NamedTuple):
    """A link that leads nowhere because of how it is written."""

    href: str  # as written, cut
    reason: str  # a `policies.scope.Skip`


class Pointer(NamedTuple):
    """A link with a fragment."""

    url: str  # canonical
    fragment: str  # as in a URL: percent-encoded
    decoded: str | None  # without percent-encoding, where that differs


class Plan(Struct, frozen=True, kw_only=True):
    """When a visited URL is to be visited again, and what that visit is compared with."""

    due_in_s: float  # from now
    interval_s: float  # it waits so long because of what was seen; from visit to visit
    checked_at: float  # Unix seconds: the last answer, 304 included
    changed_at: float  # Unix seconds: the last answer that said something new
    visits: int = 1  # answers so far
    failures: int = 0  # tries in a row without an answer
    etag: str | None = None
    last_modified: str | None = None


class Before(Struct, frozen=True, kw_only=True):
    """What is known of a visited URL, or a sitemap that was read, from the visits before.
    `due_in_s` of the plan is 0."""

    plan: Plan
    status: int
    redirect_url: str | None
    body_hash: str | None
    looked: Looked = Looked(0)


class Queued(Struct, frozen=True, kw_only=True):
    """A URL to visit."""

    id: int
    url: str
    depth: int
    priority: float
    attempts: int
    refusals: int
    seed: bool
    hops: int = 0  # redirects in a row that led to it
    suspect: bool = False  # it was in flight when the process died
    requisite: bool = False  # as its first Link said
    requisite_depth: int = 0  # of a requisite: the requisites in a row that led to it
    sitemap: bool = False
    before: Before | None = None  # it is visited, and to be visited again
    listing: Listing | None = None  # what a sitemap says of it


class Visited(Struct, frozen=True, kw_only=True):
    """A complete answer of any status but 429 and 5xx."""

    id: int
    slot: str
    status: int
    fetched_at: float  # Unix seconds
    content_type: str | None
    body_bytes: int
    elapsed_s: float
    redirect_url: str | None = (
        None  # canonical target of a redirect; its Link is among `links` if in scope
    )
    title: str | None = None
    indexable: bool = True
    followable: bool = True
    archivable: bool = True
    ungoverned: bool = (
        False  # fetched while the origin counted as open for lack of an answer (law 4)
    )
    links: Sequence[Link] = ()
    canonical_url: str | None = None  # what the page says its URL is
    body_hash: str | None = None  # of the body as decoded: 16 hexadecimal digits, lower case
    usage: str | None = None  # signals of use, as `policies.usage.Usage` writes them
    # All its links, each URL once, for the view `links`; none if nobody wants them.
    outlinks: Sequence[Outlink] = ()
    malformed: Sequence[Malformed] = ()
    pointers: Sequence[Pointer] = ()
    elements: Sequence[str] = ()  # ids, and names of anchors: what a fragment can point to
    looked: Looked = Looked(0)
    cut: str | None = None  # why parts of it were not read: reasons, separated by blanks
    plan: Plan | None = None  # None: it is not to be visited again
    again: bool = False  # it was visited before, and is so to this moment


class Revisited(Struct, frozen=True, kw_only=True):
    """A visited URL, or a sitemap that was read, stays as it was: nothing new was to be seen, or
    nothing at all (then the plan says so); or it is not to be visited again (None)."""

    id: int
    slot: str
    plan: Plan | None
    deferred: bool = False  # it was not asked for


class SitemapRead(Struct, frozen=True, kw_only=True):
    """A sitemap or feed was answered (any status but 429 and 5xx), and read if there was one.

    It leaves the queue for `sitemaps`, is in no view of pages and not queued by a link again; what
    it listed was handed to `add` before."""

    id: int
    slot: str
    status: int
    fetched_at: float  # Unix seconds
    kind: str | None = None  # "urlset" | "index" | "rss" | "atom" | "text"; None: none of these
    body_bytes: int = 0  # uncompressed
    urls: int = 0  # taken from it, new or not
    error: str | None = None  # what was wrong with it, in words
    links: Sequence[Link] = ()  # where it redirects to
    plan: Plan | None = None  # None: it is read again only when it is named anew
    again: bool = False  # it was read before, and has had a plan to this moment


class Blocked(Struct, frozen=True, kw_only=True):
    id: int
    slot: str
    reason: BlockReason
    dialect: str
    rule: str | None  # the deciding line without its comment
    line: int | None  # counted from 1
    robots_url: str
    blocked_at: float  # Unix seconds


class Failed(Struct, frozen=True, kw_only=True):
    id: int
    slot: str
    error: str  # "CODE: sentence"
    attempts: int
    last_at: float  # Unix seconds


class Retry(Struct, frozen=True, kw_only=True):
    """Stays queued, not due before `due_in_s`.

    It goes behind its host's URLs of the same priority that were not tried yet, and behind those
    that were retried before it, whatever their depth."""

    id: int
    slot: str
    due_in_s: float
    attempts: int  # spent so far
    refusals: int  # 429 and 503 met so far
    error: str


class Dropped(Struct, frozen=True, kw_only=True):
    """Leaves the frontier: scope, judged again at the turn, no longer wants it.

    Counted in `skipped`. A later link to it queues it again."""

    id: int
    slot: str
    reason: str


class Moved(Struct, frozen=True, kw_only=True):
    """Stays queued but belongs to another slot now (`politeness.per` was changed).

    Its whole origin moves with it, in every state: an origin belongs to one slot."""

    id: int
    slot: str
    to_slot: str


Outcome = Visited | Revisited | SitemapRead | Blocked | Failed | Retry | Dropped | Moved


class Judged(Struct, frozen=True, kw_only=True):
    """A stored page or blocked URL to be judged again by a newer robots copy."""

    id: int
    url: str


class Unplanned(Struct, frozen=True, kw_only=True):
    """A visited URL that has no plan."""

    id: int
    url: str
    status: int
    fetched_at: float
    listing: Listing | None
