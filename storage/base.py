"""What the crawl asks of its durable state: the records, the `Store` protocol, the errors.

The docstrings here are the contract. Every backend passes `tests/storage/contract`.

Two habits run through it. Times that belong to a host's clock cross this seam as *durations*
(`..._in_s`, from now): the crawl counts on its own monotonic clock, the store on one wall clock
that all its workers share, and neither has to believe the other's. Times that are history
(`fetched_at`, `blocked_at`) are Unix seconds.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from policies.access import Access
from policies.listing import Listing

SEEDS_AT_ONCE = 5_000  # URLs of a piece of `seeds`: a million is 200 MB


class StoreError(Exception):
    """The store cannot go on (disk full, file damaged, a foreign lock). Nothing committed is lost.

    The message is one whole sentence for the person who runs the crawl.
    """


class StoreRefused(StoreError):  # noqa: N818 - it is a kind of StoreError, named for what happened
    """The store was refused before anything was touched: not ours, newer than us, or in use."""


class State(enum.IntEnum):
    """The one state of a URL."""

    QUEUED = 0
    VISITED = 1
    BLOCKED = 2
    FAILED = 3


class BlockReason(enum.StrEnum):
    ROBOTS = "robots"
    REDIRECT = "redirect"
    NOINDEX_LINE = "noindex-line"


# ---------------------------------------------------------------- what goes in


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A URL to insert if it is new. `url` is canonical; scope has already passed it."""

    url: str
    slot: str  # the politeness slot: a host, or a registrable domain
    host: str
    depth: int
    priority: float = 0.0  # larger goes first
    seed: bool = False  # given by the user, or what a seed redirects to: scope is relative to it
    anchor: str | None = (
        None  # text of the first link, white space collapsed, at most 200 characters
    )
    requisite: bool = False  # what a page needs to be shown: scope was widened for it
    # A sitemap or feed, and no page: see `SitemapRead`. One that is known as a page becomes one.
    sitemap: bool = False
    # If it was last read as a sitemap, or found unchanged, before this (Unix seconds), it is to be
    # read again.
    again_before: float | None = None
    # What a sitemap says of it; it replaces what one said before. If that knows of a change after
    # the last visit (and not of one to come), the next visit is due at once.
    listing: Listing | None = None


class Rel(enum.StrEnum):
    """What a link is, besides a plain one. Rows are stored by their place in this order."""

    NOFOLLOW = "nofollow"
    CANONICAL = "canonical"
    REDIRECT = "redirect"
    REQUISITE = "requisite"


class Outlink(NamedTuple):
    """One link of a page, for the view `links`. (A tuple because a page has a hundred of them.)"""

    url: str  # canonical
    anchor: str | None
    rel: Rel | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When a visited URL is to be visited again, and what that visit is compared with."""

    due_in_s: float  # from now
    interval_s: float  # it waits so long because of what was seen; from visit to visit
    checked_at: float  # Unix seconds: the last answer, 304 included
    changed_at: float  # Unix seconds: the last answer that said something new
    visits: int = 1  # answers so far
    failures: int = 0  # tries in a row without an answer
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visited:
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
    plan: Plan | None = None  # None: it is not to be visited again
    again: bool = False  # it was visited before, and is so to this moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisited:
    """A visited URL, or a sitemap that was read, stays as it was: nothing new was to be seen, or
    nothing at all (then the plan says so); or it is not to be visited again (None)."""

    id: int
    slot: str
    plan: Plan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SitemapRead:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    id: int
    slot: str
    reason: BlockReason
    dialect: str
    rule: str | None  # the deciding line without its comment
    line: int | None  # counted from 1
    robots_url: str
    blocked_at: float  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    id: int
    slot: str
    error: str  # "CODE: sentence"
    attempts: int
    last_at: float  # Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Stays queued, not due before `due_in_s`.

    It goes behind its host's URLs of the same priority that were not tried yet, and behind those
    that were retried before it, whatever their depth."""

    id: int
    slot: str
    due_in_s: float
    attempts: int  # spent so far
    refusals: int  # 429 and 503 met so far
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Leaves the frontier: scope, judged again at the turn, no longer wants it.

    Counted in `skipped`. A later link to it queues it again."""

    id: int
    slot: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Stays queued but belongs to another slot now (`politeness.per` was changed).

    Its whole origin moves with it, in every state: an origin belongs to one slot."""

    id: int
    slot: str
    to_slot: str


