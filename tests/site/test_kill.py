"""Laws 1, 5 and 6 (docs/laws.md): a crawl killed with `kill -9` at random moments, ten times over
one database, judged by the server's log."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import sqlite3
import statistics
import time
from typing import TYPE_CHECKING

import pytest

from crawler.testing import Handler, LocalWeb, ReceivedRequest, Reply, html, text
from storage.sqlite.maintenance import check
from tests.site.commands import retried

if TYPE_CHECKING:
    from tests.site.conftest import Courtly

KILLS = 10
DELAY_S = 0.1
QUARANTINED = "error LIKE 'quarantined: %'"
# After a crash a host rests its Crawl-delay from the restart: these move in long lives only.
CRAWL_DELAYS_S = {"slow-1.test": 0.7, "slow-2.test": 0.7, "slow-3.test": 1.0}
FAST = [f"fast-{n}.test" for n in range(5)]
PAGES = {**dict.fromkeys(CRAWL_DELAYS_S, 4), **dict.fromkeys(FAST, 80)}
IN_SOCKETS_S = 0.05
UNCOMMITTED_S = 1.0  # generous: the ledger commits what is 0.1 s old


def site(host: str, contact: asyncio.Event) -> dict[str, Reply | Handler]:
    """A tree of pages with links between them. Some responses take long, so that many requests are
    in flight."""

    def answering(reply: Reply) -> Handler:
        def answer(_: ReceivedRequest) -> Reply:
            contact.set()
            return reply

        return answer

    pages: dict[str, Reply | Handler] = {}
    count = PAGES[host]
    rng = random.Random(host)
    for n in range(count):
        links = [m for m in (2 * n + 1, 2 * n + 2, *rng.choices(range(count), k=5)) if m < count]
        reply = html(f"{host} {n}", *(path(m) for m in links))
        pages[path(n)] = answering(Reply(body=reply.body, delay_s=rng.choice((0.0, 0.0, 0.05))))
    delay_s = CRAWL_DELAYS_S.get(host)
    rule = f"Crawl-delay: {delay_s}\n" if delay_s else ""
    return pages | {"/robots.txt": text(f"User-agent: *\n{rule}Disallow: /private/\n")}


def path(n: int) -> str:
    return f"/{n}" if n else "/"


def first_claim_s(courtly: Courtly) -> float | None:
    """Seconds from the start of the last session to its first lease, by the clock of the process:
    leases are numbered by the microsecond in which they were granted."""
    with contextlib.closing(sqlite3.connect(f"file:{courtly.db}?mode=ro", uri=True)) as db:
        row = db.execute(
            "SELECT min(s.served) / 1e6 - max(e.began_at) - max(c.shift_s)"
            " FROM crawl AS c JOIN sessions AS e ON e.id = c.session"
            " JOIN slots AS s ON s.lease = c.session"
        ).fetchone()
    found: float | None = row[0]
    return found


@pytest.mark.timeout(150)
async def test_kills_lose_nothing_and_hurry_nobody(courtly: Courtly) -> None:
    rng = random.Random(20)
    politeness = {"delay": DELAY_S, "latency_factor": 0}
    contact = asyncio.Event()  # in this life
    async with LocalWeb({host: site(host, contact) for host in PAGES}) as web:
        seeds = [web.url(host) for host in PAGES]
        everything = sorted(web.url(host, path(n)) for host in PAGES for n in range(PAGES[host]))
        kills: list[tuple[float, set[str]]] = []  # when, and what was committed by then
        claims: list[float] = []
        for n in range(KILLS):
            contact.clear()
            async with courtly.process(
                web, *(() if kills else seeds), politeness=politeness
            ) as process:
                if n % 5 or not kills:  # others may end before the first contact, or the opening
                    async with asyncio.timeout(20):
                        await contact.wait()
                    await asyncio.sleep(rng.uniform(0.0, 0.5))
                else:
                    await asyncio.sleep(rng.uniform(0.0, 2.2))
                assert process.returncode is None, "it was still at work"
                process.kill()
                await process.communicate()
                # What it had sent may still lie unread in the server's sockets: it is of this life.
                await asyncio.sleep(IN_SOCKETS_S)
                killed_s = time.monotonic()
            kills.append((killed_s, set(courtly.urls("visited"))))
            if (claim_s := first_claim_s(courtly)) is not None:
                claims.append(claim_s)
        assert courtly.urls("queued"), "the kills came in the midst of it"
        assert check(courtly.db) == []

        await courtly.crawl(web, politeness=politeness)
        quarantined = courtly.urls("failed", QUARANTINED)
        assert len(quarantined) <= 3, "a process killed at random makes few suspects"
        quarantined += [row[0] for row in courtly.rows("robots", "error", QUARANTINED)]
        if quarantined:
            assert await retried(courtly.db, code="quarantined") == len(quarantined)
            await courtly.crawl(web, politeness=politeness)

        assert courtly.urls("visited") == everything
        assert courtly.urls("queued") == courtly.urls("failed") == courtly.urls("blocked") == []
        assert check(courtly.db) == []
        judge(web, kills)
        assert len(claims) >= KILLS // 2
        assert statistics.median(claims) < 1.0


def judge(web: LocalWeb, kills: list[tuple[float, set[str]]]) -> None:
    """By the server's log, nothing that was committed was requested again, and no contact was
    early."""
    for killed_s, committed in kills:
        for entry in web.log:
            url = web.url(entry.host, entry.path)
            if entry.start_s > killed_s:
                assert url not in committed, "committed, and yet asked for again"
    again = 0
    for host in PAGES:
        entries = sorted(web.log.requests(host), key=lambda entry: entry.start_s)
        for page in {entry.path for entry in entries}:
            of_page = [entry for entry in entries if entry.path == page]
            again += len(of_page) - 1
            for one, other in itertools.pairwise(of_page):
                between = [s for s, _ in kills if one.start_s <= s <= other.start_s]
                assert between, f"{host}{page} was asked for twice in one life"
                assert between[0] - min(one.end_s, between[0]) < UNCOMMITTED_S
        asked = [entry.path for entry in entries]
        first_page = next(n for n, one in enumerate(asked) if one != "/robots.txt")
        assert "/robots.txt" not in asked[first_page:], "its copy was kept before the first page"
        least_s = max(DELAY_S, CRAWL_DELAYS_S.get(host, 0.0))
        gaps = web.log.gaps(host)
        if host in CRAWL_DELAYS_S:  # what robots.txt asks for is known from its end on
            gaps = gaps[first_page - 1 :]
        assert min(gaps) >= least_s - 0.005, f"{host} was hurried"
    assert again <= KILLS * len(PAGES), "at most one in flight at each host"
