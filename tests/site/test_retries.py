"""Failures that may pass are retried under a permit of their host; a URL that is given up records
the attempts and the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from crawler.fetching.request import Request
from crawler.testing import Reply, html, not_found
from policies.retries import FailureCode

if TYPE_CHECKING:
    from tests.conftest import World

FLOAT_S = 1e-6
CONNECTED = [FailureCode.TIMEOUT, FailureCode.PROTOCOL, FailureCode.BODY]


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("bad", [*CONNECTED, Reply(status=500), Reply(status=502)])
async def test_what_may_pass_is_tried_again(
    world: World, bad: FailureCode | Reply, tries: int
) -> None:
    pages = {f"http://a.test/{n}": html(str(n)) for n in range(5)}
    answers = {"http://a.test/": html("Home", "/bad", *pages), **pages, "http://a.test/bad": bad}
    crawled = await world.crawl(
        answers, "http://a.test/", politeness={"delay": 1}, fetch={"max_attempts": tries}
    )
    ((url, error, attempts),) = [
        (row["url"], str(row["error"]), row["attempts"]) for row in crawled.rows["failed"]
    ]
    assert (url, attempts) == ("http://a.test/bad", tries)
    code, _, sentence = error.partition(": ")
    assert code == (bad if isinstance(bad, FailureCode) else "http")
    assert sentence
    assert crawled.log.paths("a.test").count("/bad") == tries
    assert min(crawled.log.gaps("a.test")) >= 1 - FLOAT_S  # each at its host's turn
    assert crawled.urls("visited") == sorted(["http://a.test/", *pages])


@pytest.mark.parametrize("code", [FailureCode.TOO_LARGE, FailureCode.ADDRESS])
async def test_what_meets_the_same_bound_again_is_not(world: World, code: FailureCode) -> None:
    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return not_found() if code is FailureCode.TOO_LARGE else code
        return code

    crawled = await world.crawl(answers, "http://a.test/", fetch={"max_attempts": 5})
    ((row),) = crawled.rows["failed"]
    assert str(row["error"]).startswith(f"{code}: ")
    assert row["attempts"] == 1
