"""The headline of the overview: the state of the crawl in a phrase and a sentence."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from crawler.daemon.responses import Status
from crawler.daemon.web.overview_page import headline
from tests.crawler.daemon.monitoring.test_metrics import STATUS

ONE = replace(STATUS, visited=1, hosts=1, queued=2)


@pytest.mark.parametrize(
    ("given", "title", "words"),
    [
        ({"state": "running"}, "Running", "1 page visited on 1 host, 2 queued."),
        ({"state": "idle"}, "Idle", "Every queued URL is waiting for its host"),
        ({"state": "idle", "queued": 0}, "Idle", "the crawl is waiting for new seeds"),
        ({"state": "idle", "hosts": 0}, "Waiting for seeds", "Add a seed"),
        ({"state": "paused", "visited": 1_200}, "Paused", "1,200 pages visited on 1 host"),
        ({"state": "held"}, "On hold: a problem with this machine or its network", "automatically"),
        ({"state": "stopping"}, "Stopping", "results committed"),
    ],
)
def test_it_describes_what_the_crawl_is_doing(given: Any, title: str, words: str) -> None:
    status: Status = replace(ONE, **given)
    found = headline(status, {"2xx": 5})
    assert found.title == title
    assert words in found.sentence


def test_it_warns_when_many_requests_fail() -> None:
    found = headline(ONE, {"2xx": 10, "none": 90})
    assert found.title == "Running, with many failures"
    assert "90 %" in found.sentence
