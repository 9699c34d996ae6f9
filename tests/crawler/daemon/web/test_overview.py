"""The first page's headline: is it healthy, in a phrase and a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.daemon.web.overview import headline


@pytest.mark.parametrize(
    ("given", "title", "words"),
    [
        ({"state": "running"}, "Running well", "1 page visited at 1 host, 2 queued."),
        ({"state": "idle"}, "Idle", "what is queued waits for its hosts"),
        ({"state": "idle", "queued": 0}, "Idle", "waits for seeds, and for what falls due again"),
        ({"state": "idle", "hosts": 0}, "Waiting for seeds", "Add the first"),
        ({"state": "paused", "visited": 1_200}, "Paused by hand", "1,200 pages visited at 1 host"),
        ({"state": "held"}, "Held by trouble of this machine", "resumes by itself"),
        ({"state": "stopping"}, "Stopping", "is committed"),
    ],
)
def test_it_says_what_the_crawl_is_doing(given: Any, title: str, words: str) -> None:
    status: Any = {"state": "running", "visited": 1, "hosts": 1, "queued": 2} | given
    told = headline(status, {"2xx": 5})
    assert told.title == title
    assert words in told.sentence


def test_it_says_when_much_fails() -> None:
    status: Any = {"state": "running", "visited": 1, "hosts": 1, "queued": 2}
    told = headline(status, {"2xx": 10, "none": 90})
    assert told.title == "Running, but much fails"
    assert "90 %" in told.sentence
