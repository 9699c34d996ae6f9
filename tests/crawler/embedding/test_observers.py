"""Observers and the log of embedded objects."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from crawler import ConfigError, Contacted, Crawler, Observer, Politeness, PoliteSession, Waited
from crawler.embedding.log_observer import LogObserver
from crawler.errors import RobotsDisallowed, WaitTooLong
from crawler.testing import Answers, FakeFetcher, JumpClock, LocalWeb, Reply, html, text
from policies.holds import Hold, HoldReason
from policies.retries import FailureCode
from storage.store import Outcome, Retry, StoreError

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
FORBID_P = text("User-agent: *\nCrawl-delay: 5\nDisallow: /p\n")
ANSWERS: Answers = {
    f"{A}/robots.txt": FORBID_P,
    f"{A}/": html("Home", "/b"),
    f"{A}/b": html("B", "/p"),
}
caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")


class Watcher(Observer):
    def __init__(self) -> None:
        self.waits: list[Waited] = []
        self.contacts: list[Contacted] = []
        self.callers: list[tuple[str, str]] = []
        self.outcomes: list[str] = []

    def waited(self, seen: Waited) -> None:
        self.waits.append(seen)

    def contacted(self, seen: Contacted) -> None:
        self.contacts.append(seen)
        self.callers.append((seen.kind, caller.get()))

    def settled(self, url: str, outcome: Outcome) -> None:
        self.outcomes.append(f"{type(outcome).__name__} {url}")


class Broken(Observer):
    """Fails whenever it is called."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0

    def _fail(self, *_: object) -> None:
        self.calls += 1
        raise self.error

    waited = contacted = settled = _fail  # type: ignore[assignment]
    gave_up = committed = hold_began = hold_ended = _fail  # type: ignore[assignment]


def session_of(clock: JumpClock, answers: Answers = ANSWERS, **options: Any) -> PoliteSession:
    fetcher = FakeFetcher(clock, answers, latency_s=0.1)
    return PoliteSession(
        user_agent=UA,
        config={"politeness": {"delay": 1, "latency_factor": 0}},
        clock=clock,
        fetcher=fetcher,
        **options,
    )


# ---------------------------------------------------------------- what they see


async def test_each_wait_and_each_contact_is_observed_with_its_times(clock: JumpClock) -> None:
    watcher = Watcher()
    began_at = clock.wall()
    async with session_of(clock, observer=watcher) as session:
        await session.get(f"{A}/")
        await session.get(f"{A}/b")
        with pytest.raises(RobotsDisallowed) as refused:
            await session.get(f"{A}/p")
    first, second, third = watcher.waits
    assert (first.url, first.slot, first.error) == (f"{A}/", "a.test", None)
    assert first.started_at == pytest.approx(began_at)
    assert first.elapsed_s == pytest.approx(5.1)  # robots.txt, and the delay after it
    assert (second.elapsed_s, second.error) == (pytest.approx(5.0), None)
    assert (third.elapsed_s, third.error) == (pytest.approx(0.0), refused.value)
    assert [(s.kind, s.url, s.status) for s in watcher.contacts] == [
        ("robots", f"{A}/robots.txt", 200),
        ("page", f"{A}/", 200),
        ("page", f"{A}/b", 200),
    ]
    robots, home, _ = watcher.contacts
    assert robots.started_at == pytest.approx(began_at)
    assert home.started_at == pytest.approx(first.started_at + first.elapsed_s)
    assert [s.elapsed_s for s in watcher.contacts] == [pytest.approx(0.1)] * 3


