"""A fault of the database or of sinks holds a crawl until it has passed, whatever hosts answer."""

from __future__ import annotations

import asyncio

import pytest

from crawler.scheduling.storage_holds import StorageHolds
from crawler.testing import JumpClock
from policies.holds import SENTENCES
from storage.transient_faults import FaultKind, TransientFault, TransientFaults
from tests.crawler.frontier.test_system_holds import Crawl


@pytest.mark.parametrize("kind", FaultKind)
async def test_answers_of_hosts_do_not_end_it(kind: FaultKind) -> None:
    async with JumpClock() as clock:
        crawl = Crawl(clock)
        troubles = TransientFaults()
        tasks = [
            asyncio.create_task(StorageHolds(crawl.holds, [troubles]).run()),
            *(asyncio.create_task(crawl.work()) for _ in range(3)),
        ]
        crawl.reached = True
        await crawl.for_s(1.01)  # some requests are under way
        trouble = TransientFault(
            kind=kind, what="the sink", sentence="a sentence", since=clock.wall()
        )
        troubles.set(trouble)
        await crawl.for_s(0.2)
        begun = len(crawl.started_s)
        [hold] = crawl.holds.current
        assert hold.sentence == f"{SENTENCES[hold.reason]} ({hold.detail})"
        await crawl.for_s(300)
        assert [hold.reason for hold in crawl.holds.current] == [hold.reason]
        assert len(crawl.started_s) == begun
        troubles.set(None)
        await crawl.for_s(5)
        assert crawl.holds.current == ()
        assert len(crawl.started_s) > begun
        crawl.driven.close()
        for task in tasks:
            task.cancel()
