"""A crawl that could not be completed does not pass as a check."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.cli.fail_on import fail
from crawler.events import Summary
from policies.holds import Hold, HoldReason
from storage.location import FileLocation

HELD = (Hold(reason=HoldReason.NETWORK, since=1_800_000_000.0),)


@pytest.mark.parametrize(
    ("failed", "held", "code"), [(0, (), 0), (0, HELD, 1), (2, HELD, 3), (2, (), 3)]
)
def test_a_problem_of_this_machine_fails_a_check_that_found_nothing(
    failed: int, held: tuple[Hold, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = Summary(
        visited=1, blocked=0, failed=failed, queued=0, hosts=1, bytes=0, elapsed_s=1.0,
        skipped={}, held=held,
    )  # fmt: skip
    left = 0
    try:
        fail(("failed",), summary, FileLocation(Path("crawl.db")), options=" --db x.db")
    except SystemExit as exit_:
        left = int(str(exit_.code))
    assert left == code
    said = capsys.readouterr().err
    assert ("the crawl is not complete: network outage" in said) is (code == 1)
    assert ("2 URLs are failed: courtly show failed --db x.db" in said) is (code == 3)
