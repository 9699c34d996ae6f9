"""The parts of the comparison that need no crawler: what it counts, prints, and builds again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.benchmarks.peers import compare
from tests.benchmarks.peers.compare import Counts, Run, built, counted, run, table
from tests.benchmarks.peers.programs import BUILDS, PROGRAMS, Build, Program
from tests.benchmarks.peers.synthetic_web import Site, path_of, write_site

LOG = """\
127.1.0.1 /robots.txt
127.1.0.1 /
127.1.0.1 /list?cat=1&page=2
127.1.0.1 /
127.1.0.1 /private/kept.html
127.1.0.1 /private/page-9.html
127.1.0.1 /private/page-9.html
127.1.0.1 /robots.txt
127.1.0.1 /r/s1/page-1.html
127.1.0.1 /dead/gone.html
127.1.0.2 /
127.1.0.2 /robots.txt
127.1.0.2 /
127.1.0.2 /
"""
EXPECTED = {
    "http://127.1.0.1:8090/",
    "http://127.1.0.1:8090/list?cat=1&page=2",
    "http://127.1.0.1:8090/private/kept.html",
    "http://127.1.0.1:8090/never-requested",
    "http://127.1.0.2:8090/",
}


def test_the_log_says_what_was_missed_repeated_and_disallowed() -> None:
    assert counted(LOG.splitlines(), EXPECTED, 8090) == Counts(
        pages=4, expected=5, duplicates=3, disallowed=2, unasked=1
    )


@pytest.mark.parametrize(
    ("log", "obeyed"),
    [
        ("h /robots.txt\nh /\nh /a", True),
        ("h /robots.txt\nh /private/x", False),
        ("h /\nh /robots.txt", False),
        ("h /robots.txt\ni /", False),
    ],
)
def test_robots_txt_is_obeyed_if_it_is_asked_first_and_nothing_disallowed(
    log: str, obeyed: bool
) -> None:
    assert counted(log.splitlines(), {"http://h:1/", "http://i:1/"}, 1).obeyed is obeyed


def program(name: str) -> Program:
    return Program(name, "", (), "yes", "delay")


def test_the_table_has_a_row_for_each_program_that_was_counted_and_timed() -> None:
    counts = {
        "a": Counts(2000, 2000, 0, 0, 0),
        "b": Counts(500, 2000, 1234, 7, 0),
        "untimed": Counts(1, 1, 0, 0, 0),
    }
    runs = {
        "a": [Run(2.0, 1.0, 80.4), Run(4.0, 3.0, 90.4), Run(1.0, 2.0, 60)],
        "b": [Run(0.25, 1.5, 1000)],
        "uncounted": [Run(1, 1, 1)],
    }
    programs = [program(name) for name in ("b", "a", "untimed", "uncounted", "neither")]
    header, line, *rows = table(programs, counts, runs).splitlines()
    assert header.count("|") == line.count("|") == 11
    assert rows == [
        "| b | 500 of 2,000 | 1,234 | 7 | no | yes | delay | 3.00 | 1,000 MB | 2,000 |",
        "| a | 2,000 of 2,000 | 0 | 0 | yes | yes | delay | 1.00 (0.50 to 1.50) | 80 MB | 1,000 |",
    ]


def test_what_did_not_change_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "main").write_text("1")
    times = ("sh", "-c", "echo built >> times")
    monkeypatch.setitem(BUILDS, "it", Build((source,), (times,)))
    monkeypatch.setattr(compare, "HERE", tmp_path)
    first = built("it", tmp_path)
    assert built("it", tmp_path) == first
    (source / "main").write_text("2")
    assert built("it", tmp_path) != first
    folder = tmp_path / "build" / "it"
    assert (folder / "main").read_text() == "2"
    assert (folder / "times").read_text() == "built\n" * 2


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors are not assigned here")
@pytest.mark.parametrize(
    ("script", "succeeds"),
    [
        ("test ! -e state.db && touch state.db && test -s {config} && test $V = 1", True),
        ("exit 3", False),
        ("sleep 60", False),
    ],
)
def test_a_run_begins_with_an_empty_folder_and_is_measured_if_it_succeeds(
    script: str, succeeds: bool, tmp_path: Path
) -> None:
    site = Site(tmp_path, tmp_path / "seeds.txt", tmp_path / "expected.txt")
    shell = Program("it", "it", ("sh", "-c", script), "yes", "delay", env={"V": "1"})
    for _ in range(2):
        measured = run(shell, site, tmp_path, timeout_s=0.5 if "sleep" in script else 60)
        assert (measured is not None) is succeeds
        assert measured is None or (measured.wall_s > 0 and measured.peak_mb > 0.1)


def test_each_program_has_a_build_and_a_name_of_its_own() -> None:
    assert {program.build for program in PROGRAMS} == set(BUILDS)
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)
    sources = [source for build in BUILDS.values() for source in build.sources]
    assert [source for source in sources if not source.exists()] == []


def test_the_web_expects_what_each_robots_txt_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compare.SIZES, "tiny", (9, 12, 30))
    site = write_site(tmp_path, "tiny", 8090)
    expected = set(site.expected.read_text().split())
    private = [path_of(k, 30) for k in range(30) if path_of(k, 30).startswith("/private/")]
    assert private == ["/private/page-27.html", "/private/page-28.html", "/private/page-29.html"]
    allowed = {
        host: sum(f"http://127.9.0.{host}:8090{path}" in expected for path in private)
        for host in range(1, 13)
    }
    assert allowed == dict.fromkeys(range(1, 13), 0) | {8: 1, 9: 3, 10: 3}
    assert len(expected) == 12 * 27 + 7
    assert len(site.seeds.read_text().split()) == 12
    assert (site.www / "127.9.0.1/list@cat=1&page=21").exists()
