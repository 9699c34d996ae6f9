"""Notifications reach the webhook in order, or leave a trace; nothing of it is secret."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from crawler.config import ConfigError, from_dict
from crawler.config.sections import LogLevel
from crawler.daemon.api.settings_list import effective_settings
from crawler.daemon.health import Check, CheckName, HealthState
from crawler.daemon.monitoring.event_log import EventLog, LogFile
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.webhook.changes import Change, Event, Notification, notification_of
from crawler.daemon.webhook.delivery import RETRY_S_MAX, WAITING_MAX, Delivery, Target
from crawler.daemon.webhook.health_webhook import target_of
from crawler.testing import JumpClock

SECRET = "hush-hush-hush"


def notification(number: int = 0, event: Event = Event.BEGAN) -> Notification:
    check = Check(check=CheckName.NETWORK, state=HealthState.BAD, sentence=f"Number {number}.")
    change = Change(event=event, check=check, since=1.5, lasted_s=60)
    return notification_of(
        change, daemon="crawl", health=HealthState.BAD, page="http://x/", at_s=61.5
    )


class Receiver:
    """A webhook that answers with the given statuses, the last one for ever."""

    def __init__(self) -> None:
        self.statuses = [204]
        self.headers: dict[str, str] = {}
        self.received: list[tuple[web.BaseRequest, Any]] = []
        self.accepted: list[Any] = []
        self.at_s: list[float] = []
        self.url = ""
        self.clock: JumpClock

    async def handle(self, request: web.BaseRequest) -> web.Response:
        body = json.loads(await request.text())
        self.received.append((request, body))
        self.at_s.append(self.clock.monotonic())
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status < 300:
            self.accepted.append(body)
        return web.Response(status=status, headers=self.headers)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.accepted) < count:  # noqa: ASYNC110 - another task
                await asyncio.sleep(0.005)


class Lines(LogFile):
    """A log in memory."""

    def __init__(self) -> None:
        super().__init__(None)
        self.text = ""

    def put(self, piece: bytes) -> None:
        self.text += piece.decode()


class Rig:
    """A delivery to a receiver, with a clock that jumps over its waits."""

    def __init__(self, receiver: Receiver, clock: JumpClock) -> None:
        self.lines = Lines()
        self.log = EventLog(self.lines, LogLevel.INFO)
        self.monitor = Monitor(clock, self.log)
        self.receiver = receiver
        target = Target(f"{receiver.url}/{SECRET}", {"Authorization": f"Bearer {SECRET}"})
        self.delivery = Delivery(
            target, clock, health=self.monitor.health, metrics=self.monitor.metrics, log=self.log
        )

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.text.splitlines()]

    def count(self, outcome: str) -> float:
        return self.monitor.metrics.notifications.of[outcome,]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.delivery.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def until_lost(self, count: int) -> None:
        async with asyncio.timeout(10):
            while self.count("lost") < count:  # noqa: ASYNC110 - another task
                await asyncio.sleep(0.005)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    receiver = Receiver()
    runner = web.ServerRunner(web.Server(receiver.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with JumpClock() as clock:
        receiver.clock = clock
        yield Rig(receiver, clock)
    await runner.cleanup()


async def test_a_notification_is_posted_as_json(rig: Rig) -> None:
    async with rig.running():
        rig.delivery.put(notification(7))
        await rig.receiver.until(1)
    ((request, body),) = rig.receiver.received
    assert request.method == "POST"
    assert request.path == f"/{SECRET}"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert request.content_type == "application/json"
    assert request.headers["User-Agent"].startswith("courtly/")
    assert body == {
        "event": "began", "daemon": "crawl", "check": "network", "state": "bad",
        "sentence": "Number 7.", "since": 1.5, "lasted_s": 60.0, "at": 61.5, "health": "bad",
        "page": "http://x/", "text": "crawl: network is bad. Number 7.",
    }  # fmt: skip
    assert rig.count("delivered") == 1


async def test_it_is_repeated_until_it_is_delivered_and_the_order_is_kept(rig: Rig) -> None:
    rig.receiver.statuses = [500, 503, 429, 200]
    async with rig.running():
        for number in range(3):
            rig.delivery.put(notification(number))
        await rig.receiver.until(3)
    assert [one["sentence"] for one in rig.receiver.accepted] == [
        "Number 0.", "Number 1.", "Number 2.",
    ]  # fmt: skip
    waits = [b - a for a, b in zip(rig.receiver.at_s, rig.receiver.at_s[1:], strict=False)]
    assert waits[:3] == [1.0, 2.0, 4.0]
    assert rig.count("delivered") == 3
    assert rig.monitor.metrics.webhook_failures.of[()] == 3
    names = [one["event"] for one in rig.events()]
    assert names == ["webhook_failed", "notified", "notified", "notified"]
    assert rig.events()[1]["attempts"] == 4


async def test_the_receiver_says_when_it_wants_the_next_attempt(rig: Rig) -> None:
    rig.receiver.statuses = [429, 429, 200]
    rig.receiver.headers = {"Retry-After": "17"}
    async with rig.running():
        rig.delivery.put(notification())
        await rig.receiver.until(1)
    assert [one - rig.receiver.at_s[0] for one in rig.receiver.at_s] == [0, 17, 34]


async def test_a_receiver_that_is_away_for_long_is_asked_once_a_minute(rig: Rig) -> None:
    rig.receiver.statuses = [500] * 40 + [200]
    rig.receiver.headers = {"Retry-After": "86400"}
    async with rig.running():
        rig.delivery.put(notification())
        await rig.receiver.until(1)
    waits = [b - a for a, b in zip(rig.receiver.at_s, rig.receiver.at_s[1:], strict=False)]
    assert max(waits) == RETRY_S_MAX


@pytest.mark.parametrize("status", [301, 400, 401, 404, 410])
async def test_what_would_fail_again_is_given_up(rig: Rig, status: int) -> None:
    rig.receiver.statuses = [status, 200]
    async with rig.running():
        rig.delivery.put(notification(1))
        rig.delivery.put(notification(2))
        await rig.receiver.until(1)
    assert rig.receiver.accepted[0]["sentence"] == "Number 2."
    assert (rig.count("lost"), rig.count("delivered")) == (1, 1)
    (lost,) = [one for one in rig.events() if one["event"] == "notification_lost"]
    assert str(status) in lost["why"]


async def test_health_shows_what_is_not_delivered(rig: Rig) -> None:
    health = rig.monitor.health
    assert health.undelivered == ""
    rig.receiver.statuses = [404]
    async with rig.running():
        rig.delivery.put(notification())
        await rig.until_lost(1)
        assert health.undelivered == (
            "The webhook refused the last notification: it responded with status 404."
        )
        rig.receiver.statuses = [204]
        rig.delivery.put(notification())
        await rig.receiver.until(1)
        while health.undelivered:  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.005)


async def test_the_queue_is_bounded_and_what_is_lost_leaves_a_trace(rig: Rig) -> None:
    for number in range(WAITING_MAX + 5):
        rig.delivery.put(notification(number))
    assert rig.count("lost") == 5
    async with rig.running():
        await rig.receiver.until(WAITING_MAX)
    assert rig.receiver.accepted[0]["sentence"] == "Number 5."
    lost = [one for one in rig.events() if one["event"] == "notification_lost"]
    assert len(lost) == 5


async def test_a_reminder_does_not_queue_behind_its_own_trouble(rig: Rig) -> None:
    rig.delivery.put(notification(1))
    rig.delivery.put(notification(2, Event.CONTINUES))
    rig.delivery.put(notification(3, Event.RECOVERED))
    async with rig.running():
        await rig.receiver.until(2)
    assert [one["event"] for one in rig.receiver.accepted] == ["began", "recovered"]


async def test_what_waits_at_the_end_is_logged(rig: Rig) -> None:
    rig.receiver.statuses = [500]
    async with rig.running():
        rig.delivery.put(notification())
        while not rig.receiver.received:  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.005)
    assert [one["event"] for one in rig.events()][-1] == "notification_lost"


async def test_a_receiver_that_cannot_be_reached() -> None:
    receiver = Receiver()
    receiver.url = "http://127.0.0.1:9"  # nobody listens there
    async with JumpClock() as clock:
        rig = Rig(receiver, clock)
        async with rig.running():
            rig.delivery.put(notification())
            while not rig.events():  # noqa: ASYNC110 - another task
                await asyncio.sleep(0.005)
        assert rig.events()[0]["why"] == "connection refused"
        assert rig.monitor.health.undelivered == (
            "1 notification not delivered to the webhook yet: connection refused."
        )
        assert SECRET not in rig.lines.text


async def test_the_log_holds_no_secret(rig: Rig) -> None:
    rig.receiver.statuses = [500, 404, 200]
    async with rig.running():
        rig.delivery.put(notification())
        rig.delivery.put(notification())
        await rig.receiver.until(1)
    assert len(rig.events()) == 3
    assert SECRET not in rig.lines.text
    assert SECRET not in str(rig.monitor.health.undelivered)


# ---------------------------------------------------------------- its config


def test_secrets_are_read_from_their_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hook").write_text(f"https://hooks.test/{SECRET}\n")
    monkeypatch.setenv("HOOK_TOKEN", f"Bearer {SECRET}")
    config = from_dict(
        {
            "webhook": {
                "url": "file:hook",
                "headers": {"Authorization": "env:HOOK_TOKEN", "X-A": "b"},
            }
        },
        base=tmp_path,
    )
    target = target_of(config)
    assert target is not None
    assert target.url == f"https://hooks.test/{SECRET}"
    assert target.headers == {"Authorization": f"Bearer {SECRET}", "X-A": "b"}
    assert SECRET not in repr(target)
    lines = Lines()
    log = EventLog(lines, LogLevel.INFO)
    log.hide([SECRET * 2])
    log.hide(target.secrets)
    log.event(LogLevel.INFO, "x", a=target.url, b=f"with Bearer {SECRET}", c=SECRET * 2)
    assert SECRET not in lines.text
    assert target_of(from_dict({})) is None


@pytest.mark.parametrize(
    ("held", "words"), [(SECRET, "must hold an http(s) URL"), (None, "cannot be read")]
)
def test_a_source_without_a_url(tmp_path: Path, held: str | None, words: str) -> None:
    if held is not None:
        (tmp_path / "hook").write_text(held)
    config = from_dict({"webhook": {"url": "file:hook"}}, base=tmp_path)
    with pytest.raises(ConfigError) as caught:
        target_of(config)
    assert words in str(caught.value)
    assert "webhook.url" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"url": f"ftp://{SECRET}"}, "must be an http(s) URL, or where it is"),
        ({"url": SECRET}, "must be an http(s) URL, or where it is"),
        ({"headers": {"Content-Type": SECRET}}, "cannot be set here"),
        ({"headers": {"Host": SECRET}}, "cannot be set here"),
        ({"headers": {"X-A": "env:"}}, "must be followed by a name"),
        ({"headers": {"X-A": f"{SECRET}\n"}}, "must be one line"),
        ({"level": "ok"}, 'must be "warning" or "bad"'),
        ({"checks": ["netwrk"]}, 'did you mean "network"'),
        ({"repeat": "1s"}, "must be at least 60"),
        ({"page_url": "crawl"}, "must be an http(s) URL"),
    ],
)
def test_a_wrong_section_is_refused_without_its_secrets(section: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dict({"webhook": section})
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_the_config_page_shows_no_secret() -> None:
    config = from_dict(
        {
            "webhook": {
                "url": f"https://me:{SECRET}@hooks.test:8443/services/{SECRET}?t={SECRET}",
                "headers": {"X-Key": SECRET, "X-Other": "env:OTHER"},
            }
        }
    )
    shown = {one.key: one.value for one in effective_settings(config, None)}
    assert shown["webhook.url"] == "https://hooks.test:8443/…"
    assert shown["webhook.headers"] == {"X-Key": "…", "X-Other": "env:OTHER"}
    assert SECRET not in repr(config)
