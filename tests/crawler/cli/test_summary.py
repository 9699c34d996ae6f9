"""The summary of a crawl as text and JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from crawler.cli.crawl_summary import as_json, as_text, failure_hints
from crawler.events import FrequentReason, Summary, WaitingHost
from crawler.frontier.reasons import BACKOFF
from crawler.steering.summary import frequent_errors, frequent_rules, stored_wait
from policies.address import AddressRules
from policies.holds import SENTENCES, Hold, HoldReason
from policies.scope import SKIP_KEYS, SKIP_WORDS, Skip
from storage.store import Store

NOW_S = 1_800_000_000.0  # the store's, in conftest.py

SUMMARY = Summary(
    visited=1200,
    blocked=3,
    failed=1,
    queued=40,
    hosts=1,
    bytes=2_500_000,
    elapsed_s=75.2511,
    waiting=(
        WaitingHost(host="a.test", until=1_800_000_090.0, reason="Retry-After"),
        WaitingHost(host="b.test", until=None, reason="paused by an operator"),
        WaitingHost(host="c.test", until=1_800_000_005.0, reason="a rest"),
    ),
    skipped={Skip.MAX_DEPTH: 1234, Skip.NOFOLLOW: 7, Skip.OUTSIDE: 0},
)


def test_the_text_names_every_limit_with_its_count_and_key() -> None:
    text = as_text(SUMMARY, now_s=1_800_000_000.0)
    assert text.splitlines() == [
        (
            "Finished after 1 min 15 s: 1,200 visited (2.5 MB), 3 blocked, 1 failed, 40 queued, "
            "on 1 host."
        ),
        "",
        "Excluded:",
        "  1,234  too many links away from a seed (crawl.max_depth)",
        "      7  the page forbids following the link",
        "",
        "Hosts that still have URLs queued:",
        "  b.test: paused by an operator",
        "  a.test: Retry-After, until 2027-01-15 08:01:30Z (in 1 min 30 s)",
        "  c.test: a rest, for another 5 s",
    ]


def test_an_interrupted_crawl_explains_how_to_resume() -> None:
    summary = replace(SUMMARY, elapsed_s=0.5, skipped={}, interrupted=True)
    first, second, *rest = as_text(summary, now_s=1_800_000_000.0).splitlines()
    assert first.startswith("Interrupted after 500 ms")
    assert second == "Run the same command again to resume."
    assert "a.test" in rest[-2]
    assert rest[-1] == "  list all hosts: courtly show hosts"
    assert "c.test" not in " ".join(rest), "short rests say nothing about an interrupted crawl"


def test_json_is_one_line() -> None:
    line = as_json(SUMMARY)
    assert "\n" not in line
    data = json.loads(line)
    counts = ("visited", "blocked", "failed", "queued", "hosts", "bytes")
    assert [data[key] for key in counts] == [1200, 3, 1, 40, 1, 2_500_000]
    assert data["elapsed_s"] == 75.251
    assert data["waiting"] == [
        {"host": "a.test", "until": 1_800_000_090.0, "reason": "Retry-After"},
        {"host": "b.test", "until": None, "reason": "paused by an operator"},
        {"host": "c.test", "until": 1_800_000_005.0, "reason": "a rest"},
    ]
    assert data["skipped"][0] == {"reason": "max_depth", "key": "crawl.max_depth", "count": 1234}


def test_every_reason_has_words() -> None:
    assert set(SKIP_WORDS) == set(Skip)
    assert set(SKIP_KEYS) <= set(Skip)


# ---------------------------------------------------------------- errors and hints

ERRORS = (
    FrequentReason(words="timeout: no answer in 30 s", count=1200, example="http://a.test/1"),
    FrequentReason(words="dns: there is no b.test", count=7, example="http://b.test/\x1b"),
)


def test_errors_have_counts_examples_and_hints() -> None:
    summary = replace(SUMMARY, failed=1300, errors=ERRORS, skipped={}, waiting=())
    assert as_text(summary, options=" --db x.db").splitlines()[1:] == [
        "",
        "Failed, most frequent:",
        "  1,200  timeout: no answer in 30 s, for http://a.test/1",
        "      7  dns: there is no b.test, for http://b.test/\ufffd",
        "  list them: courtly show failed --db x.db",
        "  queue them again: courtly retry failed --db x.db",
    ]


def test_the_hint_for_a_private_address_names_its_range() -> None:
    for address, ranges in [
        ("127.0.0.1", "--allow 127.0.0.0/8"),
        ("::1", "--allow 127.0.0.0/8 --allow ::1/128"),
        ("::ffff:127.0.0.1", "--allow 127.0.0.0/8"),
        ("10.1.2.3", "--allow 10.0.0.0/8"),
        ("172.20.0.1", "--allow 172.16.0.0/12"),
        ("192.168.1.1", "--allow 192.168.0.0/16"),
        ("fd00::1", "--allow fc00::/7"),
        ("169.254.169.254", ""),  # metadata service of clouds, which contains secrets
        ("240.0.0.1", ""),
    ]:
        why = AddressRules().judge(address)
        assert why is not None, (address, ranges)
        error = FrequentReason(words=f"address: {why}", count=1, example=f"http://{address}/")
        hints = failure_hints([error], " --db x.db")
        start = "if these addresses are yours, queue the URLs again and allow the addresses:"
        told = [f"{start} courtly crawl {ranges} --db x.db"] if ranges else []
        assert [hint for hint in hints if "--allow" in hint] == told, (address, ranges)


def test_the_most_frequent_rules_are_named() -> None:
    rule = FrequentReason(
        words="Disallow: /a", count=3, example="http://a.test/a", where="http://a.test/robots.txt"
    )
    summary = replace(SUMMARY, rules=(rule,), skipped={}, waiting=())
    assert as_text(summary).splitlines()[1:] == [
        "",
        "Blocked:",
        "  3  Disallow: /a, in http://a.test/robots.txt",
        "  list them with their rules: courtly show blocked",
    ]
    assert "Blocked" not in as_text(summary, blocked=False)


def test_hosts_with_the_same_reason_share_a_line() -> None:
    now_s = 1_800_000_000.0
    waiting = [
        WaitingHost(host=f"{n}.test", until=now_s + n, reason="its turn (Crawl-delay)")
        for n in range(30)
    ]
    waiting += [WaitingHost(host=f"p{n}.test", until=None, reason=f"reason {n}") for n in range(12)]
    summary = replace(SUMMARY, waiting=tuple(waiting), skipped={})
    lines = as_text(summary, now_s=now_s).splitlines()[2:]
    assert lines[0] == "Hosts that still have URLs queued:"
    assert lines[1:11] == [f"  p{n}.test: reason {n}" for n in sorted(range(12), key=str)[:10]]
    assert lines[11:] == [
        "  … and 32 more hosts",
        "  list all hosts: courtly show hosts",
    ]
    few = replace(summary, waiting=tuple(waiting[:30]))
    assert as_text(few, now_s=now_s).splitlines()[3:] == [
        "  30 hosts, 29.test the longest: its turn (Crawl-delay), for another 29 s",
        "  list all hosts: courtly show hosts",
    ]


def test_omitted_hosts_are_mentioned() -> None:
    waiting = tuple(WaitingHost(host=f"{n}.test", until=None, reason="paused") for n in range(100))
    lines = as_text(replace(SUMMARY, waiting=waiting, skipped={})).splitlines()
    assert lines[2] == "Hosts that still have URLs queued (the first 100):"


async def test_the_reason_of_a_host_that_is_not_in_memory(store: Store) -> None:
    (row,) = [row async for row in store.reader.iterate("hosts")]

    def reason(limit: Skip | None = None, **more: object) -> str:
        return stored_wait({**row, **more}, NOW_S, limit=limit).reason.sentence

    assert reason() == "its turn (Crawl-delay)"
    assert reason(delay_source="") == "its turn"
    assert reason(Skip.MAX_PAGES) == "crawl.max_pages has been reached"
    assert reason(Skip.MAX_TIME) == "crawl.max_time has been reached"
    assert reason(Skip.MAX_PAGES, paused=1) == "paused by an operator"
    assert reason(backoff_until=NOW_S + 1, limit=Skip.MAX_PAGES) == BACKOFF.sentence


async def test_errors_and_rules_are_counted_from_the_views(store: Store) -> None:
    assert await frequent_errors(store.reader) == (
        FrequentReason(words="timeout: no answer in 30 s", count=1, example="http://a.test/broken"),
    )
    assert await frequent_rules(store.reader) == (
        FrequentReason(
            words="Disallow: /private/",
            count=1,
            example="http://a.test/private/x",
            where="http://a.test/robots.txt",
        ),
    )


def test_the_hold_that_ended_the_crawl_is_named() -> None:
    for reason in HoldReason:
        hold = Hold(reason=reason, since=NOW_S, detail="as told")
        summary = replace(SUMMARY, held=(hold,))
        words = " ".join(as_text(summary, now_s=NOW_S).split())
        assert SENTENCES[reason] in words
        assert "2027-01-15 08:00:00Z" in words, reason
        assert "Run the same command again to resume" in words, reason
        assert json.loads(as_json(summary))["held"] == [
            {"reason": reason.value, "sentence": hold.sentence, "since": NOW_S}
        ]
        assert "ended because" not in as_text(replace(summary, interrupted=True), now_s=NOW_S), (
            reason
        )
