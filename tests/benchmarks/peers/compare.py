"""Compare courtly with other crawlers on one synthetic web, and print the table of docs/speed.md.

    python tests/benchmarks/peers/compare.py                       # all programs, 200 hosts
    python tests/benchmarks/peers/compare.py --size small --only "courtly*" --only "Scrapy*"

Everything that is built or written lies in the folder `--work`, and is kept for the next call. It
needs nginx (`apt-get install nginx-light`), Linux and two processors; Rust, Go and Node for the
programs in those languages.

Each program crawls the whole web in a process of its own on one processor, with 64 requests in
flight and no delay; nginx has the last processor. One run, which is not timed, counts by the
server's log what was really requested (it is repeated only when the program changed); the timed
runs take turns. The processor time is that of the whole process and of those it waited for, its
start included.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

if not __package__:  # run as a program
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.benchmarks.peers.programs import BUILDS, HERE, PROGRAMS, Program
from tests.benchmarks.peers.synthetic_web import SIZES, Site, write_site

NGINX: Final = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
IGNORED: Final = {"target", "__pycache__", "node_modules"}


class Counts(NamedTuple):
    """What the log of the server says of a crawl."""

    pages: int
    expected: int
    duplicates: int
    disallowed: int
    unasked: int  # hosts with a page before their robots.txt

    @property
    def obeyed(self) -> bool:
        return not self.disallowed and not self.unasked


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    peak_mb: float


# ---------------------------------------------------------------------------- what was requested


def counted(log: Iterable[str], expected: set[str], port: int) -> Counts:
    """Count the requests of a log (lines of `HOST URI`) of a crawl that should find some URLs."""
    pages: Counter[str] = Counter()
    asked: set[str] = set()
    unasked: set[str] = set()
    disallowed = 0
    for line in log:
        host, uri = line.split()
        url = f"http://{host}:{port}{uri}"
        if uri == "/robots.txt":
            asked.add(host)
            continue
        if host not in asked:
            unasked.add(host)
        if url in expected:
            pages[url] += 1
        elif uri.startswith("/private/"):
            disallowed += 1
    duplicates = pages.total() - len(pages)
    return Counts(len(pages), len(expected), duplicates, disallowed, len(unasked))


# ---------------------------------------------------------------------------- the table


def table(
    programs: Iterable[Program], counts: Mapping[str, Counts], runs: Mapping[str, list[Run]]
) -> str:
    """Return the Markdown of a table with a row for each program that was counted and timed."""
    head = (
        "", "pages found", "duplicates", "disallowed fetched", "robots.txt obeyed",
        "durable frontier", "pace of a host", "CPU s per 1,000 pages", "peak memory", "pages/s",
    )  # fmt: skip
    rows = [head, ("---",) * len(head)]
    for program in programs:
        found, timed = counts.get(program.name), runs.get(program.name)
        if found is None or not timed:
            continue
        thousands = max(found.pages, 1) / 1000
        rows.append(
            (
                program.name,
                f"{found.pages:,} of {found.expected:,}",
                f"{found.duplicates:,}",
                f"{found.disallowed:,}",
                "yes" if found.obeyed else "no",
                program.durable,
                program.pace,
                _spread([run.cpu_s / thousands for run in timed]),
                f"{statistics.median(run.peak_mb for run in timed):,.0f} MB",
                f"{1000 * thousands / statistics.median(run.wall_s for run in timed):,.0f}",
            )
        )
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)


def _spread(values: list[float]) -> str:
    """Return the median, and the range of several."""
    middle = f"{statistics.median(values):.2f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.2f} to {max(values):.2f})"


# ---------------------------------------------------------------------------- building and running


def built(name: str, work: Path) -> str:
    """Build what changed since the last call, and return a digest of its sources and commands."""
    build = BUILDS[name]
    digest = hashlib.sha256(repr(build.commands).encode())
    files = (file for source in build.sources for file in (source, *sorted(source.rglob("*"))))
    for file in files:
        if file.is_file() and not IGNORED & set(file.parts):
            digest.update(file.read_bytes())
    folder, stamp = work / "build" / name, digest.hexdigest()
    done = folder / "built"
    if not done.exists() or done.read_text() != stamp:
        _note(f"building {name}")
        folder.mkdir(parents=True, exist_ok=True)
        for source in build.sources:
            if source.parent == HERE:
                shutil.copytree(source, folder, dirs_exist_ok=True)
        for command in build.commands:
            subprocess.run(command, cwd=folder, check=True)
        done.write_text(stamp)
    return stamp


def started(cpus: slice, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program that has some processors from its first instruction on."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[cpus])
    try:
        return subprocess.Popen(command, start_new_session=True, **options)
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def serving(site: Site, port: int, work: Path, log: Path | None = None) -> Iterator[None]:
    """Serve the web with nginx, on the last processor; log requests as `HOST URI`."""
    folder = work / "nginx"
    folder.mkdir(exist_ok=True)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    )
    (folder / "nginx.conf").write_text(
        f"""
