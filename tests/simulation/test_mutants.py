"""The faults to be injected still fit the code; and, on demand, the simulator finds them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.injection import ROOT, can_be_examined, examine
from tests.simulation.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_fault_fits_the_code(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new


def test_there_are_enough_and_each_is_another() -> None:
    assert len(MUTANTS) >= 60
    assert max(Counter(mutant.what for mutant in MUTANTS).values()) == 1
    assert all(Path(mutant.file).parts[0] != "tests" for mutant in MUTANTS)


@pytest.mark.soak
@pytest.mark.timeout(4 * 3600)
def test_the_simulator_finds_nearly_all() -> None:
    findings = [examine(mutant, 0, 400) for mutant in MUTANTS if can_be_examined(mutant)]
    missed = [finding.mutant.what for finding in findings if not finding.problem]
    assert len(missed) <= len(findings) // 12, missed
