"""What a store does with the robots.txt of origins, and with what must be judged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from msgspec import structs

from policies.robots_state import NO_SPACE, RobotsState
from storage.engine import commits, refused_values
from storage.engine.counters import CounterChanges
from storage.engine.refused_values import RefusedError
from storage.engine.statements import record
from storage.engine.transactions import Transactions, Work
from storage.engine.writer import Committed, Writer
from storage.records import Completed, HostUpdate, RobotsDue
from storage.url_records import Blocked, Judged, Link

_Verdict = tuple[str, int | Blocked]  # an argument of `rejudge`, and one of its items


async def robots_put(
    calls: Transactions,
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
    put = partial(_put, slot=slot, origin=origin, rejudge=rejudge)
    try:
        return await calls.run(partial(put, copy=copy, also=also, links=links))
    except RefusedError:
        added = await commits.insert(calls, links)
    try:
        done = await calls.run(partial(put, copy=copy, also=also))
    except RefusedError as error:
        name = refused_values.log(f"the robots.txt of {origin[:2_000]!a}", error)
        plain = None if also is None else refused_values.plain_update(also)
        done = await calls.must_run(partial(put, copy=None, also=plain))
        done = structs.replace(done, refused=name)
    return structs.replace(done, added=added.added)


def _put(
    writer: Writer,
    *,
    slot: str,
    origin: str,
    copy: RobotsState | None,
    also: HostUpdate | None,
    rejudge: bool,
    links: Sequence[Link] = (),
) -> Completed:
    refused: str | None = None
    if copy is not None and not writer.copies.put(slot, origin, copy, writer.at, rejudge=rejudge):
        refused, links = NO_SPACE, ()
    tally, skipped = CounterChanges(), Counter[str]()
    if links:
        writer.insert(links, tally, skipped)
    writer.finish(tally, skipped)
    if also is not None:
        writer.leases.lock([also])
    if also is not None and (leased := writer.leases.leased(also)) is not None:
        writer.leases.write_clocks([(leased, also)], writer.at)
    return Completed(stale=frozenset(), added=tally.added, prefetched={}, refused=refused)


def robots_get(writer: Writer, origin: str) -> RobotsState | None:
    """Return the stored robots state of an origin; None if it was never requested."""
    return writer.copies.get(origin)


def robots_due(writer: Writer, session: int, *, limit: int) -> Sequence[RobotsDue]:
    """Return origins whose robots.txt is due (its retry or expiry time has passed), the longest
    due first: of free hosts that are not paused and may be contacted now, and only if URLs
    depend on it (queued, blocked, or fetched without an answer)."""
    rows = writer.sql.rows("robots_due", writer.at.now_s, writer.at.now_s, limit)
    return [record(RobotsDue, row) for row in rows]


def rejudge_due(writer: Writer, session: int, *, limit: int) -> Sequence[RobotsDue]:
    """Return marked origins that have something to judge again (pages marked `ungoverned`, or
    the URLs of `blocked_by_robots`), the longest marked first.

    Judging contacts nobody, so leased and paused hosts count too. A mark without anything to
    judge is kept: an outcome may still be on its way."""
    rows = writer.sql.rows("rejudge_due", limit)
    return [record(RobotsDue, row) for row in rows]


def rejudge_all(writer: Writer, session: int) -> None:
    """Mark every origin that has something to judge, after a change of the config."""
    writer.sql.run("mark_all_to_rejudge", writer.at.now_s)


def rejudge_done(writer: Writer, session: int, origin: str) -> None:
    """Clear the mark. A caller that stored another copy meanwhile must judge again instead.
    Does nothing for an origin that is not marked."""
    writer.sql.run("rejudge_done", origin)


def ungoverned(writer: Writer, origin: str, *, limit: int) -> Sequence[Judged]:
    """Return some visited pages that were fetched while the origin counted as open for lack of
    an answer. Judge them, and call `rejudge`."""
    return writer.sql.read(list[Judged], "ungoverned", origin, limit)


def blocked_by_robots(writer: Writer, origin: str, *, after: int, limit: int) -> Sequence[Judged]:
    """Return URLs of the origin that are blocked with the reason `robots` or `noindex-line`,
    with ids above `after`, ascending."""
    return writer.sql.read(list[Judged], "blocked_by_robots", origin, after, limit)


async def rejudge(
    calls: Transactions,
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
    calls.check_session(session)

    def judge(some: Sequence[_Verdict]) -> Work[Committed]:
        return partial(_rejudge, verdicts=some)

    verdicts: list[_Verdict] = [
        *(("kept", id_) for id_ in kept),
        *(("withdrawn", block) for block in withdrawn),
        *(("freed", id_) for id_ in freed),
    ]
    instead = partial(refused_values.verdict_instead, now_s=calls.time.wall_s())
    parts = await calls.run_each(verdicts, judge, instead)
    return await commits.settle_chains(calls, parts)


def _rejudge(writer: Writer, *, verdicts: Sequence[_Verdict]) -> Committed:
    kept = [one for kind, one in verdicts if kind == "kept" and isinstance(one, int)]
    withdrawn = [one for _, one in verdicts if isinstance(one, Blocked)]
    freed = [one for kind, one in verdicts if kind == "freed" and isinstance(one, int)]
    tally = CounterChanges()
    writer.outcomes.rejudge(kept, withdrawn, freed, tally, writer.at)
    writer.finish(tally, {})
    done = Completed(stale=frozenset(), added=tally.added, prefetched={})
    return done, writer.chains.left