daemon off;
master_process off;
pid {folder}/pid;
worker_rlimit_nofile 20000;
error_log {folder}/error.log error;
events {{ worker_connections 16000; multi_accept on; }}
http {{
  {temporary}
  types {{ text/plain txt; }}
  default_type text/html;
  log_format requests '$host $request_uri';
  access_log {f"{log} requests" if log else "off"};
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  server_tokens off;
  absolute_redirect off;
  server {{
    listen 0.0.0.0:{port} backlog=4096;
    allow 127.0.0.0/8;
    deny all;
    root {site.www}/$host;
    charset utf-8;
    location = /list {{ try_files "$uri@$args" =404; }}
    location /r/ {{ rewrite ^/r(/.*)$ $1 permanent; }}
  }}
}}
"""
    )
    command = [
        NGINX or "nginx",
        "-c",
        f"{folder}/nginx.conf",
        "-p",
        f"{folder}/",
        "-e",
        f"{folder}/error.log",
    ]
    server = started(slice(-1, None), command)
    try:
        time.sleep(0.5)
        if server.poll() is not None:
            raise SystemExit(f"nginx could not start; see {folder}/error.log")
        yield
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(30)


def run(program: Program, site: Site, work: Path, timeout_s: float) -> Run | None:
    """Run a program in an empty folder; return None if it failed or took too long."""
    state = work / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    config = state / "crawl.toml"
    config.write_text(CONFIG.format(seeds=site.seeds))
    folder = work / "build" / program.build
    words = [word.format(seeds=site.seeds, config=config) for word in program.command]
    # The first word, and a program of Node, are in the folder of the build.
    command = [str(folder / word) if (folder / word).is_file() else word for word in words]
    env = {**os.environ, **program.env}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    began_s = time.perf_counter()
    with (work / "output.txt").open("wb") as output:
        process = started(
            slice(program.cpus), command, cwd=state, env=env, stdout=output, stderr=output
        )
        timer = threading.Timer(timeout_s, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        tail = (work / "output.txt").read_text(errors="replace")[-1000:]
        _note(f"{program.name} ended with {process.returncode}: {tail}")
        return None
    cpu_s = used.ru_utime + used.ru_stime
    return Run(time.perf_counter() - began_s, cpu_s, used.ru_maxrss / 1024)


CONFIG: Final = """
[crawl]
seeds = ["@{seeds}"]
concurrency = 64
[scope]
sitemap_paths = []
[politeness]
delay = 0
latency_factor = 0
[network]
allow = ["127.0.0.0/8"]
"""


def verified(
    program: Program, stamp: str, site: Site, options: argparse.Namespace
) -> Counts | None:
    """Return what a run of a program requested, from the last call if the program is the same."""
    kept = site.expected.with_name("verified.json")
    known = json.loads(kept.read_text()) if kept.exists() else {}
    texts = [Path(word).read_text() for word in program.command if word.endswith(".py")]
    key = hashlib.sha256(repr((program, stamp, texts)).encode()).hexdigest()
    if key not in known:
        log = options.work / "access.log"
        log.unlink(missing_ok=True)
        with serving(site, options.port, options.work, log):
            if run(program, site, options.work, options.timeout) is None:
                return None
        expected = set(site.expected.read_text().split())
        with log.open() as lines:
            known[key] = counted(lines, expected, options.port)
        kept.write_text(json.dumps(known))
    return Counts(*known[key])


def _note(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="medium")
    parser.add_argument("--rounds", type=int, default=2, help="timed runs; slow programs have one")
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="programs; may be repeated"
    )
    parser.add_argument("--port", type=int, default=8090)
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one run")
    parser.add_argument("--work", type=Path, default=Path.home() / ".cache/courtly-peers")
    options = parser.parse_args()
    options.work = options.work.resolve()
    if NGINX is None:
        raise SystemExit("nginx is needed: apt-get install nginx-light")
    site = write_site(options.work / f"{options.size}-{options.port}", options.size, options.port)
    patterns = options.only or ["*"]
    programs = [
        program
        for program in PROGRAMS
        if any(fnmatch.fnmatch(program.name, pattern) for pattern in patterns)
    ]
    counts: dict[str, Counts] = {}
    for program in programs:
        try:
            stamp = built(program.build, options.work)
        except (OSError, subprocess.CalledProcessError) as error:
            _note(f"{program.name} is left out, it cannot be built: {error}")
            continue
        if found := verified(program, stamp, site, options):
            counts[program.name] = found
            _note(f"{program.name}: {found}")
    runs: dict[str, list[Run]] = {}
    with serving(site, options.port, options.work):
        for number in range(options.rounds):
            for program in programs:
                if program.name not in counts or number >= program.rounds:
                    continue
                load = os.getloadavg()[0]
                if timed := run(program, site, options.work, options.timeout):
                    runs.setdefault(program.name, []).append(timed)
                    _note(f"{program.name}: {timed}, load before {load:.1f}")
    sys.stdout.write(table(programs, counts, runs))


if __name__ == "__main__":
    main()
