"""What a host was promised holds over a restart, however the wall clock was set meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.store import HostClock
from storage.timekeeper import Timekeeper, Uptime, machine_uptime
from tests.storage.conftest import Rig

PROMISED_S = 12.0


class Machine:
    """A clock that nobody sets."""

    def __init__(self) -> None:
        self.up_s = 50.0
        self.boot = "first"

    def monotonic(self) -> float:
        return self.up_s

    def uptime(self) -> Uptime | None:
        return Uptime(self.boot, self.up_s)

    def options(self) -> dict[str, object]:
        return {"monotonic": self.monotonic, "uptime": self.uptime}


async def left_s(
    path: Path, *, passed_s: float, set_by_s: float, boots: bool = False, told: bool = True
) -> float:
    """What a new session knows to be left of a back-off, after so much time."""
    machine = Machine()
    rig = Rig("sqlite", path)
    options = machine.options() if told else {"uptime": lambda: None}
    await rig.open(**options)
    await rig.add("http://a.test/")
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    clock = HostClock(next_in_s=1.0, rested_s=0.0, delay_s=1.0, backoff_in_s=PROMISED_S)
    await rig.commit(lease, clock=clock, release=True)
    await rig.store.close()
    rig.wall_s += passed_s + set_by_s
    machine.up_s += passed_s
    if boots:
        machine.boot, machine.up_s = "second", 20.0
    await rig.open(**machine.options())
    lease = (await rig.store.acquire(rig.session, ["a.test"]))["a.test"]
    await rig.commit(lease, release=True)
    await rig.close()
    return lease.clock.backoff_in_s


@pytest.mark.parametrize("set_by_s", [0.0, 0.9, 2.0, 11.0, 86_400.0, -2.0, -86_400.0])
async def test_setting_the_wall_clock_between_sessions_moves_no_promise(
    tmp_path: Path, set_by_s: float
) -> None:
    found_s = await left_s(tmp_path / "crawl.db", passed_s=3.0, set_by_s=set_by_s)
    assert found_s == pytest.approx(PROMISED_S - 3.0, abs=0.01)


@pytest.mark.parametrize("set_by_s", [0.0, -1.0, 0.9, 10.0, -86_400.0, 30 * 86_400.0])
async def test_after_another_start_no_time_is_proven(tmp_path: Path, set_by_s: float) -> None:
    found_s = await left_s(tmp_path / "crawl.db", passed_s=3.0, set_by_s=set_by_s, boots=True)
    assert found_s == PROMISED_S


async def test_a_machine_that_knows_no_uptime(tmp_path: Path) -> None:
    found_s = await left_s(tmp_path / "crawl.db", passed_s=3.0, set_by_s=0.0, told=False)
    assert found_s == PROMISED_S


def test_this_machine_tells_its_uptime_or_nothing() -> None:
    first, second = machine_uptime(), machine_uptime()
    if first is not None and second is not None:
        assert 0 <= (second.since(first.boot, first.uptime_s) or 0.0) < 60
        assert first.since("another", 0.0) is None
        assert first.since(first.boot, first.uptime_s + 1) is None
    one, two = Timekeeper(lambda: 0.0).uptime(), Timekeeper(lambda: 0.0).uptime()
    assert one.boot != two.boot, "another process cannot compare its own with it"
