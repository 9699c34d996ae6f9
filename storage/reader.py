"""The `Reader` protocol: reading a store, beside a crawl or after it."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from policies.robots_state import RobotsState
from storage.history import History


class Stats(Struct, frozen=True, kw_only=True):
    """Row counts of the views, the sum of body bytes, and how often the database was found to have
    gone back in time, the last time at `returned_at` (Unix seconds by the server's clock)."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    body_bytes: int
    returns: int = 0
    returned_at: float | None = None


Row = Mapping[str, object]  # one row of a view, by column name


class StoredReason(enum.StrEnum):
    """What a host with queued URLs waits for, as far as its row tells."""

    READY = "ready"  # nothing
    DELAY = "delay"  # its next contact: a politeness delay, or a visit window
    BACKOFF = "backoff"
    PAUSED = "paused"  # by an operator
    UNREACHABLE = "unreachable"  # it could not be connected to
    LATER = "later"  # retries that are not due, or a robots.txt that could not be fetched


class UrlList(enum.StrEnum):
    """A list of URLs: a view."""

    QUEUED = "queued"
    FAILED = "failed"
    VISITED = "visited"


class UrlFilter(Struct, frozen=True, kw_only=True):
    """Which URLs a page contains. `code` applies to failed URLs, `status` to visited ones."""

    state: UrlList
    host: str | None = None
    text: str = ""  # contained in the URL, ignoring case in A to Z
    code: str = ""  # with which they failed
    status: int | None = None


class HostsHeld(Struct, frozen=True, kw_only=True):
    """Hosts whose queued URLs wait for the same: those whose rows tell one of the `stored` reasons,
    except the `others`, and the `named` ones. Hosts in memory are in one of the last two."""

    stored: Sequence[StoredReason]
    named: Sequence[str] = ()
    others: Sequence[str] = ()


class EarlierCopy(Struct, frozen=True, kw_only=True):
    """A robots.txt that applied until another answer came, at `replaced_at`. It was last fetched or
    confirmed at `copy_at` (None: not known). Times in Unix seconds."""

    body: bytes
    copy_at: float | None
    replaced_at: float


class BlockedGroups(Struct, frozen=True, kw_only=True):
    """Blocked URLs by host, reason and rule. Each row has `host`, `reason`, `rule`, `line` and
    `robots_url` (None if there are several, or none), `urls` (how many), and `last_at` (Unix
    seconds: when the last one was blocked). more: there are further groups. complete: all blocked
    URLs were looked at, and not just some 100,000 of them."""

    rows: Sequence[Row]
    more: bool
    complete: bool


class RowPage(Struct, frozen=True, kw_only=True):
    """Some rows of a view. `after` requests the next page; None: this is the last one."""

    rows: Sequence[Row]
    after: str | None


class Reader(Protocol):
    """Reads without changing anything, also while a crawl writes to the store.

    Rows have the columns of `storage.columns.VIEWS`, which docs/database.md describes. A caller
    that does not exhaust a generator must close it (`contextlib.aclosing`) before the reader.
    """

    async def close(self) -> None:
        """Release the store."""
        ...

    async def stats(self) -> Stats:
        """Return the counts."""
        ...

    def seeds(self) -> AsyncGenerator[Sequence[str], None]:
        """As `Store.seeds`."""
        ...

    async def sessions(self) -> Sequence[str]:
        """Return the names of the latest 20 sessions, newest first."""
        ...

    async def workers(self) -> Sequence[Row]:
        """Return the live workers of a shared store, in the order of their `id`; () for others.

        Each has `id` (its session), `name`, `host` (of its machine), `pid`, `began_at` (Unix
        seconds), `seen_s` (seconds since it was last renewed), and `idle`, `hosts`, `in_flight`,
        `pages`, `pages_per_s`, `uncommitted` and `held` of its last WorkerStatus.
        """
        ...

    async def paused(self) -> bool:
        """As `Store.paused`."""
        ...

    async def table_sizes(self) -> Sequence[Row]:
        """Return the largest tables of a database on a server, the largest first; () for others.

        Each has `table` (its name), `bytes` (with its indexes), and, as the server estimates them,
        `rows` and `dead_rows`, whose space is reused once the table is vacuumed.
        """
        ...

    async def queue_holds(self, now_s: float) -> Sequence[Row]:
        """Return what the queued URLs wait for, by reason; their sum is that of all `queued` of the
        hosts, at one moment. now_s: Unix seconds.

        Each row has `reason` (StoredReason), `urls`, `hosts`, `first_at` and `last_at` (Unix
        seconds: when the first and the last of its hosts may be contacted), and `through_at`: when
        the slowest would be done if every URL took one request; `visited_hosts`: how many of the
        hosts have visited URLs; `gone_hosts`: how many of those could not be connected to at
        last. `host` is "", or, for a host that a session holds, its name: that session knows more
        about it.
        """
        ...

    async def history(self, *, from_s: float, to_s: float) -> History:
        """Return the history of a span of time (Unix seconds), as `Store.put_history` has written
        it: the steps of all sessions that touch it; the marks in it, those that began before and
        lasted, and the last start, pause or resumption before it."""
        ...

    def iterate(
        self, view: str, *, host: str | None = None, limit: int | None = None
    ) -> AsyncGenerator[Row, None]:
        """Yield the rows of a view in a stable order.

        A few hundred rows are read at a time, and no transaction is open in between, so a URL that
        changes its state meanwhile may be missing, or be in two views.

        host: only the rows of one host; for `links`, `malformed` and `fragments`, those of its
        pages. Raises ValueError for `skipped`, whose rows belong to no host, and for an unknown
        view.
        """
        ...

    async def hosts_page(
        self,
        *,
        search: str = "",
        pattern: str = "",
        state: str = "all",
        held: HostsHeld | None = None,
        sort: str = "host",
        limit: int = 100,
        after: str = "",
        now_s: float = 0.0,
    ) -> RowPage:
        """Return some rows of `hosts`. A host that changes its place in the order between two pages
        may appear twice, or not at all.

        search: only hosts whose name contains this, ignoring case.
        pattern: only hosts whose whole name is like this, in lower case: `*` stands for any
        characters, and a leading `*.` also covers the name after it.
        held: only hosts with queued URLs that wait for this, as of `now_s`.
        state: a `storage.paging.HostFilter`, as of `now_s` (Unix seconds).
        sort: one of `storage.paging.HOST_SORTS`, after "-" for descending order; then by name.
        after: from the page before.

        Raises ValueError for invalid arguments.
        """
        ...

    async def blocked_page(
        self,
        *,
        host: str | None = None,
        rule: str = "",
        exact: bool = False,
        reason: str = "",
        limit: int = 100,
        after: str = "",
    ) -> RowPage:
        """Return some rows of `blocked` in a stable order: of one host (as in `iterate`), and with
        rules that contain `rule` (ignoring case in A to Z).

        exact: with this rule, or, if it is "", with none. reason: with this `BlockReason` only.

        Raises ValueError as `hosts_page`.
        """
        ...

    async def blocked_groups(
        self,
        *,
        host: str | None = None,
        rule: str = "",
        exact: bool = False,
        reason: str = "",
        limit: int = 100,
    ) -> BlockedGroups:
        """Count blocked URLs by host, reason and rule, the most first; filters as of
        `blocked_page`. Raises ValueError for an invalid limit."""
        ...

    async def urls_page(self, wanted: UrlFilter, *, limit: int = 100, after: str = "") -> RowPage:
        """Return some rows of the view `wanted.state`, those found last first. A page may have
        fewer than `limit` rows, even none, although another follows: only some thousands of URLs
        are looked through for each. Raises ValueError as `hosts_page`."""
        ...

    async def failures_by_code(self) -> Mapping[str, int]:
        """Count the failed URLs by their failure code, the most frequent first; of more than
        200,000, those found last."""
        ...

    async def seeds_page(
        self, *, text: str = "", state: str = "", limit: int = 100, after: str = ""
    ) -> RowPage:
        """Return some seeds with the columns `storage.columns.SEED_COLUMNS`, those added last
        first; otherwise as `urls_page`. `state`: a view, or `sitemap` or `skipped` (out of
        scope)."""
        ...

    async def robots_states(self, hosts: Sequence[str]) -> Mapping[str, str]:
        """Return the `state` of the view `robots` by host. If a host has several origins, another
        state than "rules" wins. Hosts whose robots.txt was never requested are missing."""
        ...

    async def blocked_lines(self, origin: str, *, limit: int = 100_000) -> Mapping[int, int]:
        """Count, for each line of the stored robots.txt of an origin, the URLs that it blocks,
        among the first `limit` blocked URLs."""
        ...

    def report(self, kind: str) -> AsyncGenerator[Row, None]:
        """Yield the rows of a report, with the columns of `storage.columns.REPORTS`.

        - `broken`: URLs that failed or were answered with status 400 or above, each with the pages
          that link to it, or to a redirect (`via`) that ends there: all pages if links are stored,
          otherwise the first. A URL without such a page has one row. Rows of a URL are adjacent.
          `kind` is "link" or a `Rel`.
        - `malformed`: the rows of that view, ordered by href and reason.
        - `dangling`: links with a fragment that does not exist on the page at `url`: the fragment,
          the page with the link, and the target of the link if redirects (`via`) lead from there.
          Rows of a URL and fragment are adjacent.
        - `looked`: one row: the number of HTML pages (2xx), and of how many of them each part was
          extracted (see `Looked`).
        - `forbidden`: blocked URLs with the pages that link to them, ordered by host and rule.
        - `duplicates`: pages (2xx) with the same body as another; those of a body are adjacent.
        """
        ...

    async def url(self, url: str) -> Row | None:
        """Return all that is stored about a canonical URL; None for an unknown one.

        The row has the columns of its view, and: `state` (the name of the view), `host` (its slot),
        `origin`, `referrer`, `anchor`, `data` (JSON text, or None), `sitemap` (whether it is one),
        `listing` (its row of `listings`, or None); `seed`, `requisite` and `hops` as in its `Link`;
        for a queued URL the last `error`. The state is `sitemaps` for a sitemap that was read, and
        `skipped`, with a `reason`, for a URL that scope excludes by now (None: only a redirect led
        to it).
        """
        ...

    async def host(self, host: str) -> Row | None:
        """Return the row of `hosts` with `contacts` (the ring, oldest first) and `robots` (its rows
        of that view)."""
        ...

    async def next_urls(self, host: str, *, limit: int = 20, now_s: float) -> Sequence[Row]:
        """Return queued URLs of a host in the order in which they would be leased: those that are
        due at `now_s` (Unix seconds) by priority, then the others by `due_at`.

        Each row has `id`, `url`, `priority`, `depth`, `due_at` (Unix seconds; None: now),
        `attempts`, `error` (of the last one, or None), and `sitemap` (whether it is one). Of a host
        with very many origins, some are left out. Raises ValueError for an invalid limit.
        """
        ...

    async def sampled_urls(self, origin: str, *, limit: int = 200) -> Sequence[str]:
        """Return the queued and visited ones among up to `limit` URLs of an origin, in no order
        that has a meaning. Raises ValueError for an invalid limit."""
        ...

    async def robots_copy(self, origin: str) -> RobotsState | None:
        """Return the stored robots state of an origin, with its body."""
        ...

    async def robots_before(self, origin: str) -> EarlierCopy | None:
        """Return the robots.txt of an origin that applied before the stored one, if there was
        one."""
        ...

    async def robots_body(self, url: str) -> bytes | None:
        """Return the robots.txt by which a blocked URL was judged, even if replaced since."""
        ...
