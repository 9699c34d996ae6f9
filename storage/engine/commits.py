"""Verbs of a store that take one transaction or several: links, outcomes, leases and plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial

from msgspec import structs

from storage.engine import refused_values
from storage.engine.link_table import some_seeds
from storage.engine.refused_values import RefusedError
from storage.engine.transactions import Transactions, Work
from storage.engine.writer import Committed, Writer
from storage.records import Batch, Completed, Lease, Prefetched
from storage.url_records import Link, Outcome, Plan, SitemapRead, Visited


async def add(
    calls: Transactions,
    links: Sequence[Link],
    *,
    revive: bool = False,
    referrer: int | None = None,
) -> Completed:
    """Insert new URLs (seeds, entries of sitemaps) as `complete` does; `added` counts them.

    A known URL that is now a seed becomes one, and its depth is lowered to the link's. One
    that is now a sitemap becomes one, and is queued again if it was visited as a page, or read
    before `again_before`, or at a time that still lies more than a day ahead.

    The `data` of a known URL is replaced by that of a seed that has any.

    revive: also queue the failed URLs among them again; `added` counts those too.
    referrer: id of the sitemap that lists them.
    """
    completed = await insert(calls, links, revive=revive, referrer=referrer)
    calls.seeds_added.extend(link for link in links if link.seed)
    return completed


async def insert(
    calls: Transactions,
    links: Sequence[Link],
    *,
    revive: bool = False,
    referrer: int | None = None,
) -> Completed:
    """Insert new URLs as `add` does, without noting the seeds among them."""

    def work(some: Sequence[Link]) -> Work[Completed]:
        return lambda writer: writer.add(some, revive=revive, referrer=referrer)

    return _together(await calls.run_each(links, work, refused_values.without_link))


async def seeds(calls: Transactions) -> AsyncGenerator[Sequence[str], None]:
    """Yield the URLs that scope is relative to, oldest first, in non-empty lists of at most
    SEEDS_AT_ONCE; each list is a transaction.

    These are the seeds that were given, and the URLs that redirects led to from them (`hops`)
    if those were visited and redirect no further. A caller that stops early must close the
    generator (`contextlib.aclosing`).
    """

    def some_after(last: int) -> Work[list[tuple[int, str]]]:
        return lambda writer: some_seeds(writer.sql, last)

    after = 0
    while some := await calls.must_run(some_after(after)):
        yield [url for _, url in some]
        after = some[-1][0]


async def complete(calls: Transactions, session: int, batch: Batch) -> Completed:
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

    def commit(some: Batch) -> Work[Committed]:
        return lambda writer: writer.complete(some)

    linked: Mapping[str, int] = {}
    if calls.database.shared:
        batch, linked = await _link(calls, batch)
    try:
        parts = [await calls.run(commit(batch))]
    except RefusedError:
        parts = await _complete_in_parts(calls, batch, commit)
    in_flight = calls.database.in_flight
    for outcome in batch.outcomes:
        in_flight.remove(outcome.id)
    done = await settle_chains(calls, parts)
    if not linked:
        return done
    return structs.replace(done, added=dict(Counter(done.added) + Counter(linked)))


async def _link(calls: Transactions, batch: Batch) -> tuple[Batch, Mapping[str, int]]:
    """Insert the links of a commit in a transaction of its own. Return the batch, with
    outcomes replaced that have a refused value, and the number of URLs queued by slot."""
    answers = [one for one in batch.outcomes if isinstance(one, Visited | SitemapRead)]
    replaced: dict[int, Outcome] = {}

    def replace(outcome: Outcome, error: RefusedError) -> None:
        now_s = calls.time.wall_s()
        replaced[id(outcome)] = refused_values.instead_of(outcome, error, now_s=now_s)

    parts = await calls.run_each(
        answers, lambda some: partial(Writer.link, outcomes=some, hosts=batch.hosts), replace
    )
    if replaced:
        outcomes = [replaced.get(id(one), one) for one in batch.outcomes]
        batch = structs.replace(batch, outcomes=outcomes)
    linked = Counter[str]()
    for part in parts:
        linked.update(part)
    return batch, linked


async def _complete_in_parts(
    calls: Transactions, batch: Batch, commit: Callable[[Batch], Work[Committed]]
) -> list[Committed]:
    """Commit a batch with a refused value: the outcome that has it is replaced, all else is
    stored. Outcomes missing after a crash in between are still queued."""
    begun, ended = refused_values.begun, refused_values.ended
    candidates = (batch, refused_values.plain(batch))
    first, batch = await calls.run_first(
        candidates, lambda some: commit(begun(some)), what="what a commit says of its hosts"
    )

    def put(some: Sequence[Outcome]) -> Work[Committed]:
        return commit(refused_values.part(batch, some))

    instead = partial(refused_values.instead_of, now_s=calls.time.wall_s())
    parts = await calls.run_each(batch.outcomes, put, instead)
    candidates = (batch, refused_values.plain(batch))
    last, _ = await calls.run_first(
        candidates, lambda some: commit(ended(some)), what="what a commit asks for"
    )
    return [first, *parts, last]


async def settle_chains(calls: Transactions, parts: Sequence[Committed]) -> Completed:
    """Have redirects follow what became of the URLs they lead to, some at a time."""
    done = _together([completed for completed, _ in parts])
    more = any(more for _, more in parts)
    if not more:
        return done
    added = Counter(done.added)
    while more:
        some, more = await calls.must_run(Writer.settle_chains)
        added.update(some)
    return structs.replace(done, added=dict(added))


async def acquire(calls: Transactions, session: int, slots: Sequence[str]) -> Mapping[str, Lease]:
    """Lease these hosts, whether known or not, without prefetched URLs. Slots that are already
    leased are missing from the result."""
    calls.check_session(session)
    parts = await calls.run_each(
        slots, lambda some: partial(Writer.acquire, slots=some), refused_values.without_host
    )
    return {slot: lease for part in parts for slot, lease in part.items()}


async def forget(calls: Transactions, slot: str) -> None:
    """Tell the store that a caller with URLs of its own has released this host. A store in
    memory deletes what it knows of the host, unless URLs belong to it or it is leased; a store
    in a file keeps it."""
    if calls.database.forgets:
        await calls.run_or(partial(Writer.forget, slot=slot), None)


async def plan(calls: Transactions, session: int, plans: Mapping[int, Plan]) -> None:
    """Store plans by the id of the URL. URLs that are not visited, or have a plan, are left
    unchanged."""
    calls.check_session(session)

    def work(some: Sequence[tuple[int, Plan]]) -> Work[None]:
        return lambda writer: writer.plans.plan(dict(some), writer.at.now_s)

    await calls.run_each([*plans.items()], work, refused_values.without_plan)


def _together(parts: Sequence[Completed]) -> Completed:
    """The result of one call that took several transactions."""
    if len(parts) == 1:
        return parts[0]
    added = Counter[str]()
    prefetched: dict[str, Prefetched] = {}
    for part in parts:
        added.update(part.added)
        prefetched.update(part.prefetched)
    stale = frozenset[str]().union(*(part.stale for part in parts))
    return Completed(stale=stale, added=added, prefetched=prefetched)
