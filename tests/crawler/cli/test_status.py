"""The lines of `courtly status`."""

from __future__ import annotations

from collections.abc import Mapping

from crawler.cli.status import _lines
from crawler.console.overview_page import HOST_LABELS
from crawler.steering.live_state import HostState

STATUS: Mapping[str, object] = {
    "state": "running", "held": [], "visited": 4, "blocked": 0, "failed": 0, "queued": 7,
    "hosts": 21, "bytes": 500, "in_flight": 1, "pages_per_s": 0.5, "uptime_s": 301.0, "queue": [],
    "hosts_by_state": {"closed": 20, "in flight": 1, "later-state": 1},
}  # fmt: skip


def test_the_time_is_that_since_the_start_not_that_in_the_state() -> None:
    for state in ["running", "paused", "held", "idle", "stopping"]:
        first, *_ = _lines({**STATUS, "state": state})
        assert first == f"{state}, up for 5 min 1 s, 0.5 pages/s, 1 request in flight"


def test_active_hosts_are_named_as_on_the_page() -> None:
    (line,) = [line for line in _lines(STATUS) if line.startswith("active hosts")]
    assert line == "active hosts: 20 closed or unreachable, 1 request in flight, 1 later-state"


def test_the_page_has_a_label_for_every_state_of_a_host() -> None:
    assert HOST_LABELS.keys() == {state.replace(" ", "_") for state in HostState}
    assert HOST_LABELS["closed"] == "Closed or unreachable"
