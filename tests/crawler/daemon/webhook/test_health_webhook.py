"""The webhook follows the health of a crawl, whatever becomes of the database or of itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawler.config import from_dict
from crawler.config.sections import LogLevel
from crawler.daemon.api.operations import Operations
from crawler.daemon.health import Check, CheckName, Health, HealthState
from crawler.daemon.monitoring.event_log import EventLog
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.webhook.changes import Notification
from crawler.daemon.webhook.delivery import Delivery, Target
from crawler.daemon.webhook.health_webhook import HealthWebhook
from crawler.steering.control import Control
from crawler.testing import JumpClock
from storage.store import StoreError
from tests.crawler.daemon.webhook.test_delivery import Lines

OK, WARNING, BAD = HealthState


def health(network: HealthState = OK) -> Health:
    checks = [
        Check(check=CheckName.NETWORK, state=network, sentence="So it is."),
        Check(check=CheckName.COMMITS, state=OK, sentence="All is committed."),
    ]
    return Health(state=network, checks=tuple(checks))


class Rig:
    """A webhook whose notifications go nowhere. `answer` makes the health of the crawl."""

    def __init__(self, clock: JumpClock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = clock
        self.told: list[Notification] = []
        self.asked = 0
        self.answer: Callable[[], Awaitable[Health]] = self.well
        self.control = SimpleNamespace()
        self.configure({"after": "10s"})
        self.lines = Lines()
        log = EventLog(self.lines, LogLevel.INFO)
        monkeypatch.setattr(Delivery, "put", lambda _, one: self.told.append(one))
        self.webhook = HealthWebhook(Target("http://127.0.0.1:9/", {}), Monitor(clock, log), log)

    def configure(self, webhook: Mapping[str, object]) -> None:
        """As a reload does."""
        self.control.config = from_dict({"webhook": webhook, "daemon": {"name": "news"}})

    async def well(self) -> Health:
        return health()

    async def bad(self) -> Health:
        return health(BAD)

    async def status(self) -> Any:
        self.asked += 1
        return SimpleNamespace(health=await self.answer())

    async def passes(self, for_s: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + for_s)

    def events(self) -> list[tuple[str, str]]:
        return [(one.check.value, one.event.value) for one in self.told]


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    async with JumpClock() as clock:
        made = Rig(clock, monkeypatch)
        operations = cast("Operations", SimpleNamespace(status=made.status))
        control = cast("Control", made.control)
        task = asyncio.create_task(made.webhook.run(operations, control, "http://x/"))
        yield made
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_change_is_told_with_the_name_and_the_page(rig: Rig) -> None:
    await rig.passes(60)
    assert rig.told == []
    rig.answer = rig.bad
    await rig.passes(30)
    (told,) = rig.told
    assert (told.daemon, told.page, told.health) == ("news", "http://x/", BAD)
    rig.answer = rig.well
    await rig.passes(60)
    assert rig.events() == [("network", "began"), ("network", "recovered")]


async def test_a_reload_applies_to_what_is_told(rig: Rig) -> None:
    rig.configure({"after": "1h", "page_url": "https://crawl.test/"})
    rig.answer = rig.bad
    await rig.passes(600)
    assert rig.told == []
    rig.configure({"after": "10s", "page_url": "https://crawl.test/"})
    await rig.passes(10)
    assert rig.told[0].page == "https://crawl.test/"
    rig.configure({"after": "10s", "checks": ["disk"]})
    rig.answer = rig.well
    await rig.passes(600)
    assert len(rig.told) == 1


async def test_a_database_that_does_not_answer_is_a_trouble(rig: Rig) -> None:
    async def fails() -> Health:
        raise StoreError("locked")

    await rig.passes(10)
    rig.answer = fails
    await rig.passes(30)
    (told,) = rig.told
    assert (told.check, told.state) == (CheckName.COMMITS, BAD)
    assert told.sentence == "The database does not answer."
    rig.answer = rig.well
    await rig.passes(60)
    assert rig.events() == [("commits", "began"), ("commits", "recovered")]


async def test_a_fault_ends_nothing_and_is_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> Health:
        raise ZeroDivisionError

    rig.answer = broken
    with caplog.at_level(logging.ERROR):
        await rig.passes(150)
    assert "the webhook failed" in caplog.text
    assert rig.asked <= 4  # once a minute
    rig.answer = rig.bad
    await rig.passes(150)
    assert rig.events() == [("network", "began")]