async def test_a_wait_that_is_cancelled_is_observed(clock: JumpClock) -> None:
    watcher = Watcher()
    async with session_of(clock, observer=watcher) as session:
        await session.get(f"{A}/")
        waiting = asyncio.create_task(session.get(f"{A}/b"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert isinstance(watcher.waits[-1].error, asyncio.CancelledError)


async def test_each_attempt_and_each_hop_waits_for_itself(clock: JumpClock) -> None:
    watcher = Watcher()
    replies = {
        f"{A}/robots.txt": [FORBID_P],
        f"{A}/": [Reply(status=301, headers={"Location": "/b"})],
        f"{A}/b": [Reply(status=500), html("B")],
    }
    async with session_of(
        clock, lambda request: replies[request.url].pop(0), observer=watcher
    ) as session:
        await session.get(f"{A}/")
    assert [seen.url for seen in watcher.waits] == [f"{A}/", f"{A}/b", f"{A}/b"]
    assert [seen.status for seen in watcher.contacts][1:] == [301, 500, 200]


async def test_contacts_of_a_session_have_the_context_of_their_caller(clock: JumpClock) -> None:
    watcher = Watcher()
    async with session_of(clock, observer=watcher) as session:
        caller.set("me")
        await session.get(f"{A}/")
    assert watcher.callers == [("robots", "nobody"), ("page", "me")]


async def test_permits_and_waits_that_are_too_long_are_observed(clock: JumpClock) -> None:
    watcher = Watcher()
    async with session_of(clock, observer=watcher) as session:
        async with session.permit(f"{A}/b") as permit:
            permit.record(204)
            await clock.sleep_until(clock.monotonic() + 2)
        with pytest.raises(WaitTooLong) as late:
            await session.get(f"{A}/", max_wait_s=1)
    assert [(seen.url, seen.error) for seen in watcher.waits] == [
        (f"{A}/b", None),
        (f"{A}/", late.value),
    ]
    lent = watcher.contacts[-1]
    assert (lent.kind, lent.url, lent.status) == ("page", f"{A}/b", 204)
    assert lent.elapsed_s == pytest.approx(2.0)


async def test_the_middleware_is_observed_as_well() -> None:
    watcher = Watcher()
    caller.set("me")
    async with LocalWeb({"a.test": {"/": html("A"), "/robots.txt": FORBID_P}}) as web:
        config = web.config(politeness={"latency_factor": 0}, robots={"dialect": "google"})
        async with (
            Politeness(user_agent=UA, config=config, delay=0.05, observer=watcher) as polite,
            aiohttp.ClientSession(middlewares=(polite,), connector=polite.connector()) as session,
        ):
            async with session.get(web.url("a.test")) as response:
                await response.read()
            with pytest.raises(aiohttp.ClientError):
                await session.get(web.url("a.test", "/p"))
    assert [(seen.kind, seen.status) for seen in watcher.contacts] == [
        ("robots", 200),
        ("page", 200),
    ]
    assert watcher.callers[1] == ("page", "me")
    assert [type(seen.error).__name__ for seen in watcher.waits] == ["NoneType", "RobotsDisallowed"]


async def test_a_crawl_is_observed_and_so_are_its_callers(clock: JumpClock) -> None:
    watcher = Watcher()
    async with Crawler(
        [f"{A}/"],
        user_agent=UA,
        observer=watcher,
        clock=clock,
        fetcher=FakeFetcher(clock, ANSWERS),
    ) as crawl:
        async for page in crawl:
            if page.url == f"{A}/":
                await crawl.session().get(f"{A}/other")
    assert [seen.url for seen in watcher.waits] == [f"{A}/other"]
    contacts = {seen.url for seen in watcher.contacts if seen.kind != "sitemap"}
    assert contacts == {f"{A}/robots.txt", f"{A}/", f"{A}/b", f"{A}/other"}
    assert f"Visited {A}/b" in watcher.outcomes
    assert f"Blocked {A}/p" in watcher.outcomes


# ---------------------------------------------------------------- what they may do


@pytest.mark.parametrize("error", [KeyError("a"), StoreError("mine is damaged")], ids=repr)
async def test_an_observer_that_fails_costs_nothing(
    clock: JumpClock, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(error)
    async with session_of(clock, observer=broken) as session:
        assert (await session.get(f"{A}/")).ok
        assert (await session.get(f"{A}/b")).ok
    assert broken.calls >= 5
    async with Crawler(
        [f"{A}/"], user_agent=UA, observer=broken, clock=clock, fetcher=FakeFetcher(clock, ANSWERS)
    ) as crawl:
        pages = [page.url async for page in crawl]
    assert pages == [f"{A}/", f"{A}/b"]
    errors = [record for record in caplog.records if record.name == "courtly.faults"]
    assert len(errors) == broken.calls
    assert "an observer's" in errors[0].getMessage()
    assert errors[0].exc_info is not None


@pytest.mark.parametrize("made", [Crawler, PoliteSession, Politeness])
def test_what_is_not_an_observer_is_refused(made: Any) -> None:
    with pytest.raises(ConfigError, match=r"observer: expected an instance .* class itself \(Wat"):
        made(user_agent=UA, observer=Watcher)
    with pytest.raises(ConfigError, match=r"observer: expected an instance .* an object \(dict\)"):
        made(user_agent=UA, observer={})


# ---------------------------------------------------------------- the log


async def test_the_log_has_subjects_and_levels(
    clock: JumpClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "courtly")
    async with session_of(clock) as session:
        await session.get(f"{A}/")
    async with Crawler(
        [f"{A}/b"], user_agent=UA, clock=clock, fetcher=FakeFetcher(clock, ANSWERS)
    ) as crawl:
        assert [page.url async for page in crawl]
    lines = {(record.name, record.levelname, record.getMessage()) for record in caplog.records}
    found = {(name, level, message.split(":")[0]) for name, level, message in lines}
    assert ("courtly.fetch", "DEBUG", "waited 5.100 s for http") in found
    robots = (
        f"{A}/robots.txt: 200, 0.100 s, 42 bytes; "
        "next contact with a.test in 5.000 s (Crawl-delay in robots.txt)"
    )
    assert ("courtly.robots", "INFO", robots) in lines
    assert any(name == "courtly.fetch" and f"{A}/: 200" in line for name, _, line in lines)
    assert ("courtly.crawl", "DEBUG", f"{A}/b: visited, status 200") in lines
    assert ("courtly.crawl", "INFO", f"{A}/p: blocked, Disallow: /p") in lines
    assert any(name == "courtly.store" and "committed" in line for name, _, line in lines)


@pytest.mark.parametrize(
    ("call", "name", "level", "line"),
    [
        (
            lambda log: log.contacted(contact(error=FailureCode.DNS, sentence="no such name")),
            *("courtly.fetch", logging.DEBUG, "a.test/: dns: no such name, 0.500 s"),
        ),
        (
            lambda log: log.contacted(contact()),
            *("courtly.fetch", logging.DEBUG, "a.test/: cancelled, 0.500 s"),
        ),
        (
            lambda log: log.contacted(contact(kind="sitemap", status=404)),
            *("courtly.fetch", logging.DEBUG, "a.test/: 404, 0.500 s"),
        ),
        (
            lambda log: log.gave_up("a.test", A, "dns: no such name", 3),
            *("courtly.crawl", logging.INFO, "http://a.test: given up with 3 URLs, dns: no such"),
        ),
        (
            lambda log: log.settled(
                A,
                Retry(
                    slot="a.test", id=1, error="http: 503", attempts=1, refusals=0, due_in_s=10.0
                ),
            ),
            *("courtly.crawl", logging.INFO, "http://a.test: retried in 10 s, http: 503"),
        ),
        (
            lambda log: log.hold_began(Hold(reason=HoldReason.NETWORK, since=0.0)),
            *("courtly.network", logging.WARNING, "no request begins: "),
        ),
        (
            lambda log: log.hold_ended(Hold(reason=HoldReason.NETWORK, since=0.0), 61.2),
            *("courtly.network", logging.WARNING, "requests begin again after 61 s: "),
        ),
    ],
)
def test_each_event_has_its_logger_and_level(
    call: Callable[[LogObserver], None],
    name: str,
    level: int,
    line: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(level, "courtly")
    call(LogObserver())
    caplog.set_level(level + 10, "courtly")
    call(LogObserver())
    [record] = caplog.records
    assert (record.name, record.levelno) == (name, level)
    assert line in record.getMessage()


def contact(**changes: Any) -> Contacted:
    usual: dict[str, Any] = {
        "url": f"{A}/",
        "slot": "a.test",
        "kind": "page",
        "status": None,
        "error": None,
        "sentence": "",
        "started_at": 0.0,
        "elapsed_s": 0.5,
        "latency_s": None,
        "body_bytes": 0,
        "wire_bytes": 0,
        "address": None,
        "late_s": 0.0,
        "next_in_s": 1.0,
        "rest_source": "politeness.delay",
    }
    return Contacted(**(usual | changes))


PROGRAM = """
import asyncio, logging, sys
from crawler import PoliteSession
from crawler.testing import LocalWeb, html

async def main():
    async with LocalWeb({"a.test": {"/": html("A")}}) as web:
        agent = "a/1 (+https://a.test/)"
        async with PoliteSession(config=web.config(), user_agent=agent) as session:
            assert (await session.get(web.url("a.test"))).ok

asyncio.run(main())
names = [name for name in logging.root.manager.loggerDict if name.startswith("courtly")]
loggers = [logging.getLogger(name) for name in [*names, "courtly"]]
assert not any(one.handlers or one.level or not one.propagate for one in loggers), names
assert not logging.root.handlers
"""


def test_by_default_nothing_is_printed_and_no_handler_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
