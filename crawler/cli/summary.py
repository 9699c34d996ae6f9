"""What a crawl came to: for people, and as JSON."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

from crawler.config.units import say_bytes, say_duration
from crawler.events import Summary, Waiting
from policies.scope import SKIP_KEYS, SKIP_WORDS

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
    lines += _waiting(summary.waiting, time.time() if now_s is None else now_s)
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


def _waiting(hosts: tuple[Waiting, ...], now_s: float) -> list[str]:
    if not hosts:
        return []
    lines = ["", "Still waiting, what they hold stays queued:"]
    for each in hosts[:_WAITING_SHOWN]:
        lines.append(f"  {each.host}: {each.reason}{_until(each.until, now_s)}")  # noqa: PERF401
    if (rest := len(hosts) - _WAITING_SHOWN) > 0:
        lines.append(f"  and {_count(rest, 'more host')}")
    return lines


def _until(until: float | None, now_s: float) -> str:
    if until is None or until <= now_s:
        return ""
    at = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return f", until {at} (in {say_duration(until - now_s)})"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