Outcome = Visited | Revisited | SitemapRead | Blocked | Failed | Retry | Dropped | Moved


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """A host's clock and counters as the worker that holds it knows them; durations from now.

    Written whole with every commit that touches the host, so that a crash loses none of it.
    """

    next_in_s: float = 0.0  # until the host may be contacted again
    rested_s: float | None = None  # since the end of its last contact; None: as stored before
    delay_s: float = 0.0  # the rest that now applies
    delay_source: str = ""  # where it comes from, in words
    latency_s: float | None = None  # smoothed response time
    backoff_level: int = 0  # refusals not yet forgiven
    backoff_in_s: float = 0.0  # until the Retry-After or back-off ends; 0: none
    denials: int = 0  # 401 and 403 in a row
    connect_failures: int = 0  # connections in a row that could not be made
    contacts: int = 0
    smallest_rest_s: float | None = None  # the least rest ever taken between two contacts
    peak_concurrency: int = 0
    breaches: int = 0  # contacts that began before their time (law 1 says: none, ever)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contact:
    """One contact for the host's ring of recent contacts."""

    start_at: float  # Unix seconds
    end_at: float
    kind: str  # "page" | "robots" | "sitemap"
    status: int | None  # None: no answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUpdate:
    """What a commit says of one held host. `release` gives the lease back in its transaction."""

    slot: str
    epoch: int
    clock: HostClock
    contacts: Sequence[Contact] = ()  # new ones, oldest first
    release: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Asks for up to `count` more due URLs of a held host, in the commit's transaction.

    Best first: larger priority, first tries before further ones, smaller depth, older. Of a host of
    very many origins it may be the best of some of them, each time of others."""

    slot: str
    count: int
    held: Sequence[int] = ()  # ids the worker holds: not to be given, unless this commit ends them
    closed: Sequence[str] = ()  # origins whose URLs cannot move now: not to be given
    queued: bool = True  # False: of queued ones none
    # Also visited URLs whose next visit is due, the longest due first: up to a quarter of `count`,
    # and in the place of queued ones that there are not.
    revisits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One commit: all of it or nothing."""

    outcomes: Sequence[Outcome] = ()
    hosts: Sequence[HostUpdate] = ()
    skipped: Mapping[str, int] = field(
        default_factory=dict
    )  # reason -> how many more were left out
    wants: Sequence[Want] = ()


# ---------------------------------------------------------------- what comes out


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A URL to visit."""

    id: int
    url: str
    depth: int
    priority: float
    attempts: int
    refusals: int
    seed: bool
    requisite: bool = False  # as its first Link said
    sitemap: bool = False
    before: Before | None = None  # it is visited, and to be visited again
    listing: Listing | None = None  # what a sitemap says of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of a visited URL, or a sitemap that was read, from the visits before.
    `due_in_s` of the plan is 0."""

    plan: Plan
    status: int
    redirect_url: str | None
    body_hash: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What a `Want` got. `next_due_in_s`: when the host's next URL (not given, not held, not of a
    closed origin) falls due, 0.0 if one is due already, None if there is no such URL.
    `next_revisit_in_s`: the same of visited URLs, if those were wanted.
    """

    urls: Sequence[Queued]
    next_due_in_s: float | None
    next_revisit_in_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to one host. `clean` is False when its last holder did not release it (law 6)."""

    slot: str
    epoch: int
    clean: bool
    clock: HostClock
    paused: bool
    slow_s: float | None  # a delay set by hand
    visited: int  # for max_pages_per_host
    robots: Mapping[str, Access]  # by origin; if there are many, of some with queued URLs first
    hand: Hand
    robots_all: bool = True  # whether those are all copies the store has for this slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    stale: frozenset[str]  # slots whose lease was lost: their outcomes and clocks were not stored
    added: Mapping[str, int]  # slot -> URLs newly queued there (links, and URLs that came back)
    hands: Mapping[str, Hand]  # slot -> what its Want got


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Row counts of the views, and the sum of body bytes."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    body_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """When work not held by this session falls due (durations from now; None: there is none)."""

    claimable_in_s: float | None  # the next host with queued URLs that is free
    robots_in_s: float | None  # the next origin whose robots.txt is due and governs something
    revisit_in_s: float | None = None  # the next visited URL of a free host that is due


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A stored page or blocked URL to be judged again by a newer robots copy."""

    id: int
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplanned:
    """A visited URL that has no plan."""

    id: int
    url: str
    status: int
    fetched_at: float
    listing: Listing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsDue:
    slot: str
    origin: str


