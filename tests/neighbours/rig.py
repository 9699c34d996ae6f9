"""Crawls of a normal host beside hostile ones: server, victim and crawler are processes.

`run(name, folder)` makes one crawl beside the attack of that name (tests/neighbours/attacks.py) and
returns what it cost. The attack "none" is the normal crawl. To see all of them:

    python -m tests.neighbours.rig [ATTACK...]
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import connect
from typing import Any, Final

from tests.config_files import to_toml
from tests.neighbours.attacks import ATTACKS

ROOT: Final = Path(__file__).parents[2]
VICTIM: Final = "v.victim.test"
DELAY_S: Final = 0.1
CRAWL_S: Final = 6.0
TIMEOUT_S: Final = 4.0  # of one request
ENDED_WITHIN_S: Final = 60.0
# The hostile server must cost the crawler its work, not the processor that they share.
NICE: Final = ("nice", "-n", "10")


@dataclass(frozen=True)
class Cost:
    """pages: the victim's. memory_kb: the crawler's peak. longest_s: how long, at most, a hostile
    answer was in progress. ended_s: from the end of the crawl's time, or the signal, to the end of
    its process. errors: of failed URLs, without their hosts."""

    pages: int
    hostile_pages: int
    memory_kb: int
    longest_s: float
    ended_s: float
    cpu_s: float
    errors: tuple[str, ...]
    code: int


@dataclass
class _Web:
    process: subprocess.Popen[str]
    port: int

    def close(self) -> dict[str, Any]:
        out, _ = self.process.communicate("")
        found: dict[str, Any] = json.loads(out)
        return found


@contextmanager
def _web(*arguments: str, nice: Sequence[str] = ()) -> Iterator[_Web]:
    process = subprocess.Popen(
        [*nice, sys.executable, "-m", "tests.neighbours.server", *arguments],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield _Web(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.wait()


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for the hostile hosts, and its key."""
    made, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [shutil.which("openssl") or "openssl", "req", "-x509", "-newkey", "ec",
         "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key),
         "-out", str(made), "-days", "2", "-subj", "/CN=hostile.test",
         "-addext", "subjectAltName=DNS:*.hostile.test"],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(made), str(key)


def run(
    name: str,
    folder: Path,
    *,
    stop_after_s: float | None = None,
    sections: Mapping[str, Mapping[str, object]] | None = None,
) -> Cost:
    """Crawl the victim beside the hosts of one attack.

    stop_after_s: end the crawl with SIGTERM after this time instead of its own limit.
    sections: of the config, merged into the rig's.
    """
    attack = ATTACKS[name]
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
    files = certificate(folder) if attack.tls else ()
    with _web("none") as victim, _web(name, *files, nice=NICE) as hostile:
        config: dict[str, Any] = {
            "network": {"resolve": {"*.test": "127.0.0.1"}, "allow": ["127.0.0.0/8"]},
            "politeness": {"delay": DELAY_S, "latency_factor": 0},
            "fetch": {"timeout": TIMEOUT_S, **({"ca_file": files[0]} if files else {})},
            "crawl": {"max_time": CRAWL_S if stop_after_s is None else 600},
            "scope": {"follow": attack.follow},
            "storage": {"url": f"sqlite:{folder / 'crawl.db'}"},
        }
        for section, keys in (sections or {}).items():
            config[section] = {**config.get(section, {}), **keys}
        (folder / "config.toml").write_text(to_toml(config))
        scheme = "https" if attack.tls or attack.deaf else "http"
        seeds = [f"http://{VICTIM}:{victim.port}/"]
        name_of = "h.hostile{}.test" if attack.apart else "h{}.hostile.test"
        seeds += [f"{scheme}://{name_of.format(n)}:{hostile.port}/" for n in range(attack.hosts)]
        limit_s = CRAWL_S if stop_after_s is None else stop_after_s
        measured = _crawl(folder, seeds, stop_after_s, limit_s)
        with closing(connect(folder / "crawl.db")) as database:
            failed = database.execute("SELECT DISTINCT error FROM failed LIMIT 5").fetchall()
        found, theirs = victim.close(), hostile.close()
    return Cost(
        pages=found["pages"].get(VICTIM, 0), hostile_pages=sum(theirs["pages"].values()),
        longest_s=theirs["longest_s"], errors=tuple(error for (error,) in failed), **measured,
    )  # fmt: skip


def _crawl(
    folder: Path, seeds: list[str], stop_after_s: float | None, limit_s: float
) -> dict[str, Any]:
    command = [sys.executable, "-m", "crawler.cli", "crawl", "--config", "config.toml"]
    with (folder / "log").open("w") as log:
        began_s = time.monotonic()
        crawler = subprocess.Popen(
            [*command, *seeds], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        memory_kb, signalled, ended = 0, False, 0
        try:
            while not ended:
                ended, status, used = os.wait4(crawler.pid, os.WNOHANG)
                memory_kb = max(memory_kb, _peak_kb(crawler.pid))
                elapsed_s = time.monotonic() - began_s
                if stop_after_s is not None and elapsed_s >= stop_after_s and not signalled:
                    crawler.send_signal(signal.SIGTERM)
                    signalled = True
                if elapsed_s > limit_s + ENDED_WITHIN_S:
                    crawler.kill()
                time.sleep(0.02)
            crawler.returncode = os.waitstatus_to_exitcode(status)
        finally:
            crawler.kill()
    return {
        "memory_kb": memory_kb,
        "ended_s": time.monotonic() - began_s - limit_s,
        "cpu_s": used.ru_utime + used.ru_stime,
        "code": crawler.returncode,
    }


def _peak_kb(pid: int) -> int:
    """The peak of resident memory since the process began its program."""
    with suppress(OSError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])
    return 0


def main(*names: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in names or ATTACKS:
            normal, cost = run("none", Path(folder)), run(name, Path(folder))
            sys.stdout.write(
                f"{name:24} pages {cost.pages:3}/{normal.pages:3} = "
                f"{cost.pages / normal.pages:4.0%}  memory "
                f"{cost.memory_kb / normal.memory_kb:4.1f}x"
                f"  ended {cost.ended_s:4.1f} (normal {normal.ended_s:3.1f})  longest "
                f"{cost.longest_s:4.1f}  cpu {cost.cpu_s:4.1f} ({normal.cpu_s:3.1f})  hostile "
                f"{cost.hostile_pages:3}  {cost.code}  {' | '.join(cost.errors[:2])[:90]}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
