"""Progress on stderr: live on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io

from msgspec.structs import replace
from rich.console import Console

from crawler.cli.live_display import as_panel
from crawler.cli.progress import as_line, display
from crawler.cli.text import clock
from crawler.events import Progress, SlowHost

PROGRESS = Progress(
    elapsed_s=12.3,
    visited=1234,
    blocked=5,
    failed=1,
    queued=999,
    pages_per_s=101.7,
    bytes=8_400_000,
    in_flight=24,
    hosts_by_state={"in flight": 24, "waiting": 130, "robots": 2, "paused": 0},
    slowest=(
        SlowHost(host="slow.example.org", wait_s=93.0, reason="Crawl-delay 120 of its robots.txt"),
        SlowHost(host="evil\x1b[31m.test", wait_s=0.0, reason="robots.txt is asked first"),
    ),
    fetching=("https://example.org/" + "a" * 300,),
)


def drawn(progress: Progress, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(as_panel(progress, width=width, spinner="*"))
    return captured.get().splitlines()


def test_no_line_is_wider_than_the_terminal() -> None:
    for width in [20, 40, 80, 200]:
        lines = drawn(PROGRESS, width)
        assert all(len(line) <= width for line in lines)
        assert "\x1b" not in "".join(lines), width


def test_the_panel_shows_counts_states_and_the_slowest_hosts() -> None:
    text = "\n".join(drawn(PROGRESS, 100))
    for words in (
        "0:12", "1,234 pages", "102 pages/s", "8.4 MB", "999 queued", "5 blocked", "1 failed",
        "24 in flight", "130 waiting", "2 robots", "slow.example.org", "1 min 33 s",
        "Crawl-delay 120",
    ):  # fmt: skip
        assert words in text
    assert "paused" not in text
    assert "\nhosts: 24 in flight" in text


def test_a_crawl_that_has_not_started_can_be_shown() -> None:
    empty = replace(
        PROGRESS,
        visited=0,
        blocked=0,
        failed=0,
        queued=0,
        hosts_by_state={},
        slowest=(),
        fetching=(),
    )
    assert drawn(empty, 80)


def test_a_line_has_no_control_characters() -> None:
    line = as_line(replace(PROGRESS, slowest=PROGRESS.slowest[1:]))
    assert line.startswith("0:12 visited 1234 (102 pages/s), blocked 5, failed 1, queued 999")
    assert "\x1b" not in line
    assert "\n" not in line


def test_lines_are_printed_every_few_seconds() -> None:
    out = io.StringIO()
    with display(stream=out) as shown:
        for quarter in range(48):
            shown.observe(replace(PROGRESS, elapsed_s=quarter / 4))
        shown.say("stopping")
    lines = out.getvalue().splitlines()
    assert [line[:4] for line in lines[:-1]] == ["0:01", "0:06", "0:11"]
    assert lines[-1] == "stopping"


def test_quiet_prints_nothing() -> None:
    out = io.StringIO()
    with display(quiet=True, stream=out) as shown:
        shown.observe(PROGRESS)
        shown.say("stopping")
    assert out.getvalue() == ""


def test_the_clock() -> None:
    for seconds, text in [(0, "0:00"), (754.9, "12:34"), (3723, "1:02:03")]:
        assert clock(seconds) == text


def test_a_crawl_continues_when_its_log_cannot_be_written() -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with display(stream=Closed()) as shown:
        shown.observe(PROGRESS)
