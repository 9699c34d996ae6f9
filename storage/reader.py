"""The `Reader` protocol: looking at a store beside a crawl, or after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from policies.robots_state import RobotsState


class Stats(Struct, frozen=True, kw_only=True):
    """Row counts of the views, and the sum of body bytes."""

    visited: int
    blocked: int
    failed: int
    queued: int
    hosts: int
    body_bytes: int


Row = Mapping[str, object]  # one row of a view, by column name


class RowPage(Struct, frozen=True, kw_only=True):
    """Some rows of a view. `after` asks for the next; None: these are the last."""

    rows: Sequence[Row]
    after: str | None


class Reader(Protocol):
    """Looks without touching; works beside a crawl that holds the store.

    Columns are those of `storage.columns.VIEWS` (design section 6 and a few more)."""

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
        """Rows of a view (one of `storage.columns.VIEWS`), in a stable
        order.

        Each row is true of the moment it is read, some hundred rows at a time: a URL that changes
        its state meanwhile may be missing, or be in two views. No transaction is open between
        them, however long the caller takes. `host` keeps the rows of one host, of `links`,
        `malformed` and `fragments` those of its pages (ValueError for `skipped`, which has
        none). Callers that leave it half-way close it (`contextlib.aclosing`), before the reader.
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
    ) -> RowPage:
        """Some rows of `hosts`: those whose name contains `search` (case ignored) and that are in
        `state` (`storage.paging.HostFilter`) at `now_s` (Unix seconds), by `sort` (one of
        HOST_SORTS; "-" before it descends), equal ones by name; at most `limit`, beginning behind
        the page that gave `after`. Raises ValueError for what is none of these.

        A host that moves in the order between two pages may come twice, or not at all."""
        ...

    async def blocked_page(
        self, *, host: str | None = None, rule: str = "", limit: int = 100, after: str = ""
    ) -> RowPage:
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
        """What a report is made of, as `storage.columns.REPORTS` has it; who leaves it
        half-way closes it, as with `iterate`.

        - `broken`: URLs that failed or answered 400 and more, each with the pages that link to it,
          or to a redirect (`via`) that ends there: all of them where links are kept, else the first
          known. One that nothing links to has a row of its own. Rows of one URL come together.
          `kind`: "link", or what the link is besides (a `Rel`).
        - `malformed`: the rows of that view, by href: those of one href and reason come together.
        - `dangling`: links with a fragment that points to nothing on the page at `url`, which was
          read: the fragment, the page with the link, and the URL it has if redirects (`via`) lead
          from there. Rows of one URL and fragment come together.
        - `looked`: one row, of the HTML pages (2xx): how many, and in how many of them somebody
          looked for what a `Looked` names.
        - `forbidden`: blocked URLs with the pages that link to them, likewise; by host and rule.
        - `duplicates`: pages (2xx) whose body is that of another; those of one body together."""
        ...

    async def url(self, url: str) -> Row | None:
        """Everything known of one canonical URL: `state` (the view's name), that view's columns,
        `host` (its slot), `origin`, `referrer`, `anchor`; for a queued one the last `error`.

        One that is in no queue because scope no longer wants it, or because only a redirect named
        it, has the state `skipped` and a `reason` (None for the latter). A sitemap that was read
        has the state `sitemaps`; `sitemap` says of any URL whether it is one, `listing` what a
        sitemap said of it (a row of `listings`, or None). `seed`, `requisite` and `hops` are those
        of the `Link` that led to it."""
        ...

    async def host(self, host: str) -> Row | None:
        """The row of `hosts`, with `contacts` (the ring, oldest first) and `robots` (its rows)."""
        ...

    async def robots_copy(self, origin: str) -> RobotsState | None:
        """The robots copy now kept for an origin, body included."""
        ...

    async def robots_body(self, url: str) -> bytes | None:
        """The robots.txt a blocked URL was judged by, also when it has been replaced since."""
        ...
