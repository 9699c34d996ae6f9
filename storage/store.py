"""What the crawl asks of its durable state: the `Store` protocol, the errors.

The docstrings here are the contract. Every backend passes `tests/storage/contract`. What crosses it
(`storage.url_records`, `storage.host_records`, `storage.records`) and the other protocol, `Reader`
(`storage.reader`), may be imported from here.

Two habits run through it. Times that belong to a host's clock cross this seam as *durations*
(`..._in_s`, from now): the crawl counts on its own monotonic clock, the store on one wall clock
that all its workers share, and neither has to believe the other's. Times that are history
(`fetched_at`, `blocked_at`) are Unix seconds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, Protocol

from policies.robots_state import RobotsState
from storage.host_records import (
    Contact,
    HostClock,
    HostUpdate,
    Lease,
    Outlook,
    Prefetch,
    Prefetched,
    RobotsDue,
)
from storage.reader import Reader
from storage.records import Batch, Completed, Row, RowPage, Stats
from storage.transient_faults import TransientFaults
from storage.url_records import (
    Before,
    Blocked,
    BlockReason,
    Dropped,
    Failed,
    Judged,
    Link,
    Looked,
    Malformed,
    Moved,
    Outcome,
    Outlink,
    Plan,
    Pointer,
    Queued,
    Rel,
    Retry,
    Revisited,
    SitemapRead,
    Unplanned,
    UrlState,
    Visited,
)

__all__ = [
    "SEEDS_AT_ONCE",
    "SUSPECT_REST_S",
    "Batch",
    "Before",
    "BlockReason",
    "Blocked",
    "Completed",
    "Contact",
    "Dropped",
    "Failed",
    "HostClock",
    "HostUpdate",
    "Judged",
    "Lease",
    "Link",
    "Looked",
    "Malformed",
    "Moved",
    "Outcome",
    "Outlink",
    "Outlook",
    "Plan",
    "Pointer",
    "Prefetch",
    "Prefetched",
    "Queued",
    "Reader",
    "Rel",
    "Retry",
    "Revisited",
    "RobotsDue",
    "Row",
    "RowPage",
    "SitemapRead",
    "Stats",
    "Store",
    "StoreError",
    "StoreRefused",
    "Unplanned",
    "UrlState",
    "Visited",
]

SUSPECT_REST_S: Final = 3.0  # a process killed again soon finds no suspect in flight
SEEDS_AT_ONCE: Final = 5_000  # URLs of a piece of `seeds`: a million is 200 MB


class StoreError(Exception):
    """The store cannot go on (file damaged, replaced or read-only). Nothing committed is lost.

    The message is one whole sentence for the person who runs the crawl.
    """


class StoreRefused(StoreError):  # noqa: N818 - it is a kind of StoreError, named for what happened
    """The store was refused before anything was touched: not ours, newer than us, or in use."""


class Store(Protocol):
    """Durable state of one crawl. One session writes; all its calls may be made concurrently.

    Every method is one transaction, but for two that say otherwise. A cancelled call either
    happened whole or not at all, and never leaves a transaction open. A failure that passes by
    itself (another program's lock, a full disk, too many open files) makes a call slow: it is
    repeated until it succeeds, and `troubles` says why meanwhile. Any other failure of the medium
    is raised as StoreError, after which every call raises StoreError: the caller stops.

    A value that a database refuses (a number too large, text that is no Unicode) costs what has it
    and nothing else, and is logged. `complete` stores a Failed with the code `internal` instead of
    such an outcome, without its links (a Revisited without a plan where it was visited before);
    `add` leaves such a link out; `robots_put` leaves the copy out and gives `refused`; `plan`
    leaves the page without a plan; `rejudge` and `fail_host` store the block, or the failures,
    without the words. Of a host's update what cannot be stored is as if new, but for its wait. A
    name that cannot be stored is not known. That takes further transactions.
    """

    @property
    def faults(self) -> TransientFaults:
        """Why calls take so long now, if they do."""
        ...

    def set_patience(self, seconds: float) -> None:
        """How long trouble is waited for before it counts as a failure after all, from its
        beginning, or from now if it has begun. Half a minute until this is called: there is nobody
        yet who could show why a call takes so long."""
        ...

    async def open_session(self, name: str) -> int:
        """Begin to write; give the number of this session.

        Leases of sessions before it are void (this session holds the only lock): their hosts become
        claimable at once, as not clean. Does not read the frontier: opening takes well under a
        second whatever its size. Raises StoreRefused if another process holds the store.
        """
        ...

    def in_flight(self, id_: int) -> None:
        """A request for this URL is about to be sent. It is in flight until an outcome of it is
        committed. If the process dies before, `open_session` makes it a `suspect`, due for its next
        attempt after SUSPECT_REST_S (a sitemap is due immediately: a run that visits few pages
        would never read it); a suspect it makes fail as `quarantined`. Not for a clean end:
        `close` was called. Returns immediately, and raises nothing."""
        ...

    def not_in_flight(self, id_: int) -> None:
        """It is not after all, and no outcome of it will come."""
        ...

    def robots_in_flight(self, slot: str, origin: str) -> None:
        """The robots.txt of an origin is being fetched, read or stored. If the process dies before
        `robots_not_in_flight`, `open_session` makes it a suspect, and a suspect it quarantines
        (`policies.quarantine`). Returns immediately, and raises nothing."""
        ...

    def robots_not_in_flight(self, slot: str, origin: str) -> None: ...

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
        """What scope is relative to: the seeds given, and of the URLs that their redirects led to
        (`hops`) those visited that redirect no further. In pieces of at most SEEDS_AT_ONCE, oldest
        first, none of them empty; each is a transaction.

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
          blocked, so does every visited URL that leads to it through any chain. Where very many
          do, they follow in further transactions before this returns; what a crash or a
          cancellation leaves of them follows with the next commit.
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
        copy: RobotsState,
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

    async def robots_get(self, origin: str) -> RobotsState | None: ...

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

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Queue failed URLs again with no attempts spent; forget their hosts' connection failures
        and back-offs; give how many. `code`: those alone that failed with it. Quarantined
        robots.txt are released with them, and counted. In pieces, as `fail_host`."""
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

    async def forget(self, slot: str) -> None:
        """A caller that brings its own URLs, and may run forever, has released this host. A store
        in memory deletes what it knows of it, unless URLs belong to it; a file keeps that."""
        ...

    async def outlook(self, session: int) -> Outlook:
        """When work not held falls due."""
        ...

    async def stats(self) -> Stats: ...
