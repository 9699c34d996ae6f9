"""The limits on CPU time in tests."""

from __future__ import annotations

import time

import pytest

from tests import cpu_time
from tests.cpu_time import REFERENCE_S, cpu_at_most


def busy(for_s: float) -> None:
    until_s = time.process_time() + for_s
    while time.process_time() < until_s:
        pass


def test_a_block_that_takes_longer_fails() -> None:
    with pytest.raises(AssertionError, match="times as slow"), cpu_at_most(0.001):
        busy(1.0)


@pytest.mark.parametrize(("slowness", "fails"), [(1, True), (9, False)])
def test_a_slow_machine_has_more_time(
    monkeypatch: pytest.MonkeyPatch, slowness: int, fails: bool
) -> None:
    monkeypatch.setattr(cpu_time, "reference_s", lambda: slowness * REFERENCE_S)
    limit = cpu_at_most(0.01)
    if fails:
        with pytest.raises(AssertionError), limit:
            busy(0.03)
    else:
        with limit:
            busy(0.03)
