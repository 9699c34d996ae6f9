"""The durable state of one crawl: the `Store` protocol, which every storage engine implements.

The docstrings here are the contract; `tests/storage/contract` holds every engine to it. The values
that cross it (`storage.url_records`, `storage.records`, `storage.read_records`) and the errors can
be imported from here.

Two kinds of time cross this seam:

- Times of a host's clock, and times at which URLs fall due, are *durations* in seconds from now
  (`..._in_s`, `..._s`), because the crawler counts on a monotonic clock of its own, and the store
  on one clock that all workers share. The store's clock never runs backwards.
- Times of events that have happened (`fetched_at`, `blocked_at`) are Unix seconds.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from policies.robots_state import RobotsState
from storage.history import HistoryCounts, Mark
from storage.read_records import Row, RowPage, Stats
from storage.records import (
    Batch,
    Completed,
    Contact,
    Glance,
    HostClock,
    HostUpdate,
    Lease,
    LeasedAddress,
    Order,
    Outlook,
    Prefetch,
    Prefetched,
    Pulse,
    RobotsDue,
    StoreTelemetry,
    WorkerStatus,
)
from storage.store_errors import SEEDS_AT_ONCE, SUSPECT_REST_S, StoreError, StoreRefused
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
    "Glance",
    "HostClock",
    "HostUpdate",
    "Judged",
    "Lease",
    "LeasedAddress",
    "Link",
    "Looked",
    "Malformed",
    "Moved",
    "Order",
    "Outcome",
    "Outlink",
    "Outlook",
    "Plan",
    "Pointer",
    "Prefetch",
    "Prefetched",
    "Pulse",
    "Queued",
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
    "StoreTelemetry",
    "Unplanned",
    "UrlState",
    "Visited",
    "WorkerStatus",
]  # fmt: skip


class Store(Protocol):
    """The durable state of one crawl. One session writes at a time; in a store that is `shared`,
    any number of them do, one per worker. The calls of a session may be concurrent.

    **Atomicity.** Every method is one transaction, except where it says otherwise. A cancelled
    call has happened entirely or not at all.

    **Durability.** What a call has committed when it returns survives the death of the process. A
    power cut may lose the last commits, but never part of one.

    **Failures.** While a transient fault lasts (another program's lock, a full disk, too many open
    files), a call is repeated until it succeeds, and `faults` names the cause; see `set_patience`.
    Any other failure of the medium raises StoreError, and so does every call after it.

    **Repetition.** A caller that does not learn whether `complete` was committed (StoreError, or
    the death of the process) may repeat its outcomes in a later session: an outcome that no longer
    applies to its URL changes nothing.

    **Refused values.** A value that the engine cannot store (a number that is too large, a string
    that is not valid Unicode) affects only the item that contains it, takes further transactions,
    and is logged. What is stored instead:

    - `complete`: a Failed with the code `internal`, without the links; for a URL that was visited
      before, a Revisited without a plan.
    - `add` and `acquire`: nothing; the link, or the host, is left out.
    - `robots_put`: everything but the copy; `Completed.refused` names the error.
    - `plan`: nothing; the page has no plan.
    - `put_history`: nothing.
    - `rejudge` and `fail_host`: the block, or the failures, without the strings.
    - A HostUpdate: the default of the field, and WAIT_INSTEAD_S as the wait.
    - A lookup by such a name finds nothing.
    """

    # ------------------------------------------------------------ sessions

    @property
    def faults(self) -> TransientFaults:
        """The transient fault that calls are waiting for, if any."""
        ...

    def set_patience(self, seconds: float) -> None:
        """Set how long a transient fault may last before it counts as a failure: this long from
        its beginning, or from now if it has begun. 30 s until this is called."""
        ...

    async def open_session(self, name: str) -> int:
        """Open the store for writing and begin a session; return its number, above all before.

        Leases of earlier sessions become void: their hosts can be claimed immediately, as not
        `clean`. In a shared store, this happens to the leases of a session only when it has ended,
        or was not renewed in time (see `pulse`). Opening does not read the frontier, so it takes
        well under a second at any size. Raises StoreRefused if another process has the store open
        that cannot share it.
        """
        ...

    async def name_session(self, session: int, name: str) -> None:
        """Give the session another name."""
        ...

    async def close(self, session: int | None = None) -> None:
        """End the session and release the store. Hosts that were not released stay not `clean`."""
        ...

    def in_flight(self, id_: int) -> None:
        """Record that a request for this URL is about to be sent. Returns immediately and never
        raises.

        The URL is in flight until an outcome of it is committed. If the process dies before that
        (without `close`), the next `open_session` marks the URL as a suspect, due after
        SUSPECT_REST_S (a sitemap: immediately, so that runs that visit few pages read it at all).
        A URL that is a suspect already fails as `quarantined` instead.
        """
        ...

    def not_in_flight(self, id_: int) -> None:
        """Record that this URL will have no outcome after all."""
        ...

    def robots_in_flight(self, slot: str, origin: str) -> None:
        """As `in_flight`, for fetching, parsing and storing the robots.txt of an origin, until
        `robots_not_in_flight`; see `policies.quarantine`."""
        ...

    def robots_not_in_flight(self, slot: str, origin: str) -> None:
        """Record that this robots.txt is stored, or not fetched after all."""
        ...

    # ------------------------------------------------------------ workers of a shared store

    @property
    def shared(self) -> bool:
        """Whether several sessions may write at a time. If not, `pulse` is never needed."""
        ...

    async def pulse(self, session: int, status: WorkerStatus) -> Pulse | None:
        """Renew the session, and report what this worker does; to be called about once a second,
        one call at a time.

        The worker may contact its hosts until `Pulse.lease_s` after it *made* the latest call that
        was answered, by a clock that also counts while the machine sleeps; before the first
        answer, none. A session that others have not seen renewed for that long, and some seconds
        more, by their own clocks, loses its leases. If it is still alive, the next answer is
        `lost`: it can claim hosts again, but holds none.

        The worker may contact the addresses that it reports and is answered with, until the
        answer to a call that does not report them, or without them. One that it did not hold before
        may have been contacted by others until now.

        None: the database cannot be reached at present. That is answered within a third of the
        lease, without waiting for calls that are being repeated (see `faults`). Raises StoreError
        if the failure will not pass.
        """
        ...

    async def publish(self, session: int, order: Order) -> None:
        """Send an order to all other live workers, who receive it with their next pulses."""
        ...

    # ------------------------------------------------------------ links and outcomes

    async def add(
        self, links: Sequence[Link], *, revive: bool = False, referrer: int | None = None
    ) -> Completed:
        """Insert new URLs (seeds, entries of sitemaps) as `complete` does; `added` counts them.

        A known URL that is now a seed becomes one, and its depth is lowered to the link's. One
        that is now a sitemap becomes one, and is queued again if it was visited as a page, or read
        before `again_before`, or at a time that still lies more than a day ahead.

        The `data` of a known URL is replaced by that of a seed that has any.

        revive: also queue the failed URLs among them again; `added` counts those too.
        referrer: id of the sitemap that lists them.
        """
        ...

    def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        """Yield the URLs that scope is relative to, oldest first, in non-empty lists of at most
        SEEDS_AT_ONCE; each list is a transaction.

        These are the seeds that were given, and the URLs that redirects led to from them (`hops`)
        if those were visited and redirect no further. A caller that stops early must close the
        generator (`contextlib.aclosing`).
        """
        ...

    async def complete(self, session: int, batch: Batch) -> Completed:
        """Commit outcomes with their links, host clocks, skip counts and releases; then prefetch.

        - An outcome of a host whose lease is not this session's is dropped, and the slot is in
          `stale`; its links are stored. The batch names the lease by the epoch in the HostUpdate
          of that slot, which it must contain.
        - An outcome of a URL that is no longer queued is dropped as well, with these exceptions.
          An answer counts for a URL that has failed with its host meanwhile. A Visited with
          `again`, a Revisited and a Blocked (which withdraws the page) count for a visited URL; a
          Revisited, and a SitemapRead with `again`, count for a sitemap that has a plan.
        - A Visited of a URL that has become a sitemap changes nothing: it must be read as one.
        - New links are queued, up to `max_queries_per_path` (beyond it they are counted as skipped
          under `Skip.MAX_QUERIES_PER_PATH`; seeds are exempt), with the outcome's URL as referrer.
          An origin that is known stays in its slot (see `Moved`), and `added` counts it there.
        - A link to a queued URL by a shorter path lowers the URL's depth, which may move it forward
          in its host's queue. Nothing else about a known URL changes.
        - A Visited whose `redirect_url` is blocked is stored as blocked with the reason `redirect`
          and the target's verdict. When a URL becomes blocked, so does every visited URL that
          redirects to it, through any chain. If there are very many, some follow in further
          transactions before this returns; after a crash or a cancellation in between, the rest
          follows with the next commit.
        - `outlinks` are rows of the view `links` for as long as the page is visited. Their targets,
          and `canonical_url`, are recorded but not queued.
        - The counters of hosts change in the same transaction.
        """
        ...

    # ------------------------------------------------------------ leases

    async def claim(
        self, session: int, *, hosts: int, urls_per_host: int, referrers: bool = False
    ) -> Sequence[Lease]:
        """Lease up to `hosts` free hosts that may be contacted now and have queued URLs due, with
        up to `urls_per_host` URLs each. The host that became ready first is first; of equal ones,
        the one that was leased longest ago. Paused hosts are left out. referrers: as in
        Prefetch."""
        ...

    async def acquire(self, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
        """Lease these hosts, whether known or not, without prefetched URLs. Slots that are already
        leased are missing from the result."""
        ...

    async def glance(self, session: int, slot: str) -> Glance | None:
        """Return what is stored of a host, without leasing it; None if it is unknown, as it then
        remains."""
        ...

    async def outlook(self, session: int) -> Outlook:
        """Return when work of hosts that are not leased falls due."""
        ...

    async def forget(self, slot: str) -> None:
        """Tell the store that a caller with URLs of its own has released this host. A store in
        memory deletes what it knows of the host, unless URLs belong to it or it is leased; a store
        in a file keeps it."""
        ...

    # ------------------------------------------------------------ recrawls

    async def revisits_due(self, session: int, *, limit: int) -> Sequence[str]:
        """Return slots of free hosts that may be contacted now and have visited URLs due again,
        the longest due first. Lease them with `acquire`, and prefetch with `revisits`."""
        ...

    async def unplanned(
        self, session: int, *, after: int, limit: int
    ) -> tuple[Sequence[Unplanned], int | None]:
        """Return the visited URLs without a plan among the `limit` ids above `after`, and the
        `after` of the next call (None at the end). They were visited while recrawling was off."""
        ...

    async def plan(self, session: int, plans: Mapping[int, Plan]) -> None:
        """Store plans by the id of the URL. URLs that are not visited, or have a plan, are left
        unchanged."""
        ...

    # ------------------------------------------------------------ robots.txt

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
        """Store the robots state of an origin.

        also: the host's clock, written if its lease is still this session's.
        links: the sitemaps that the file names, inserted as by `add`.
        rejudge: mark the origin: what was judged before must be judged again. The mark lasts until
        `rejudge_done`. An `ungoverned` page that is committed while the stored state has no
        failures sets the mark as well, because that page was requested before the answer came.
        """
        ...

    async def robots_get(self, origin: str) -> RobotsState | None:
        """Return the stored robots state of an origin; None if it was never requested."""
        ...

    async def robots_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        """Return origins whose robots.txt is due (its retry or expiry time has passed), the longest
        due first: of free hosts that are not paused and may be contacted now, and only if URLs
        depend on it (queued, blocked, or fetched without an answer)."""
        ...

    async def rejudge_due(self, session: int, *, limit: int) -> Sequence[RobotsDue]:
        """Return marked origins that have something to judge again (pages marked `ungoverned`, or
        the URLs of `blocked_by_robots`), the longest marked first.

        Judging contacts nobody, so leased and paused hosts count too. A mark without anything to
        judge is kept: an outcome may still be on its way."""
        ...

    async def rejudge_all(self, session: int) -> None:
        """Mark every origin that has something to judge, after a change of the config."""
        ...

    async def rejudge_done(self, session: int, origin: str) -> None:
        """Clear the mark. A caller that stored another copy meanwhile must judge again instead.
        Does nothing for an origin that is not marked."""
        ...

    async def ungoverned(self, origin: str, *, limit: int) -> Sequence[Judged]:
        """Return some visited pages that were fetched while the origin counted as open for lack of
        an answer. Judge them, and call `rejudge`."""
        ...

    async def blocked_by_robots(self, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
        """Return URLs of the origin that are blocked with the reason `robots` or `noindex-line`,
        with ids above `after`, ascending."""
        ...

    async def rejudge(
        self,
        session: int,
        *,
        kept: Sequence[int],
        withdrawn: Sequence[Blocked],
        freed: Sequence[int],
    ) -> Completed:
        """Apply new verdicts. Redirect chains follow as in `complete`.

        kept: pages that lose their `ungoverned` mark.
        withdrawn: pages that become blocked, with `withdrawn = 1`.
        freed: blocked URLs that are queued again, with the redirects that were blocked for them.
        """
        ...

    # ------------------------------------------------------------ commands

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
        """Fail every queued URL of a leased host, or of one of its origins; return how many.

        This is one transaction for every few thousand URLs, so that other calls need not wait for
        a million. After a crash in between, the rest is still queued. The first one writes the
        clock, and the last one releases the host if `update` says so."""
        ...

    async def retry_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Queue failed URLs again, as if never tried, and forget connection failures and backoffs
        of their hosts; return how many URLs. Several transactions, as `fail_host`.

        code: only URLs that failed with this code. Quarantined robots.txt are released (and
        counted) for `quarantined` and for None."""
        ...

    async def drop_failed(self, host: str | None = None, code: str | None = None) -> int:
        """Take failed URLs, of one host or with one code, out of view, as `Dropped`; return how
        many. They count as skipped, and a later link or seed queues them again. Several
        transactions, as `fail_host`."""
        ...

    async def set_controls(
        self,
        slots: Sequence[str],
        *,
        paused: bool | None = None,
        slow_s: float | None = None,
        clear_slow: bool = False,
    ) -> int:
        """Pause or slow hosts until further notice, in one transaction, for which other calls wait:
        a few hundred at a time. Return how many are known.

        An existing lease is not affected. None leaves a setting unchanged; `clear_slow` removes the
        delay. A changed delay applies to a free host as by `recheck_delays`."""
        ...

    async def recheck_delays(self, session: int) -> None:
        """Let free hosts that only wait for their politeness delay be claimed now, because delays
        may have become shorter. Whoever leases such a host computes what is left of its delay from
        `HostClock.rested_s`. Hosts that wait for anything else, and those whose lease would not
        contain all their robots copies, are left unchanged."""
        ...

    async def set_paused(self, paused: bool) -> None:
        """Remember whether an operator has paused the crawl. Leases are granted either way."""
        ...

    async def paused(self) -> bool:
        """Return the value of the last `set_paused`; False before the first."""
        ...

    async def put_history(
        self, session: int, counts: Sequence[HistoryCounts], marks: Sequence[Mark]
    ) -> None:
        """Write steps and marks of the history, in place of what was written of them before.

        Minutes that several sessions have counted are merged after MERGED_AFTER_S, a few with each
        call. Minutes are folded into hours after MINUTES_KEPT_S, a few hundred with each call;
        hours and marks are deleted after HOURS_KEPT_S. If there are more than MINUTE_ROWS_MAX
        minutes or MARKS_MAX marks, the oldest are folded or deleted earlier."""
        ...

    async def stats(self) -> Stats:
        """Return the counts. Answers without waiting, even while other calls are repeated."""
        ...

    def telemetry(self) -> StoreTelemetry:
        """Return what was counted of renewals and of faults, for monitoring."""
        ...