Row = Mapping[str, object]  # one row of a view, by column name


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some rows of a view. `after` asks for the next; None: these are the last."""

    rows: Sequence[Row]
    after: str | None


class Reader(Protocol):
    """Looks without touching; works beside a crawl that holds the store.

    Columns are those of `storage.rows.VIEWS` (design section 6 and a few more)."""

    async def close(self) -> None: ...

    async def stats(self) -> Stats: ...

    def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        """All URLs marked as seed, as `Store.seeds`."""
        ...

    async def sessions(self) -> Sequence[str]:
        """Names of the latest sessions as `Store.open_session` was given them: the newest first, at
        most 20."""
        ...

    def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        """Rows of a view (`visited blocked failed queued links hosts robots skipped`), in a stable
        order.

        `host` keeps the rows of one host, of `links` those of its pages (ValueError for `skipped`,
        which has none). Who leaves it
        half-way closes it (`contextlib.aclosing`), before the reader.
        """
        ...

    async def hosts_page(
        self,
        *,
        search: str = "",
        state: str = "all",
        sort: str = "host",
        limit: int = 100,
        after: str = "",
        now_s: float = 0.0,
    ) -> Page:
        """Some rows of `hosts`: those whose name contains `search` (case ignored) and that are in
        `state` (`storage.paging.HostFilter`) at `now_s` (Unix seconds), by `sort` (one of
        HOST_SORTS; "-" before it descends), equal ones by name; at most `limit`, beginning behind
        the page that gave `after`. Raises ValueError for what is none of these.

        A host that moves in the order between two pages may come twice, or not at all."""
        ...

    async def blocked_page(
        self, *, host: str | None = None, rule: str = "", limit: int = 100, after: str = ""
    ) -> Page:
        """Some rows of `blocked`, in a stable order: of one host (as in `iterate`), by rules that
        contain `rule` (case ignored in A to Z). ValueError as `hosts_page`."""
        ...

    async def robots_states(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """What is known of the robots.txt of each of these hosts (`state` of the view `robots`): of
        one with several origins something else than "rules", where there is any. Hosts never
        asked, and not known, are missing."""
        ...

    async def blocked_lines(self, origin: str, *, limit: int = 100_000) -> Mapping[int, int]:
        """By which lines of the robots.txt now kept for an origin its URLs are blocked, and how
        many; of its first `limit` blocked URLs."""
        ...

    def report(self, kind: str) -> AsyncGenerator[Row, None]:
        """What a report is made of, as `storage.rows.REPORTS` has it; who leaves it half-way closes
        it, as with `iterate`.

        - `broken`: URLs that failed or answered 400 and more, each with the pages that link to it,
          or to a redirect (`via`) that ends there: all of them where links are kept, else the first
          known. One that nothing links to has a row of its own. Rows of one URL come together.
        - `forbidden`: blocked URLs with the pages that link to them, likewise; by host and rule.
        - `duplicates`: pages (2xx) whose body is that of another; those of one body together."""
        ...

    async def url(self, url: str) -> Row | None:
        """Everything known of one canonical URL: `state` (the view's name), that view's columns,
        `host` (its slot), `origin`, `referrer`, `anchor`; for a queued one the last `error`.

        One that is in no queue because scope no longer wants it, or because only a redirect named
        it, has the state `skipped` and a `reason` (None for the latter). A sitemap that was read
        has the state `sitemaps`; `sitemap` says of any URL whether it is one, `listing` what a
        sitemap said of it (a row of `listings`, or None)."""
        ...

    async def host(self, host: str) -> Row | None:
        """The row of `hosts`, with `contacts` (the ring, oldest first) and `robots` (its rows)."""
        ...

    async def robots_copy(self, origin: str) -> Access | None:
        """The robots copy now kept for an origin, body included."""
        ...

    async def robots_body(self, url: str) -> bytes | None:
        """The robots.txt a blocked URL was judged by, also when it has been replaced since."""
        ...


class Store(Protocol):
    """Durable state of one crawl. One session writes; all its calls may be made concurrently.

    Every method is one transaction, but for two that say otherwise. A cancelled call either
    happened whole or not at all, and never leaves a transaction open. Any failure of the medium is
    raised as StoreError, after which every call raises StoreError: the caller stops.
    """

    async def open_session(self, name: str) -> int:
        """Begin to write; give the number of this session.

        Leases of sessions before it are void (this session holds the only lock): their hosts become
        claimable at once, as not clean. Does not read the frontier: opening takes well under a
        second whatever its size. Raises StoreRefused if another process holds the store.
        """
        ...

    async def close(self, session: int | None = None) -> None:
        """End the session and let go of the file. Hosts not released stay not clean."""
        ...

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        """Insert what is new (seeds, sitemap entries), as `complete` does; `added` counts it.

        `referrer`: id of the sitemap that lists them. `revive`: failed ones return to the queue,
        and are counted. A link that is known but now a seed becomes one (its depth falls to the
        link's); one that is now a sitemap becomes one, and returns to the queue if it was visited
        as a page, or read before `again_before`."""
        ...

    def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        """All URLs marked as seed, given or reached by redirects: scope is relative to them. In
        pieces of at most SEEDS_AT_ONCE, oldest first, none of them empty; each is a transaction.

        Who leaves it half-way closes it (`contextlib.aclosing`)."""
        ...

    async def claim(self, session: int, *, hosts: int, urls_per_host: int) -> Sequence[Lease]:
        """Lease up to `hosts` free hosts that have queued URLs due, those that may be contacted
        soonest first, among equals the one served longest ago first. Paused hosts, and hosts whose
        next contact lies in the future, are left alone. Committed when this returns."""
        ...

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        """Lease these hosts, known or not, with empty hands. A slot held elsewhere is missing."""
        ...

    async def complete(self, session: int, batch: Batch) -> Completed:
        """Commit outcomes, their links, host clocks, skip counts and releases; then fill the wants.

        - An outcome of a slot whose lease (the epoch in that slot's HostUpdate, which must be in
          the batch) is not this session's is dropped and the slot named in `stale`; its links are
          kept. So is one of a URL that is not queued any more, except that an answer still counts
          for a URL that failed with its host meanwhile.
        - Links are inserted if new, under `max_queries_per_path` (else counted in skipped
          as `Skip.MAX_QUERIES_PER_PATH`; seeds are exempt). A link's referrer is the outcome's URL.
          A link of an origin that is known keeps to the slot that origin has (see `Moved`), and
          `added` names that slot. A link to a URL that is queued already, by a shorter way, lowers
          its depth and so may move it forward in its host's queue; the rest stays as first found.
        - A Visited with `redirect_url` whose target is blocked is stored as blocked, reason
          `redirect`, with the target's dialect, rule, line and robots_url; and when a URL becomes
          blocked, so does every visited URL that leads to it through any chain.
        - A Visited `again`, a Revisited and a Blocked also count for a URL that is visited (the
          latter withdraws it); the first two for no other, but a Revisited, and a SitemapRead
          `again`, for a sitemap that has a plan.
        - A Visited of a URL that is a sitemap by now changes nothing: it is to be read as one.
        - The `outlinks` of a visited page are rows of `links` as long as it is visited; their
          targets, and its `canonical_url`, are noted, and become no work.
        - Counters of `hosts` move with the states, in the same transaction.
        """
        ...

    async def robots_put(
        self,
        session: int,
        slot: str,
        origin: str,
        copy: Access,
        *,
        also: HostUpdate | None = None,
        rejudge: bool = False,
        links: Sequence[Link] = (),
    ) -> Completed:
        """Store what is known of an origin's robots.txt, with its host's clock (if still held), and
        insert the sitemaps it names (`links`) as `add` does.

        `rejudge`: what was judged before at this origin is to be judged again by this copy; the
        mark lasts until `rejudge_done`, whatever is put meanwhile. An `ungoverned` page committed
        when the copy stored is an answer (no failures) sets the mark as well: it came too late."""
        ...

    async def robots_get(self, origin: str) -> Access | None: ...

    async def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        """Origins not of a held host whose robots.txt is due (retry or expiry passed) and governs
        something: blocked or queued URLs, or pages fetched for lack of an answer. Origins never
        asked, of paused hosts, and of hosts that rest are left alone."""
        ...

    async def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        """Slots of free hosts, not paused and rested, that have visited URLs whose next visit is
        due, those first that wait longest. `acquire` them, and want `revisits`."""
        ...

    async def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        """Visited URLs without a plan (they were visited before anybody wanted to come back) among
        the `limit` URLs with ids above `after`; and the `after` of the next ones, None at the
        end."""
        ...

    async def plan(self, session: int, plans: Mapping[int, Plan]) -> None:
        """Give visited URLs their plans, by id; those that are not visited now, or have one, are
        left alone."""
        ...

    async def rejudge_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        """Origins marked by `robots_put` that have something to judge again (`ungoverned` pages, or
        URLs that `blocked_by_robots` gives), those marked longest ago first.

        Judging needs no contact: hosts that are held, by whomever, paused or resting count too. A
        mark where there is nothing to judge is not shown, but shows if something comes: an outcome
        of before may still be on its way."""
        ...

    async def rejudge_all(self, session: int) -> None:
        """Mark every origin that has something to judge again as `robots_put` does: the config
        reads robots.txt in another way now."""
        ...

    async def rejudge_done(self, session: int, origin: str) -> None:
        """Clear the mark: all was judged by the copy now stored. Who puts another copy while it
        judges begins again instead. An origin without a mark, or not known, is no error."""
        ...

    async def ungoverned(self, origin: str, *, limit: int) -> Sequence[Judged]:
        """Some visited pages of the origin marked `ungoverned`. Judge them and call `rejudge`."""
        ...

    async def blocked_by_robots(self, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
        """Some URLs of the origin blocked with reason `robots` or `noindex-line`, with ids above
        `after`, ascending."""
        ...

    async def rejudge(
        self,
        session: int,
        *,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
    ) -> Completed:
        """Apply new verdicts: `kept` pages lose their `ungoverned` mark; `withdrawn` ones move from
        visited to blocked with `withdrawn = 1` (chains that lead to them as in `complete`);
        `freed` ones move from blocked back to queued, and so do the redirects blocked for them
        (they are queued again, and asked for again)."""
        ...

    async def fail_host(
        self,
        session: int,
        update: HostUpdate,
        *,
        error: str,
        attempts: int,
        last_at: float,
        origin: str | None = None,
    ) -> int:
        """Fail every queued URL of a held host, or of one of its origins; give how many.

        Not one transaction, but one for every few thousand URLs, so that a million does not hold
        the store: a crash in between leaves the rest queued. The first one writes the clock."""
        ...

    async def retry_failed(self, host: str | None = None) -> int:
        """Queue failed URLs again with no attempts spent; forget their hosts' connection failures
        and back-offs; give how many. In pieces, as `fail_host`."""
        ...

    async def set_control(
        self,
        slot: str,
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> bool:
        """Pause or slow a host durably, whoever holds it; a lease that is out does not notice.
        `slow_s` None leaves the pace as it is, unless `clear_slow`; a changed pace rouses the host,
        if it is free (see `rouse`). False if the host is unknown."""
        ...

    async def rouse(self, session: int) -> None:
        """Delays may be shorter now: let free hosts that only rest from their last contact be
        claimed at once. Who leases one knows by `rested_s` what is left of its rest.
        Those that wait for anything else, and those of which a lease does not bring all robots
        copies, are left alone."""
        ...

    async def set_paused(self, paused: bool) -> None:
        """Remember whether the whole crawl is paused by hand. Who crawls obeys it; the store gives
        leases all the same."""
        ...

    async def paused(self) -> bool:
        """What `set_paused` was told last; False before."""
        ...

    async def name_session(self, session: int, name: str) -> None:
        """Give this session another name: it does otherwise now than when it was opened."""
        ...

    async def outlook(self, session: int) -> Outlook:
        """When work not held falls due."""
        ...

    async def stats(self) -> Stats: ...
