"""What a crawl came to: for people, and as JSON."""

from __future__ import annotations

import json
import math
import time

from crawler.cli.text import at, plain
from crawler.config.units import say_bytes, say_duration
from crawler.events import Summary, Waiting
from policies.scope import SKIP_KEYS, SKIP_WORDS

SHORT_S = 60.0
_WAITING_SHOWN = 20  # more hosts than this are a matter for `courtly show hosts`


def as_json(summary: Summary) -> str:
    """One line: design section 8's object, and under "skipped" what limits left out."""
    return json.dumps(
        {
            "visited": summary.visited,
            "blocked": summary.blocked,
            "failed": summary.failed,
            "queued": summary.queued,
            "hosts": summary.hosts,
            "bytes": summary.bytes,
            "elapsed_s": round(summary.elapsed_s, 3),
            "waiting": [
                {"host": each.host, "until": each.until, "reason": each.reason}
                for each in summary.waiting
            ],
            "skipped": [
                {"reason": str(reason), "key": SKIP_KEYS.get(reason), "count": count}
                for reason, count in _by_count(summary)
            ],
        }
    )


def as_text(summary: Summary, *, now_s: float | None = None) -> str:
    """Some lines: the counts, every limit that left URLs out, and who is still waited for."""
    verb = "Interrupted" if summary.interrupted else "Finished"
    counts = (
        f"{verb} after {say_duration(summary.elapsed_s)}: {summary.visited:,} visited "
        f"({say_bytes(summary.bytes)}), {summary.blocked:,} blocked, {summary.failed:,} failed, "
        f"{summary.queued:,} queued, at {_count(summary.hosts, 'host')}."
    )
    lines = [counts]
    if summary.interrupted:
        lines.append("The same command goes on from here.")
    lines += left_out(summary)
    lines += _waiting(summary, time.time() if now_s is None else now_s)
    return "\n".join(lines)


def left_out(summary: Summary) -> list[str]:
    """A line for every reason that left URLs out: its count, its words, and the key to change."""
    rows = _by_count(summary)
    if not rows:
        return []
    width = max(len(f"{count:,}") for _, count in rows)
    lines = ["", "Left out:"]
    for reason, count in rows:
        key = SKIP_KEYS.get(reason)
        words = SKIP_WORDS.get(reason, str(reason))
        lines.append(f"  {count:>{width},}  {words}{f' ({key})' if key else ''}")
    return lines


def _by_count(summary: Summary) -> list[tuple[str, int]]:
    return sorted(
        ((reason, count) for reason, count in summary.skipped.items() if count),
        key=lambda row: (-row[1], row[0]),
    )


def _waiting(summary: Summary, now_s: float) -> list[str]:
    """The longest waits first. After an interruption every host rests: short rests say nothing."""
    hosts = sorted(
        (
            each
            for each in summary.waiting
            if not summary.interrupted or _left_s(each, now_s) > SHORT_S
        ),
        key=lambda each: (-_left_s(each, now_s), each.host),
    )
    if not hosts:
        return []
    lines = ["", "Still waiting, what they hold stays queued:"]
    for each in hosts[:_WAITING_SHOWN]:
        lines.append(f"  {plain(each.host)}: {plain(each.reason)}{_until(each, now_s)}")  # noqa: PERF401
    if (rest := len(hosts) - _WAITING_SHOWN) > 0:
        lines.append(f"  and {_count(rest, 'more host')}")
    return lines


def _left_s(each: Waiting, now_s: float) -> float:
    return math.inf if each.until is None else each.until - now_s


def _until(each: Waiting, now_s: float) -> str:
    left_s = _left_s(each, now_s)
    if math.isinf(left_s) or left_s <= 0:
        return ""
    if left_s < SHORT_S:
        return f", for another {say_duration(left_s)}"
    return f", until {at(each.until)} (in {say_duration(left_s)})"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
