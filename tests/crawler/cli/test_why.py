"""`courtly why` explains the state of URLs and hosts."""

from __future__ import annotations

from typing import Any

import click
import pytest
from msgspec import structs

from crawler.cli.why import _explain_host, _explain_url
from crawler.config import Config, from_dict
from crawler.explain import sentences
from crawler.explain.explanation import ExplainContext
from crawler.frontier.reasons import latest_backoff
from policies.robots_state import RobotsState
from storage.store import (
    Batch,
    Contact,
    HostClock,
    HostUpdate,
    Link,
    Outlink,
    Plan,
    Store,
    Visited,
)

NOW_S = 1_800_000_000.0  # the store's, in conftest.py

CONFIG = from_dict({"scope": {"drop_params": ["utm_*"]}})


def link(url: str, *, host: str) -> Link:
    return Link(url=url, slot=host, host=host, depth=1)


async def said(
    store: Store,
    url: str,
    capsys: pytest.CaptureFixture[str],
    config: Config = CONFIG,
) -> str:
    await _explain_url(store.reader, ExplainContext(config=config, again=" --db x.db"), url)
    return capsys.readouterr().out


async def test_a_blocked_url_names_rule_line_and_referrer(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://a.test/private/x", capsys)
    assert (
        "blocked by line 2, `Disallow: /private/`, of http://a.test/robots.txt (dialect slurp)"
        in text
    )
    assert "found on http://a.test/, by the link “keep\ufffdout”" in text
    assert "for the token courtly: Disallowed by line 2" in text


async def test_a_visited_url_names_its_robots_directives(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://A.test?utm_source=x#top", capsys)
    assert "status 200, text/html 1.5 KB in 500 ms, at a seed" in text
    assert "its links not be followed" in text
    assert "no page links to it" in text
    assert "\x1b" not in text


async def test_the_data_of_a_url_is_shown(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    await store.open_session("test")
    long = '"' + 300 * "x" + '"'
    for path, data in (("1", '{"id":1}'), ("2", long)):
        one = link(f"http://c.test/{path}", host="c.test")
        await store.add([structs.replace(one, data=data)])
    assert '\n  data: {"id":1}\n' in await said(store, "http://c.test/1", capsys)
    assert f"\n  data: {long[:200]}…\n" in await said(store, "http://c.test/2", capsys)
    assert "data:" not in await said(store, "http://a.test/private/x", capsys)


async def test_an_excluded_link_target_names_the_reason(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await store.open_session("test")
    await store.add([link("http://c.test/", host="c.test")])
    (lease,) = await store.claim(session, hosts=1, urls_per_host=9)
    assert lease.slot == "c.test"
    page = Visited(
        id=lease.prefetched.urls[0].id, slot="c.test", status=200, fetched_at=NOW_S,
        content_type="text/html", body_bytes=1, elapsed_s=0.5,
        outlinks=[Outlink("http://b.test/", "b", None)],
    )  # fmt: skip
    clock = HostClock(next_in_s=1.0, delay_s=1.0, delay_source="politeness.delay")
    update = HostUpdate(slot="c.test", epoch=lease.epoch, clock=clock)
    await store.complete(session, Batch(outcomes=[page], hosts=[update]))
    text = await said(store, "http://b.test/", capsys)
    assert "known only as the target of a link" in text
    assert "excludes it: on a host outside the scope of the seeds (scope.follow)" in text
    assert "None" not in text


async def test_a_failed_url_names_the_command_to_retry(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://a.test/broken", capsys)
    assert "failed: timeout: no answer in 30 s" in text
    assert "tried 3 times" in text
    assert "`courtly retry failed --host a.test --db x.db` queues" in text


async def test_a_queued_url_names_what_it_is_waiting_for(store: Store) -> None:
    row, host = await store.reader.url("http://a.test/later"), await store.reader.host("a.test")
    assert row is not None
    assert host is not None
    first, second, *_ = sentences.url_sentences(row, NOW_S)
    assert first.startswith("queued, 1 link from a seed, next attempt at ")
    assert first.endswith(", in 1 min")
    assert second == "tried once without a usable answer; last error: http: status 500"
    assert "in 30 s" in next(sentences.wait_sentences(host, NOW_S))
    assert "as soon as a crawl is running" in next(sentences.wait_sentences(host, NOW_S + 31))
    assert (
        next(sentences.wait_sentences({**host, "paused": 1}, NOW_S))
        == "its host is paused by an operator"
    )
    (backed_off,) = sentences.wait_sentences({**host, "backoff_until": NOW_S + 90}, NOW_S)
    assert backed_off.startswith("its host: backing off as its Retry-After header requests, until ")
    assert backed_off.endswith("in 1 min 30 s")


def test_the_latest_response_explains_the_backoff() -> None:
    statuses: Any
    for statuses, words in [
        ([200, 503, None], "backing off after a 503 response (service unavailable)"),
        ([429], "backing off after a 429 response (too many requests)"),
        ([200, 403], "backing off after repeated 403 responses"),
        ([404], "backing off as its Retry-After header requests"),
        ([], "backing off as its Retry-After header requests"),
    ]:
        assert latest_backoff([{"status": status} for status in statuses]).sentence == words


async def test_a_refused_url_is_not_called_due(store: Store) -> None:
    row = await store.reader.url("http://a.test/later")
    assert row is not None
    refused = {**row, "due_at": 0.0, "attempts": 0, "error": "refused: the server answered 503"}
    first, second, *_ = sentences.url_sentences(refused, NOW_S)
    assert first == "queued, 1 link from a seed"
    assert second == "requested without success; last error: refused: the server answered 503"


async def test_a_queued_url_names_the_limit_that_stops_it(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    full = from_dict({"site": {"a.test": {"max_pages_per_host": 1}}})
    text = await said(store, "http://a.test/later", capsys, full)
    assert (
        "held back: its host has delivered 1 page, and this config allows 1 "
        "(scope.max_pages_per_host)" in text
    )
    assert "may be contacted" not in text
    bytes_had = from_dict({"scope": {"max_bytes_per_host": 1}})
    text = await said(store, "http://a.test/later", capsys, bytes_had)
    assert "and this config allows 1 B (scope.max_bytes_per_host)" in text
    more = from_dict({"scope": {"max_pages_per_host": 2}})
    assert "held back" not in await said(store, "http://a.test/later", capsys, more)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"scope": {"exclude": ["*/later"]}},
            "this config excludes it: matched by an exclude pattern (scope.exclude)\n",
        ),
        ({"crawl": {"max_depth": 0}}, "excludes it: too many links away from a seed (crawl."),
    ],
)
async def test_a_queued_url_outside_the_new_scope(
    config: dict[str, object],
    words: str,
    store: Store,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert words in await said(store, "http://a.test/later", capsys, from_dict(config))
    assert "excludes it" not in await said(store, "http://a.test/later", capsys)


async def test_without_a_config_the_verdict_on_scope_is_tentative(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await store.add([link("http://b.test/", host="b.test")])
    await _explain_url(
        store.reader, ExplainContext(config=from_dict({}), default=True), "http://b.test/"
    )
    text = capsys.readouterr().out
    assert "(scope.follow); name the crawl's own config with --config" in text
    assert "its host may be contacted " in text


@pytest.mark.parametrize("kind", ["lead", "requisite"])
async def test_urls_allowed_on_any_host_are_not_called_excluded(
    kind: str, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Targets of redirected seeds, and requisites of a mirror."""
    depth, hops = (0, 2) if kind == "lead" else (1, 0)
    found = structs.replace(
        link("http://b.test/", host="b.test"),
        depth=depth, hops=hops, seed=kind == "lead", requisite=kind == "requisite",
    )  # fmt: skip
    await store.add([found])
    config = from_dict({"sink": [{"kind": "mirror", "path": "mirror"}]})
    text = await said(store, "http://b.test/", capsys, config)
    assert "excludes it" not in text
    assert "its host may be contacted " in text


async def test_scope_decides_on_urls_that_are_not_in_the_database(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://b.test/", capsys)
    assert "excludes it: on a host outside the scope of the seeds (scope.follow)" in text
    anywhere = from_dict({"scope": {"follow": "any"}})
    text = await said(store, "http://b.test/", capsys, anywhere)
    assert "admits it, if a link leads to it" in text
    seeded = from_dict({"crawl": {"seeds": ["http://b.test/x"]}})
    assert "admits it" in await said(store, "http://b.test/", capsys, seeded)


async def test_an_unreachable_host_was_contacted(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    (lease,) = (await store.acquire(1, ["gone.test"])).values()
    await store.complete(
        1,
        Batch(
            hosts=[
                HostUpdate(
                    slot="gone.test",
                    epoch=lease.epoch,
                    clock=HostClock(contacts=1),
                    contacts=[Contact(start_at=NOW_S, end_at=NOW_S, kind="robots", status=None)],
                )
            ]
        ),
    )
    no_connection = "robots.txt: not fetched, because no connection could be made"
    text = await said(store, "http://gone.test/", capsys)
    assert f"http://gone.test/{no_connection}" in text
    assert "not fetched yet" not in text
    await _explain_host(store.reader, CONFIG, "gone.test")
    text = capsys.readouterr().out
    assert no_connection in text
    assert "1 contact\n" in text


async def test_an_e_mail_address_is_not_a_host(store: Store) -> None:
    with pytest.raises(click.UsageError, match=r'"mailto:x@y\.test" is not a host'):
        await _explain_host(store.reader, CONFIG, "mailto:x@y.test")


async def test_an_unknown_url_gets_a_verdict(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "http://a.test/private/open/1", capsys)
    assert "unknown to this database" in text
    assert "Allowed by line 3" in text


async def test_an_unknown_origin_has_no_robots_copy(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    text = await said(store, "https://b.test/", capsys)
    assert "https://b.test/robots.txt: not fetched yet" in text


async def test_an_invalid_url_is_bad_usage(store: Store) -> None:
    with pytest.raises(click.UsageError, match=r"the URL 'a\.test/x' is not an absolute URL"):
        await _explain_url(store.reader, ExplainContext(config=CONFIG), "a.test/x")


async def test_a_host_has_its_next_contact_and_the_source_of_its_delay(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await _explain_host(store.reader, CONFIG, "A.TEST:8080")
    text = capsys.readouterr().out
    assert "1 visited (1.5 KB), 1 blocked, 1 failed, 1 queued" in text
    assert "2.5 s between requests (Crawl-delay)" in text
    assert "2 contacts, at least 2.5 s apart" in text
    assert "page: status 200 in 500 ms" in text
    assert "http://a.test/robots.txt: the copy fetched at" in text


async def test_a_host_that_was_never_contacted_has_no_delay(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await store.add([link("http://new.test/", host="new.test")])
    await _explain_host(store.reader, CONFIG, "new.test")
    text = capsys.readouterr().out
    assert "never contacted" in text
    assert "rests" not in text


async def test_a_host_that_reached_its_page_limit(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    await _explain_host(store.reader, from_dict({"scope": {"max_pages_per_host": 1}}), "a.test")
    text = capsys.readouterr().out
    assert "it has delivered 1 page, and the config allows 1 (scope.max_pages_per_host)" in text
    assert "may be contacted" not in text


async def test_an_unknown_host_is_unknown(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    await _explain_host(store.reader, CONFIG, "b.test")
    assert "unknown to this database" in capsys.readouterr().out
    with pytest.raises(click.UsageError, match="is not a host such as"):
        await _explain_host(store.reader, CONFIG, "b test")


async def test_an_origin_without_a_copy_is_explained(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = RobotsState(status=404, fetched_at=NOW_S, expires_at=NOW_S + 86_400)
    await store.robots_put(1, "a.test", "http://a.test", gone)
    assert "so all of its pages may be fetched: " in await said(store, "http://a.test/x", capsys)
    failing = RobotsState(status=503, failures=1, retry_at=NOW_S + 2, unreachable_since=NOW_S)
    await store.robots_put(1, "a.test", "http://a.test", failing)
    closed = CONFIG.override({"robots": {"unreachable": "closed"}})
    await _explain_host(store.reader, closed, "a.test")
    assert "so none of its pages may be fetched: " in capsys.readouterr().out


async def test_a_robots_txt_that_is_a_web_page_is_called_one(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    page = RobotsState(
        status=200, body=b"<html>Not found", fetched_at=NOW_S, expires_at=NOW_S + 86_400
    )
    await store.robots_put(1, "a.test", "http://a.test", page)
    text = await said(store, "http://a.test/x", capsys)
    assert "this is a web page and no robots.txt: it has no rules" in text


async def test_a_page_with_a_next_visit_names_its_time(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan(
        due_in_s=86_400.0, interval_s=86_400.0, checked_at=NOW_S, changed_at=NOW_S - 3600, visits=3
    )
    session = await store.open_session("test")
    pages, _ = await store.unplanned(session, after=0, limit=9)
    await store.plan(session, {page.id: plan for page in pages})
    text = await said(store, "http://a.test/", capsys)
    assert "visited 3 times, last at 2027-01-15 08:00:00Z" in text
    assert "its content last changed at 2027-01-15 07:00:00Z" in text
    assert "next visit due at 2027-01-16 08:00:00Z" in text


async def test_truncated_parts_of_a_page_are_named(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    session = await store.open_session("test")
    await store.add([link("http://c.test/", host="c.test")])
    (lease,) = await store.claim(session, hosts=1, urls_per_host=9)
    page = Visited(
        id=lease.prefetched.urls[0].id, slot="c.test", status=200, fetched_at=NOW_S,
        content_type="text/html", body_bytes=1, elapsed_s=0.5, cut="max_links max_markup",
    )  # fmt: skip
    update = HostUpdate(slot="c.test", epoch=lease.epoch, clock=HostClock())
    await store.complete(session, Batch(outcomes=[page], hosts=[update]))
    text = await said(store, "http://c.test/", capsys)
    text = " ".join(text.split())
    assert "read only in part: more links than are read from one page; the end of" in text
    assert "(fetch.max_markup)" in text


def test_times_that_have_passed_are_not_negative_durations() -> None:
    row = {
        "state": "visited", "fetched_at": NOW_S - 90, "status": 200, "content_type": None,
        "body_bytes": 0, "elapsed_s": 0.1, "depth": 1, "next_visit_at": NOW_S - 21.5, "cut": None,
        "title": None, "redirect_url": None, "indexable": True, "followable": True,
        "archivable": True, "url": "http://a.test/", "listing": dict.fromkeys(
            ("lastmod_at", "changefreq", "priority")
        ),
    }  # fmt: skip
    found = [*sentences.url_sentences(row, NOW_S)]
    assert any(
        line.startswith("next visit due at ") and line.endswith(", 22 s ago") for line in found
    )
    assert "listed in a sitemap" in found
