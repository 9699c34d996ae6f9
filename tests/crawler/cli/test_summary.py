"""The end of a crawl in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from crawler.cli.summary import as_json, as_text
from crawler.events import Summary, Waiting
from policies.scope import SKIP_KEYS, SKIP_WORDS, Skip

SUMMARY = Summary(
    visited=1200,
    blocked=3,
    failed=1,
    queued=40,
    hosts=1,
    bytes=2_500_000,
    elapsed_s=75.2511,
    waiting=(
        Waiting(host="a.test", until=1_800_000_090.0, reason="Retry-After"),
        Waiting(host="b.test", until=None, reason="paused by hand"),
        Waiting(host="c.test", until=1_800_000_005.0, reason="a rest"),
    ),
    skipped={Skip.MAX_DEPTH: 1234, Skip.NOFOLLOW: 7, Skip.OUTSIDE: 0},
)


def test_the_words_name_every_limit_with_its_count_and_key() -> None:
    text = as_text(SUMMARY, now_s=1_800_000_000.0)
    assert text.splitlines() == [
        (
            "Finished after 1 min 15 s: 1,200 visited (2.5 MB), 3 blocked, 1 failed, 40 queued, "
            "at 1 host."
        ),
        "",
        "Left out:",
        "  1,234  too many links away from a seed (crawl.max_depth)",
        "      7  the page asks not to follow the link",
        "",
        "Still waiting, what they hold stays queued:",
        "  b.test: paused by hand",
        "  a.test: Retry-After, until 2027-01-15 08:01:30Z (in 1 min 30 s)",
        "  c.test: a rest, for another 5 s",
    ]


def test_an_interrupted_crawl_says_how_to_go_on() -> None:
    summary = replace(SUMMARY, elapsed_s=0.5, skipped={}, interrupted=True)
    first, second, *rest = as_text(summary, now_s=1_800_000_000.0).splitlines()
    assert first.startswith("Interrupted after 500 ms")
    assert second == "The same command goes on from here."
    assert "a.test" in rest[-1]
    assert "c.test" not in " ".join(rest), "short rests say nothing about an interrupted crawl"


def test_json_is_one_line_with_the_design_s_keys() -> None:
    line = as_json(SUMMARY)
    assert "\n" not in line
    data = json.loads(line)
    counts = ("visited", "blocked", "failed", "queued", "hosts", "bytes")
    assert [data[key] for key in counts] == [1200, 3, 1, 40, 1, 2_500_000]
    assert data["elapsed_s"] == 75.251
    assert data["waiting"] == [
        {"host": "a.test", "until": 1_800_000_090.0, "reason": "Retry-After"},
        {"host": "b.test", "until": None, "reason": "paused by hand"},
        {"host": "c.test", "until": 1_800_000_005.0, "reason": "a rest"},
    ]
    assert data["skipped"][0] == {"reason": "max_depth", "key": "crawl.max_depth", "count": 1234}


def test_every_reason_has_words() -> None:
    assert set(SKIP_WORDS) == set(Skip)
    assert set(SKIP_KEYS) <= set(Skip)
