"""Which connection makes room for a new one."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from crawler.clock import RealClock
from crawler.front_door.connections import Connections


@dataclass(eq=False)
class Fake:
    """kind: "unknown", "idle" or "busy"."""

    peer: str
    kind: str

    @property
    def authorized(self) -> bool:
        return self.kind != "unknown"

    @property
    def is_idle(self) -> bool:
        return self.kind != "busy"


@pytest.mark.parametrize(
    ("opened", "newest", "displaced"),
    [
        # the oldest unknown one of the client with the most
        ("a:unknown b:unknown b:unknown c:idle", "c", 1),
        ("a:busy a:idle b:unknown", "b", 2),
        # then one that waits for its next request
        ("a:busy b:idle a:idle a:idle", "b", 2),
        # then one in use, of a client that has more
        ("a:busy b:busy b:busy b:busy", "a", 1),
        ("a:busy a:busy", "c", 0),
        # or the new one itself
        ("a:busy b:busy", "b", None),
        ("a:busy a:busy a:busy", "a", None),
    ],
)
async def test_room_is_made_fairly(opened: str, newest: str, displaced: int | None) -> None:
    server: Any = SimpleNamespace(request_factory=None)
    connections = Connections(server, RealClock())
    found = [Fake(*text.split(":")) for text in opened.split()]
    last: Any = Fake(newest, "unknown")
    every: Any = dict.fromkeys([*found, last])
    connections._open = every
    assert connections._displaced_by(last) is (last if displaced is None else found[displaced])
