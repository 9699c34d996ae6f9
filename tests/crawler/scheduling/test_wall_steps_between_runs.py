"""Steps of the wall clock between two runs: what is due stays due, and nothing waits for a step."""

from __future__ import annotations

import pytest

from crawler.fetching.request import Request
from crawler.testing import Reply, html, text
from policies.retries import FailureCode
from tests.conftest import World

DAY_S = 86_400.0
A = "http://a.test"


@pytest.mark.usefixtures("looks_hourly")
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(("first_days", "step_days"), [(1, -30), (1, -0.5), (4, -3.5), (1, 30)])
async def test_a_robots_txt_that_never_answered_is_asked_for_again(
    world: World, step_days: float, first_days: float, closed: bool
) -> None:
    """Also where no page of its host is left to be fetched, and where its failures began before
    the time to which the clock was set."""
    answered = False

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nDisallow: /") if answered else FailureCode.TIMEOUT
        return html("Page")

    robots = {"unreachable": "closed" if closed else "open"}
    first_s = first_days * DAY_S
    await world.crawl(
        answers, f"{A}/", forever=True, at={first_s: world.stop}, cap_s=9 * DAY_S, robots=robots
    )
    answered = True
    world.clock.set_wall(step_days * DAY_S)
    crawled = await world.crawl(
        answers, forever=True, at={2 * DAY_S: world.stop}, cap_s=3 * DAY_S, robots=robots
    )
    assert crawled.at("a.test", "/robots.txt")
    # A closed origin waits in memory, where steps of less than a day are not noticed.
    assert crawled.at("a.test", "/robots.txt")[0] < (DAY_S if closed else 7 * 3_600)
    assert crawled.urls("blocked") == [f"{A}/"]
    assert not crawled.urls("visited")
