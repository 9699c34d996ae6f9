"""Workers are as many as the requests in flight and the pages that wait need, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crawler.config import from_dict
from crawler.operator_commands import Reload
from crawler.scheduling.scheduler import SPARE_WORKERS
from crawler.testing import html, not_found

if TYPE_CHECKING:
    from crawler.fetching.request import Request
    from crawler.testing import Reply
    from tests.conftest import World


def answers(request: Request) -> Reply:
    if request.url.endswith("/robots.txt"):
        return not_found()
    return html("Home", *(f"/{n}" for n in range(500)))


async def test_workers_that_are_not_needed_any_more_end(world: World) -> None:
    """Pages that waited once, or another `concurrency`, do not keep them for the rest of a run."""
    quick: dict[str, Any] = {"politeness": {"delay": 0.01, "latency_factor": 0}}
    crawl = {"patience": "10m", "user_agent": "tester/1.0 (+https://a.test/bot)"}
    fewer = from_dict({"crawl": {"concurrency": 2, **crawl}, **quick})
    counts: list[int] = []

    def count() -> None:
        assert world.scheduler
        counts.append(len(world.scheduler._workers))

    await world.crawl(
        answers,
        "http://a.test/",
        at={1: count, 2: lambda: world.do(world.control.execute(Reload())), 25: count},
        reread=lambda: fewer,
        crawl={"concurrency": 300, **crawl},
        **quick,
    )
    assert counts[0] >= 300
    assert counts[1] <= 2 + SPARE_WORKERS
