"""`courtly show` with any kind of standard output."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from crawler.cli import main
from crawler.clock import RealClock
from crawler.databases import open_store
from storage.location import FileLocation
from storage.store import Link

ROWS = 3_000  # more than the reader fetches at a time, and more than fits into a pipe


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("show") / "crawl.db"

    async def fill() -> None:
        store = open_store(FileLocation(path), RealClock())
        session = await store.open_session("test")
        urls = [f"http://a.test/{'x' * 60}/{n}" for n in range(ROWS)]
        await store.add([Link(url=url, slot="a.test", host="a.test", depth=0) for url in urls])
        await store.close(session)

    asyncio.run(fill())
    return path


def shown(shell: str, database: Path, *options: str) -> tuple[int, str]:
    """The exit code and stderr of `courtly show queued`; `shell` redirects its stdout."""
    command = [sys.executable, "-m", "crawler.cli", "show", "queued", "--db", str(database)]
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", *command, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("how", ["table", "jsonl", "csv"])
def test_a_reader_that_exits_early_is_no_error(how: str, database: Path) -> None:
    assert shown("| head -n 1", database, "--format", how) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
def test_a_full_device_is_one_sentence(database: Path) -> None:
    sentence = "courtly: no space left on device\n"
    assert shown(">/dev/full", database, "--format", "jsonl") == (1, sentence)


def test_a_closed_stdout_is_one_sentence(database: Path) -> None:
    sentence = "courtly: standard output is closed, so nothing can be printed\n"
    assert shown(">&-", database) == (1, sentence)


def test_retry_reports_its_result(database: Path) -> None:
    args = ["retry", "failed", "--db", str(database)]
    unknown = CliRunner().invoke(main, [*args, "--host", "b.test"])
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith('courtly: unknown host "b.test"')
    none = CliRunner().invoke(main, [*args, "--host", "a.test"])
    assert (none.exit_code, none.stdout) == (0, "no URL of a.test has failed\n")


def test_a_crawl_needs_no_standard_files(tmp_path: Path) -> None:
    """Files must not get the descriptors of closed standard streams."""
    seed = "http://127.0.0.1:9/"  # refused, because loopback is not allowed
    command = [sys.executable, "-m", "crawler.cli", "crawl", seed, "--db", "crawl.db"]
    done = subprocess.run(
        ["bash", "-c", '"$@" <&- >&- 2>&-', "bash", *command], cwd=tmp_path, check=False, timeout=30
    )
    assert done.returncode == 0
    told = CliRunner().invoke(main, ["show", "failed", "--db", str(tmp_path / "crawl.db")])
    assert seed in told.stdout


@pytest.mark.parametrize("host", ["a.test", "A.test:18431"])
def test_a_host_may_be_given_with_a_port(host: str, database: Path) -> None:
    args = ["show", "queued", "--db", str(database), "--host", host, "--limit", "2"]
    result = CliRunner().invoke(main, [*args, "--format", "jsonl"])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
