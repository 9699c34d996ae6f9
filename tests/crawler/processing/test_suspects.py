"""Suspects that find another one in flight come back at times of their own."""

from __future__ import annotations

from itertools import pairwise

from crawler.processing.attempts import deferred
from storage.store import SUSPECT_REST_S, Queued, Retry


def test_suspects_that_are_deferred_together_fall_due_one_after_the_other() -> None:
    dues = []
    for id_ in range(1_000, 1_300):
        queued = Queued(
            id=id_, url=f"http://a.test/{id_}", depth=0, priority=0.0, attempts=0, refusals=0,
            seed=False, suspect=True,
        )  # fmt: skip
        outcome = deferred(queued, "a.test")
        assert isinstance(outcome, Retry)
        dues.append(outcome.due_in_s)
    gaps = [later - sooner for sooner, later in pairwise(sorted(dues))]
    assert min(gaps) > SUSPECT_REST_S / 1_000
    assert max(dues) < 2 * SUSPECT_REST_S
