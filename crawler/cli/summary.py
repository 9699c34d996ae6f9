"""What a crawl came to: for people, and as JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence

from crawler.cli.hints import after_failures
from crawler.config.units import format_bytes, format_duration
from crawler.events import LOOKED_AT_MAX, WAITING_SHOWN, Often, Summary, Waiting
from crawler.telling.words import at, counted, plain
from policies.holds import HoldReason
from policies.scope import SKIP_KEYS, SKIP_WORDS

SHORT_S = 60.0
_WAITING_SHOWN = 10  # reasons; more are a matter for `courtly show hosts`


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
            "held": [
                {"reason": hold.reason.value, "sentence": hold.sentence, "since": hold.since}
                for hold in summary.held
            ],
            "waiting": [
                {"host": each.host, "until": each.until, "reason": each.reason}
                for each in summary.waiting
            ],
            "skipped": [
                {"reason": str(reason), "key": SKIP_KEYS.get(reason), "count": count}
                for reason, count in _by_count(summary.skipped)
            ],
        }
    )


def as_text(
    summary: Summary, *, again: str = "", blocked: bool = True, now_s: float | None = None
) -> str:
    """Some lines: the counts, what went wrong and what to do about it, every limit that left URLs
    out, and who is still waited for.

    `again`: the options that name the database, for the commands it suggests. `blocked`: with the
    rules that keep most URLs out.
    """
    verb = "Interrupted" if summary.interrupted else "Finished"
    counts = (
        f"{verb} after {format_duration(summary.elapsed_s)}: {summary.visited:,} visited "
        f"({format_bytes(summary.bytes)}), {summary.blocked:,} blocked, {summary.failed:,} failed, "
        f"{summary.queued:,} queued, at {counted(summary.hosts, 'host')}."
    )
    lines = [counts]
    if summary.interrupted:
        lines.append("The same command goes on from here.")
    lines += _held(summary)
    lines += _failed(summary, again)
    if blocked:
        lines += _blocked(summary, again)
    lines += left_out(summary)
    lines += _waiting(summary, again, time.time() if now_s is None else now_s)
    return "\n".join(lines)


def _held(summary: Summary) -> list[str]:
    """Why it ended with URLs queued, where that is trouble of our own."""
    if summary.interrupted:
        return []
    return [
        f"It ended because of a {hold.sentence}, since {at(hold.since)}. URLs that could not be "
        "fetched stay queued:\nrun the same command again to resume."
        if hold.reason is HoldReason.NETWORK
        else f"It ended because of trouble of this machine, since {at(hold.since)}: "
        f"{hold.sentence}.\nURLs that could not be fetched stay queued: run the same command "
        "again to resume."
        for hold in summary.held
    ]


def _failed(summary: Summary, again: str) -> list[str]:
    if not summary.errors:
        return []
    lines = ["", _title("Failed", summary.failed, summary.errors)]
    lines += _often(summary.errors, [f"for {plain(each.example)}" for each in summary.errors])
    return [*lines, *(f"  {hint}" for hint in after_failures(summary.errors, again))]


def _blocked(summary: Summary, again: str) -> list[str]:
    if not summary.rules:
        return []
    lines = ["", _title("Blocked", summary.blocked, summary.rules)]
    lines += _often(summary.rules, [f"of {plain(each.where)}" for each in summary.rules])
    return [*lines, f"  all of them, and by which line: courtly show blocked{again}"]


def _title(verb: str, count: int, shown: Sequence[Often]) -> str:
    if count > LOOKED_AT_MAX:
        return f"{verb}, most often among the first {LOOKED_AT_MAX:,}:"
    return f"{verb}:" if sum(each.count for each in shown) >= count else f"{verb}, most often:"


def _often(groups: Sequence[Often], asides: Sequence[str]) -> list[str]:
    width = max(len(f"{each.count:,}") for each in groups)
    return [
        f"  {each.count:>{width},}  {plain(each.words)}, {aside}"
        for each, aside in zip(groups, asides, strict=True)
    ]


def left_out(summary: Summary) -> list[str]:
    """A line for every reason that left URLs out: its count, its words, and the key to change."""
    rows = [(count, reason, "") for reason, count in _by_count(summary.skipped)]
    rows += [
        (count, reason, ", so they stay queued") for reason, count in _by_count(summary.held_back)
    ]
    if not rows:
        return []
    width = max(len(f"{count:,}") for count, _, _ in rows)
    lines = ["", "Left out:"]
    for count, reason, fate in rows:
        key = SKIP_KEYS.get(reason)
        words = SKIP_WORDS.get(reason, str(reason))
        lines.append(f"  {count:>{width},}  {words}{f' ({key})' if key else ''}{fate}")
    return lines


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(
        ((reason, count) for reason, count in counts.items() if count),
        key=lambda row: (-row[1], row[0]),
    )


def _waiting(summary: Summary, again: str, now_s: float) -> list[str]:
    """A line for each reason, those with the longest waits first. After an interruption every host
    rests: short rests say nothing."""
    groups: dict[str, list[Waiting]] = {}
    for each in sorted(summary.waiting, key=lambda each: (-_left_s(each, now_s), each.host)):
        if not summary.interrupted or _left_s(each, now_s) > SHORT_S:
            groups.setdefault(each.reason, []).append(each)
    if not groups:
        return []
    some = f" (of the first {WAITING_SHOWN} hosts)" if len(summary.waiting) >= WAITING_SHOWN else ""
    lines = ["", f"Still waiting, what they hold stays queued{some}:"]
    for reason, hosts in list(groups.items())[:_WAITING_SHOWN]:
        longest = f"{plain(reason)}{_until(hosts[0], now_s)}"
        if len(hosts) == 1:
            lines.append(f"  {plain(hosts[0].host)}: {longest}")
        elif _until(hosts[0], now_s):
            lines.append(f"  {len(hosts):,} hosts, {plain(hosts[0].host)} the longest: {longest}")
        else:
            lines.append(f"  {len(hosts):,} hosts: {longest}")
    if rest := list(groups.values())[_WAITING_SHOWN:]:
        lines.append(f"  … and {counted(sum(map(len, rest)), 'host')} more")
    if len(groups) < len(summary.waiting):
        lines.append(f"  host by host: courtly show hosts{again}")
    return lines


def _left_s(each: Waiting, now_s: float) -> float:
    return math.inf if each.until is None else each.until - now_s


def _until(each: Waiting, now_s: float) -> str:
    left_s = _left_s(each, now_s)
    if math.isinf(left_s) or left_s <= 0:
        return ""
    if left_s < SHORT_S:
        return f", for another {format_duration(left_s)}"
    return f", until {at(each.until)} (in {format_duration(left_s)})"
