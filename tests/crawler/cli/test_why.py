"""What `courtly why` says of URLs and hosts."""

from __future__ import annotations

import click
import pytest

from crawler.cli import reasons
from crawler.cli.why import _of_host, _of_url
from crawler.config import from_dict
from policies.access import Access
from storage.memory import MemoryStore

NOW_S = 1_800_000_000.0  # the store's, in conftest.py

CONFIG = from_dict({"scope": {"drop_params": ["utm_*"]}})


async def said(store: MemoryStore, url: str, capsys: pytest.CaptureFixture[str]) -> str:
    await _of_url(store, CONFIG, url)
    return capsys.readouterr().out


async def test_a_blocked_url_names_rule_line_and_how_it_was_found(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://a.test/private/x", capsys)
    assert (
        "blocked by line 2, `Disallow: /private/`, of http://a.test/robots.txt (dialect slurp)"
        in text
    )
    assert "found on http://a.test/, by the link “keep\ufffdout”" in text
    assert "for the token courtly: Disallowed by line 2" in text


async def test_a_visited_url_says_what_was_asked_of_us(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://A.test?utm_source=x#top", capsys)
    assert "status 200, text/html 1.5 KB in 500 ms, at a seed" in text
    assert "its links be not followed" in text
    assert "no page led to it" in text
    assert "\x1b" not in text


async def test_a_failed_url_says_how_to_retry_it(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://a.test/broken", capsys)
    assert "failed: timeout: no answer in 30 s" in text
    assert "tried 3 times" in text
    assert "courtly retry failed --host a.test" in text


async def test_a_queued_url_says_what_it_waits_for(store: MemoryStore) -> None:
    row, host = await store.url("http://a.test/later"), await store.host("a.test")
    assert row is not None
    assert host is not None
    first, second, *_ = reasons.of_url(row, NOW_S)
    assert first.endswith("in 1 min, 1 link from a seed")
    assert second == "tried once without an answer that counts; the last: http: status 500"
    assert "in 30 s" in next(reasons.waits(host, NOW_S))
    assert "for a crawl to run" in next(reasons.waits(host, NOW_S + 31))
    assert next(reasons.waits({**host, "paused": 1}, NOW_S)) == "its host is paused by hand"
    backed_off = next(reasons.waits({**host, "backoff_until": NOW_S + 90}, NOW_S))
    assert "asked to be left alone" in backed_off
    assert "in 1 min 30 s" in backed_off


async def test_an_unknown_url_is_still_judged(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://a.test/private/open/1", capsys)
    assert "unknown to this database" in text
    assert "Allowed by line 3" in text


async def test_an_unknown_origin_has_no_robots_copy(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "https://b.test/", capsys)
    assert "https://b.test/robots.txt: not asked for yet" in text


async def test_what_is_no_url_is_bad_usage(store: MemoryStore) -> None:
    with pytest.raises(click.UsageError, match=r"the URL 'a\.test/x' is not an absolute URL"):
        await _of_url(store, CONFIG, "a.test/x")


async def test_a_host_tells_its_clock_and_where_its_rest_comes_from(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    await _of_host(store, CONFIG, "A.TEST:8080")
    text = capsys.readouterr().out
    assert "1 visited (1.5 KB), 1 blocked, 1 failed, 1 queued" in text
    assert "rests 2.5 s after each contact (Crawl-delay)" in text
    assert "2 contacts, the least rest between two 2.5 s" in text
    assert "page: status 200 in 500 ms" in text
    assert "http://a.test/robots.txt: a copy of" in text


async def test_an_unknown_host_is_unknown(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    await _of_host(store, CONFIG, "b.test")
    assert "unknown to this database" in capsys.readouterr().out
    with pytest.raises(click.UsageError, match="is not a host such as"):
        await _of_host(store, CONFIG, "b test")


async def test_without_a_copy_the_door_is_explained(
    store: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = Access(status=404, fetched_at=NOW_S, expires_at=NOW_S + 86_400)
    await store.robots_put(1, "a.test", "http://a.test", gone)
    assert "so all its pages may be asked for: " in await said(store, "http://a.test/x", capsys)
    failing = Access(status=503, failures=1, retry_at=NOW_S + 2, unreachable_since=NOW_S)
    await store.robots_put(1, "a.test", "http://a.test", failing)
    closed = CONFIG.override({"robots": {"unreachable": "closed"}})
    await _of_host(store, closed, "a.test")
    assert "so none of its pages may be asked for: " in capsys.readouterr().out
