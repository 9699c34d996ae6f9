"""The bench against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crawler.frontier.workbench import Workbench


class Sitter:
    def __init__(self, name: int) -> None:
        self.name = name
        self.seat = 0

    def __lt__(self, other: Sitter) -> bool:
        raise AssertionError("the heap must never compare sitters")


@given(st.lists(st.floats(0, 100), max_size=30))
def test_gives_those_ready_in_order_of_time_and_of_coming(times: list[float]) -> None:
    bench: Workbench[Sitter] = Workbench()
    sitters = [Sitter(n) for n in range(len(times))]
    for sitter, at in zip(sitters, times, strict=True):
        bench.put(sitter, at)
    taken = []
    while one := bench.take(50):
        taken.append(one.name)
    assert taken == sorted((n for n, at in enumerate(times) if at <= 50), key=lambda n: times[n])
    later = [at for at in times if at > 50]
    assert bench.next_at() == (min(later) if later else None)
    assert len(bench) == len(later)


class BenchMachine(RuleBasedStateMachine):
    """Any order of put, put again, remove and take: each sitter has one place, none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.bench: Workbench[Sitter] = Workbench()
        self.sitters = [Sitter(n) for n in range(6)]
        self.model: dict[int, float] = {}
        self.now = 0.0

    @rule(n=st.integers(0, 5), at=st.floats(0, 50))
    def put(self, n: int, at: float) -> None:
        self.bench.put(self.sitters[n], at)
        self.model[n] = at

    @rule(n=st.integers(0, 5))
    def remove(self, n: int) -> None:
        self.bench.remove(self.sitters[n])
        self.model.pop(n, None)

    @rule(step=st.floats(0, 10))
    def take(self, step: float) -> None:
        self.now += step
        one = self.bench.take(self.now)
        ready = {n for n, at in self.model.items() if at <= self.now}
        if one is None:
            assert not ready
        else:
            assert one.name in ready
            del self.model[one.name]

    @invariant()
    def counts(self) -> None:
        assert len(self.bench) == len(self.model)


TestBench = BenchMachine.TestCase


def test_void_entries_do_not_pile_up() -> None:
    """Law 7: putting the same host again and again keeps the heap small."""
    bench: Workbench[Sitter] = Workbench()
    sitter = Sitter(0)
    for at in range(10_000):
        bench.put(sitter, at)
    assert len(bench.waiting) < 200
    assert bench.take(10_000) is sitter
    assert bench.take(10_000) is None
