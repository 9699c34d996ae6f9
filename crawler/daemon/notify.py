"""Notifications to a service manager (sd_notify): ready, reloading, stopping and keep-alive."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

from crawler.threads import start_daemon

WAIT_S: Final = 5.0  # for a manager whose queue is full


class Notify:
    """Sends notifications to the socket named by NOTIFY_SOCKET; without it, none.

    `watchdog_s`: the manager restarts the process if no keep-alive arrives in this time; None:
    never.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        given = os.environ if environment is None else environment
        name = given.get("NOTIFY_SOCKET", "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self.watchdog_s = _watchdog_s(given)

    def ready(self) -> None:
        self._notify("READY=1")

    def reloading(self) -> None:
        micros = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={micros}")

    def stopping(self) -> None:
        self._notify("STOPPING=1")

    def status(self, text: str) -> None:
        """One line, for `systemctl status`."""
        self._notify(f"STATUS={text}")

    def alive(self) -> None:
        self._notify("WATCHDOG=1")

    def _notify(self, message: str) -> None:
        if not self._address:
            return
        try:
            self._send(message, wait_s=0.0)
        except BlockingIOError:  # its queue is full; the crawl does not wait
            start_daemon(self._send_late, message, name="notify")
        except OSError:
            pass  # a missing manager does not stop the crawl

    def _send_late(self, message: str) -> None:
        with contextlib.suppress(OSError):
            self._send(message, wait_s=WAIT_S)

    def _send(self, message: str, *, wait_s: float) -> None:
        """Raises OSError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as made:
            made.settimeout(wait_s)
            made.sendto(message.encode(), self._address)


def _watchdog_s(given: Mapping[str, str]) -> float | None:
    micros, pid = given.get("WATCHDOG_USEC", ""), given.get("WATCHDOG_PID", "")
    if not micros.isdecimal() or int(micros) <= 0 or (pid and pid != str(os.getpid())):
        return None
    return int(micros) / 1e6
