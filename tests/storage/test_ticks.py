"""Time that has certainly passed: never more than has, whatever any clock that can be set shows."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from storage.timekeeper import KEPT_MAX, Moment, Stamp, Ticks, Uptime

MACHINES = 3


class Stored(NamedTuple):
    stamp: Stamp
    true_s: float


class World:
    """Machines with clocks that began at different times, and the ticks of their database."""

    def __init__(self) -> None:
        self.true_s = 0.0
        self.tick = 1
        self.ticks = [Ticks() for _ in range(MACHINES)]

    def uptime(self, machine: int) -> Uptime:
        return Uptime(f"boot {machine}", 1e5 * (machine + 1) + self.true_s)

    def moment(self, machine: int) -> Moment:
        return Moment(0.0, 0.0, 0.0, self.uptime(machine), ticks=self.ticks[machine])

    def store(self, machine: int) -> Stored:
        """A commit: its moment comes before the tick that it draws."""
        boot, uptime_s = self.moment(machine).stamp
        true_s = self.true_s
        self.tick += 1
        return Stored(Stamp(self.tick, boot, uptime_s), true_s)

    def look(self, machine: int, answer_s: float) -> None:
        tick = self.tick
        self.true_s += answer_s
        self.ticks[machine].saw(tick, self.uptime(machine).uptime_s)


ACTS = st.lists(
    st.tuples(st.sampled_from("wsl"), st.integers(0, MACHINES - 1), st.floats(0, 30)), max_size=60
)


@given(ACTS, st.integers(0, MACHINES - 1))
def test_never_more_time_is_proven_than_has_passed(
    acts: list[tuple[str, int, float]], claimant: int
) -> None:
    world = World()
    stored: list[Stored] = []
    for act, machine, seconds in acts:
        if act == "w":
            world.true_s += seconds
        elif act == "s":
            stored.append(world.store(machine))
        else:
            world.look(machine, seconds / 10)
        at = world.moment(claimant)
        for stamp, true_s in stored:
            passed_s = at.passed_s(stamp)
            assert 0.0 <= passed_s <= world.true_s - true_s + 1e-6
            if stamp.boot == at.uptime.boot_key:
                assert passed_s >= world.true_s - true_s - 1e-6, "its own clock is exact"


def test_a_worker_that_looks_often_proves_nearly_all() -> None:
    world = World()
    world.look(1, 0.0)
    stamp = world.store(0).stamp
    world.true_s += 0.5
    world.look(1, 0.0)
    world.true_s += 10.0
    world.look(1, 0.0)  # the same tick: the first sight of it counts
    assert world.moment(1).passed_s(stamp) == 10.0
    assert world.moment(2).passed_s(stamp) == 0.0, "it has not looked yet"


def test_many_ticks_take_a_bounded_memory_and_prove_less() -> None:
    ticks = Ticks()
    for n in range(10 * KEPT_MAX):
        ticks.saw(n, float(n))
    assert len(ticks._numbers) <= KEPT_MAX
    for n in (0, 5, KEPT_MAX, 10 * KEPT_MAX - 1):
        seen_s = ticks.seen_s(n)
        assert seen_s is not None
        assert seen_s >= n
    assert ticks.seen_s(10 * KEPT_MAX) is None
    ticks.forget()
    assert ticks.seen_s(0) is None
