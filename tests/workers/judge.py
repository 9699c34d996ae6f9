"""What the log of a web must say of the workers that crawled it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawler.testing import LoggedRequest, RequestLog

ROBOTS = "/robots.txt"
# The web stamps the end of a contact before it writes the last bytes, and the start of the next one
# after it has read the first: what the clocks of two processes differ by, and a delay that one
# worker counts from the clock of the database, whose ticks may differ from those of this machine by
# 1/2000. A worker that does not wait is early by most of its delay.
TOLERANCE_S = 0.005
# A request that a process had sent may lie unread in the sockets of the web for a while.
IN_SOCKETS_S = 0.1
# Generous: workers commit what is 0.1 s old, and the web answers within 0.05 s.
UNCOMMITTED_S = 2.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What makes pages be requested again: those that were in flight, or not committed."""

    at_s: float
    until_s: float
    worker: str | None  # whose pages; None: those of all workers that were in flight
    committed: frozenset[str]  # the URLs visited when it began: none of them is requested again

    def explains(self, one: LoggedRequest, other: LoggedRequest) -> bool:
        """Whether a page that was requested by `one` may be requested by `other` again."""
        if not (one.start_s < self.until_s + IN_SOCKETS_S and other.start_s > self.at_s):
            return False
        if self.worker is None:
            return one.end_s > self.at_s
        return worker_of(one) == self.worker and one.end_s > self.at_s - UNCOMMITTED_S


def worker_of(request: LoggedRequest) -> str:
    return request.headers["user-agent"].partition("/")[0]


def check_delays(
    log: RequestLog, delay_s: float, crawl_delays_s: Mapping[str, float] | None = None
) -> None:
    """No host was contacted early: neither by one worker, nor by one after another."""
    for host in {entry.host for entry in log}:
        entries = sorted(log.requests(host), key=lambda entry: entry.start_s)
        end_s = entries[0].end_s
        read = entries[0].path == ROBOTS and entries[0].status == 200
        for one, other in itertools.pairwise(entries):
            least_s = delay_s
            if read:  # a Crawl-delay is known from the end of robots.txt on
                least_s = max(delay_s, (crawl_delays_s or {}).get(host, 0.0))
            end_s = max(end_s, one.end_s)
            gap_s = other.start_s - end_s
            assert gap_s >= least_s - TOLERANCE_S, (
                f"{host}: {gap_s:.3f} s from {one.path} by {worker_of(one)} "
                f"to {other.path} by {worker_of(other)}"
            )
            read = read or other.path == ROBOTS


def check_repeats(log: RequestLog, faults: Sequence[Fault] = ()) -> int:
    """Nothing was requested again, except what faults explain; return how often that was."""
    repeats = 0
    entries = sorted(log, key=lambda entry: (entry.host, entry.path, entry.start_s))
    for one, other in itertools.pairwise(entries):
        if (one.host, one.path) != (other.host, other.path):
            continue
        repeats += 1
        assert any(fault.explains(one, other) for fault in faults), (
            f"{one.host}{one.path} was requested by {worker_of(one)} at {one.start_s:.3f} to"
            f" {one.end_s:.3f}, and again by {worker_of(other)} at {other.start_s:.3f}"
        )
    return repeats


def check_robots(log: RequestLog) -> None:
    """robots.txt is kept before the first page of its host is requested."""
    for host in {entry.host for entry in log}:
        paths = [entry.path for entry in sorted(log.requests(host), key=lambda e: e.start_s)]
        first_page = next((n for n, path in enumerate(paths) if path != ROBOTS), len(paths))
        assert first_page > 0, f"{host} was visited without its robots.txt"
        assert ROBOTS not in paths[first_page:], f"{host}: its robots.txt was known"


def check_sound(log: RequestLog, delay_s: float, faults: Sequence[Fault] = ()) -> None:
    """All of the above, for hosts without a Crawl-delay."""
    check_delays(log, delay_s)
    check_robots(log)
    check_repeats(log, faults)


def check_committed(log: RequestLog, faults: Sequence[Fault], port: int) -> None:
    """Nothing was requested again that had been committed."""
    for fault in faults:
        for entry in log:
            if entry.start_s > fault.until_s + IN_SOCKETS_S:
                url = f"http://{entry.host}:{port}{entry.path}"
                assert url not in fault.committed, f"{url} was visited already"
