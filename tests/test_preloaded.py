"""Commands that are forked from the process of the imports behave as if started anew."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.preloaded import preloaded

COURTLY = [sys.executable, "-m", "crawler.cli"]


@pytest.fixture(autouse=True)
def imported(tmp_path: Path) -> None:
    """The imports are over."""
    until_s = time.monotonic() + 60
    while preloaded.enabled and not preloaded._ready:
        assert time.monotonic() < until_s
        run("--version", cwd=tmp_path)


def run(*arguments: str, cwd: Path, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COURTLY, *arguments],
        cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_exit_codes_streams_folder_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "courtly.toml").write_text("[crawl]\nuser_agent = {env = 'MY_AGENT'}\n")
    commands = [["--version"], ["status", "--db", "none.db"], ["config", "show"], ["no-such"]]
    forked = [run(*command, cwd=tmp_path, MY_AGENT="bot (a@a.test)") for command in commands]
    monkeypatch.setattr(preloaded, "enabled", False)
    fresh = [run(*command, cwd=tmp_path, MY_AGENT="bot (a@a.test)") for command in commands]
    assert forked == fresh
    assert {code for code, _, _ in forked} == {0, 2}


@pytest.mark.skipif(not preloaded.enabled, reason="commands are forked on Linux only")
async def test_a_command_is_our_child_and_dies_of_a_signal(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *COURTLY, "mcp", cwd=tmp_path,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    proc = Path(f"/proc/{process.pid}")
    status = await asyncio.to_thread((proc / "stat").read_text)
    assert int(status.rpartition(")")[2].split()[1]) == os.getpid()
    assert b"tests.preloaded" in await asyncio.to_thread((proc / "cmdline").read_bytes)
    process.kill()
    assert await process.wait() == -signal.SIGKILL
