"""Sends notifications to the webhook, one at a time and in order. Nothing waits for it.

They go out directly: a webhook is no host of the crawl, and no robots.txt or delay applies to it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from typing import Final

import aiohttp
import msgspec
from msgspec import Struct

from crawler.clock import Clock
from crawler.config.sections import LogLevel
from crawler.daemon.monitoring.event_log import EventLog
from crawler.daemon.monitoring.health_monitor import HealthMonitor
from crawler.daemon.monitoring.metrics import Metrics
from crawler.daemon.webhook.changes import Event, Notification
from crawler.explain.formatting import counted, json_printable
from crawler.version import __version__

WAITING_MAX: Final = 32  # notifications; of more, the oldest are given up
REQUEST_S: Final = 10.0  # for one request, with its response header
RETRY_S_MIN: Final = 1.0
RETRY_S_MAX: Final = 60.0
# Of 4xx, only these may be different at the next attempt: timeout, too early, too many requests.
_LATER: Final = frozenset((408, 425, 429))


class Target(Struct, frozen=True):
    """The receiver of notifications. Both fields may be secret."""

    url: str
    headers: Mapping[str, str]

    def __repr__(self) -> str:
        return "Target(…)"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The strings that must not be shown."""
        return (self.url, *self.headers.values())


class Attempt(Struct, frozen=True):
    """One request. why: "" if it was delivered, else a clause without secrets. retry_s: when the
    receiver wants the next attempt; None: it says nothing about that."""

    why: str = ""
    final: bool = False
    retry_s: float | None = None


class Delivery:
    """Delivers to one webhook while `run` runs, and counts in `metrics`. Failures are logged, and
    shown in `health`."""

    def __init__(
        self,
        target: Target,
        clock: Clock,
        *,
        health: HealthMonitor,
        metrics: Metrics,
        log: EventLog,
    ) -> None:
        self._target = target
        self._clock = clock
        self._health = health
        self._metrics = metrics
        self._log = log
        self._waiting: deque[Notification] = deque()
        self._changed = asyncio.Event()
        self._why = ""  # of the last failure; "": the last attempt succeeded
        self._refused = False  # that failure was final
        health.undelivered = ""

    def put(self, notification: Notification) -> None:
        """Queue a notification. A reminder is left out while another one of its check waits."""
        if notification.event is Event.CONTINUES and any(
            one.check is notification.check for one in self._waiting
        ):
            return
        if len(self._waiting) >= WAITING_MAX:
            self._lost(self._waiting.popleft(), "too many notifications are waiting")
        self._waiting.append(notification)
        self._changed.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_S)
        headers = {"User-Agent": f"courtly/{__version__}", **self._target.headers}
        try:
            async with aiohttp.ClientSession(
                timeout=timeout, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
            ) as session:
                while True:
                    while not self._waiting:
                        self._changed.clear()
                        await self._changed.wait()
                    await self._deliver(session, self._waiting[0])
        finally:
            while self._waiting:
                self._lost(self._waiting.popleft(), "the daemon stops")

    async def _deliver(self, session: aiohttp.ClientSession, notification: Notification) -> None:
        """Try until it is delivered, refused for good, or given up for newer ones."""
        attempts, backoff_s = 0, RETRY_S_MIN
        while self._waiting and self._waiting[0] is notification:
            attempts += 1
            done = await self._attempt(session, notification)
            if not done.why:
                self._delivered(notification, attempts)
                return
            self._failed(notification, done, attempts)
            if done.final:
                return
            wait_s = max(backoff_s, min(done.retry_s or 0.0, RETRY_S_MAX))
            backoff_s = min(backoff_s * 2, RETRY_S_MAX)
            await self._clock.sleep_until(self._clock.monotonic() + wait_s)

    async def _attempt(self, session: aiohttp.ClientSession, notification: Notification) -> Attempt:
        text = msgspec.json.encode(notification).decode("utf-8", "replace")
        body = json_printable(text).encode()
        try:
            async with session.post(
                self._target.url,
                data=body,
                headers={"Content-Type": "application/json"},
                allow_redirects=False,  # it would lead the secrets elsewhere
            ) as response:
                return _judged(response.status, response.headers.get("Retry-After", ""))
        except TimeoutError:
            return Attempt(f"no response within {REQUEST_S:g} s")
        except aiohttp.ClientConnectorCertificateError:
            return Attempt("its certificate is not valid")
        except aiohttp.ClientConnectorDNSError:
            return Attempt("its name could not be resolved")
        except OSError as error:  # those of aiohttp are as well, if the system is the cause
            return Attempt(os.strerror(error.errno).lower() if error.errno else "no connection")
        except aiohttp.ClientError as error:  # whose message may quote the URL
            return Attempt(f"the request failed ({type(error).__name__})")

    # ------------------------------------------------------------ results

    def _delivered(self, notification: Notification, attempts: int) -> None:
        self._remove(notification)
        self._metrics.notifications.of["delivered",] += 1
        self._why, self._refused = "", False
        self._show()
        self._event(LogLevel.INFO, "notified", notification, attempts=attempts)

    def _failed(self, notification: Notification, done: Attempt, attempts: int) -> None:
        self._metrics.webhook_failures.of[()] += 1
        self._why, self._refused = done.why, done.final
        if done.final:
            if self._remove(notification):
                self._lost(notification, done.why)
        elif attempts == 1:  # the log need not have every attempt of a night
            self._event(LogLevel.WARNING, "webhook_failed", notification, why=done.why)
        self._show()

    def _remove(self, notification: Notification) -> bool:
        """Whether it was still waiting, and not given up for newer ones."""
        if not self._waiting or self._waiting[0] is not notification:
            return False
        self._waiting.popleft()
        return True

    def _lost(self, notification: Notification, why: str) -> None:
        self._metrics.notifications.of["lost",] += 1
        self._event(LogLevel.WARNING, "notification_lost", notification, why=why)

    def _show(self) -> None:
        if not self._why:
            self._health.undelivered = ""
        elif self._refused:
            self._health.undelivered = f"The webhook refused the last notification: {self._why}."
        else:
            waiting = counted(len(self._waiting), "notification")
            self._health.undelivered = f"{waiting} not delivered to the webhook yet: {self._why}."

    def _event(
        self, level: LogLevel, name: str, notification: Notification, **values: object
    ) -> None:
        self._log.event(
            level,
            name,
            check=notification.check.value,
            change=notification.event.value,
            state=notification.state.value,
            **values,
        )


def _judged(status: int, retry_after: str) -> Attempt:
    """What a response means."""
    if 200 <= status < 300:
        return Attempt()
    final = status < 500 and status not in _LATER  # a redirect or a wrong URL: not temporary
    retry_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else None
    return Attempt(f"it responded with status {status}", final=final, retry_s=retry_s)
