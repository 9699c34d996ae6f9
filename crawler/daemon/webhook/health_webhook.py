"""Watches the health of a crawl, and has its changes delivered to the webhook of the config."""

from __future__ import annotations

import asyncio
from typing import Final

from crawler.clock import Clock
from crawler.config import Config, ConfigError
from crawler.config.webhook import read_url
from crawler.daemon.api.operations import Operations
from crawler.daemon.health import Check, CheckName, Health, HealthState
from crawler.daemon.monitoring.event_log import EventLog
from crawler.daemon.monitoring.monitor import Monitor
from crawler.daemon.webhook.changes import HealthChanges, notification_of
from crawler.daemon.webhook.delivery import Delivery, Target
from crawler.faults import contained
from crawler.steering.control import Control
from policies.header_field import field_value
from storage.secret_sources import SecretError, is_source, read_source
from storage.store import StoreError

EVERY_S: Final = 2.0
STATUS_WITHIN_S: Final = 5.0
AFTER_FAULT_S: Final = 60.0


def target_of(config: Config) -> Target | None:
    """Read the secrets of the `[webhook]` section; None without a webhook. Raises ConfigError."""
    section, place = config.webhook, config.given.place
    if not section.url:
        return None
    try:
        if is_source(section.url):
            text, what = read_source(section.url)
            try:
                url = read_url(text)
            except ValueError as error:
                raise SecretError(f"{what} {error}") from None
        else:
            url = section.url
    except SecretError as error:
        raise ConfigError(f"{place('webhook.url')}: webhook.url: {error}") from None
    headers = {}
    for name, value in section.headers.items():
        try:
            headers[name] = _header(value)
        except SecretError as error:
            where = place("webhook.headers")
            raise ConfigError(f"{where}: webhook.headers: {name}: {error}") from None
    return Target(url, headers)


def _header(value: str) -> str:
    if not is_source(value):
        return value
    text, what = read_source(value)
    try:
        return field_value(text)
    except ValueError as error:
        raise SecretError(f"{what}: {error}") from None


class HealthWebhook:
    """Notifies of the health of one crawl while `run` runs. A fault in it ends nothing else."""

    def __init__(self, target: Target, monitor: Monitor, log: EventLog) -> None:
        self._clock: Clock = monitor.clock
        self._changes = HealthChanges()
        self._last: Health | None = None
        self.delivery = Delivery(
            target, monitor.clock, health=monitor.health, metrics=monitor.metrics, log=log
        )

    async def run(self, operations: Operations, control: Control, address: str) -> None:
        """Notify until cancelled. address: of the daemon's page, unless the config has another."""
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.delivery.run())
                    group.create_task(self._watch(operations, control, address))
            except ExceptionGroup as faults:
                contained("the webhook", faults)
            await self._clock.sleep_until(self._clock.monotonic() + AFTER_FAULT_S)

    async def _watch(self, operations: Operations, control: Control, address: str) -> None:
        while True:
            self.look(await self._health(operations), control.config, address)
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)

    async def _health(self, operations: Operations) -> Health:
        """The health now. A database that does not answer is a trouble itself."""
        try:
            async with asyncio.timeout(STATUS_WITHIN_S):
                self._last = (await operations.status()).health
        except (TimeoutError, StoreError):
            sentence = "The database does not answer."
            silent = Check(check=CheckName.COMMITS, state=HealthState.BAD, sentence=sentence)
            others = () if self._last is None else self._last.checks
            kept = tuple(one for one in others if one.check is not CheckName.COMMITS)
            return Health(state=HealthState.BAD, checks=(*kept, silent))
        return self._last

    def look(self, health: Health, config: Config, address: str) -> None:
        """Queue notifications of what has changed."""
        at_s = self._clock.wall()
        for change in self._changes.seen(
            health, config.webhook, now_s=self._clock.monotonic(), at_s=at_s
        ):
            self.delivery.put(
                notification_of(
                    change,
                    daemon=config.daemon_name,
                    health=health.state,
                    page=config.webhook.page_url or address,
                    at_s=at_s,
                )
            )
