"""The summary of a finished crawl, as text with hints on how to continue, and as JSON."""

from __future__ import annotations

import ipaddress
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from crawler.config.units import format_bytes, format_duration
from crawler.events import LOOKED_AT_MAX, WAITING_SHOWN, FrequentReason, Summary, WaitingHost
from crawler.explain.formatting import at, counted, plain
from policies.holds import HoldReason
from policies.scope import SKIP_KEYS, SKIP_WORDS

COUNTS: Final = ("visited", "blocked", "failed", "queued", "hosts", "bytes")
SHORT_S: Final = 60.0
_REASONS_SHOWN: Final = 10
# Loopback and private ranges, in the sizes that users would allow.
_PRIVATE: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
            "100.64.0.0/10", "fc00::/7",
        ),
    )
)  # fmt: skip
_REFUSED: Final = re.compile(r"address: (\S+) is .*network\.allow")


def as_json(summary: Summary) -> str:
    """One line; README.md describes the keys."""
    return json.dumps(
        {
            **{name: getattr(summary, name) for name in COUNTS},
            "elapsed_s": round(summary.elapsed_s, 3),
            "ended_by": summary.ended_by,
            "held": [
                {"reason": hold.reason.value, "sentence": hold.sentence, "since": hold.since}
                for hold in summary.held
            ],
            "waiting": [asdict(each) for each in summary.waiting],
            "skipped": [
                {"reason": str(reason), "key": SKIP_KEYS.get(reason), "count": count}
                for reason, count in _by_count(summary.skipped)
            ],
        }
    )


def as_text(
    summary: Summary, *, options: str = "", blocked: bool = True, now_s: float | None = None
) -> str:
    """The counts, errors and how to fix them, the limits that excluded URLs, and waiting hosts.

    options: those that name the database and the config, for the suggested commands. blocked:
    include the rules that block most URLs.
    """
    verb = "Interrupted" if summary.interrupted else "Finished"
    counts = (
        f"{verb} after {format_duration(summary.elapsed_s)}: {summary.visited:,} visited "
        f"({format_bytes(summary.bytes)}), {summary.blocked:,} blocked, {summary.failed:,} failed, "
        f"{summary.queued:,} queued, on {counted(summary.hosts, 'host')}."
    )
    lines = [counts]
    if summary.interrupted:
        lines.append("Run the same command again to resume.")
    if summary.ended_by is not None and not summary.interrupted:
        lines.append(
            f"{summary.ended_by} has been reached: run the same command again to continue."
        )
    lines += _held(summary)
    if summary.errors:
        lines += ["", _title("Failed", summary.failed, summary.errors)]
        lines += _frequent(summary.errors, [f"for {each.example}" for each in summary.errors])
        lines += [f"  {hint}" for hint in failure_hints(summary.errors, options)]
    if blocked and summary.rules:
        lines += ["", _title("Blocked", summary.blocked, summary.rules)]
        lines += _frequent(summary.rules, [f"in {each.where}" for each in summary.rules])
        lines.append(f"  list them with their rules: courtly show blocked{options}")
    lines += excluded(summary)
    lines += _waiting(summary, options, time.time() if now_s is None else now_s)
    return "\n".join(lines)


def _held(summary: Summary) -> list[str]:
    """The problems of this machine or network that ended the crawl."""
    if summary.interrupted:
        return []
    return [
        (
            f"The crawl ended because of a "
            f"{'' if hold.reason is HoldReason.NETWORK else 'problem with this machine: '}"
            f"{hold.sentence} (since {at(hold.since)}).\n"
            "URLs that could not be fetched stay queued. Run the same command again to resume."
        )
        for hold in summary.held
    ]


def failure_hints(errors: Sequence[FrequentReason], options: str) -> list[str]:
    """Suggested commands after failures. options: those that name the database and the config."""
    hints = [
        f"list them: courtly show failed{options}",
        f"queue them again: courtly retry failed{options}",
    ]
    ranges = dict.fromkeys(filter(None, (_range_to_allow(each.words) for each in errors)))
    if "::1/128" in ranges:  # "localhost" has both addresses, and its server may use either
        ranges = {"127.0.0.0/8": None, **ranges}
    if ranges:
        allow = "".join(f" --allow {network}" for network in ranges)
        hints.append(
            "if these addresses are yours, queue the URLs again and allow the addresses: "
            f"courtly crawl{allow}{options}"
        )
    return hints


def _range_to_allow(error: str) -> str | None:
    """The private range that `network.allow` would need to avoid this error."""
    refused = _REFUSED.match(error)
    try:
        address = ipaddress.ip_address(refused[1].partition("%")[0] if refused else "")
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return next((str(network) for network in _PRIVATE if address in network), None)


def _title(verb: str, count: int, shown: Sequence[FrequentReason]) -> str:
    if count > LOOKED_AT_MAX:
        return f"{verb}, most frequent among the first {LOOKED_AT_MAX:,}:"
    complete = sum(each.count for each in shown) >= count
    return f"{verb}:" if complete else f"{verb}, most frequent:"


def _frequent(groups: Sequence[FrequentReason], examples: Sequence[str]) -> list[str]:
    width = max(len(f"{each.count:,}") for each in groups)
    return [
        f"  {each.count:>{width},}  {plain(each.words)}, {plain(example)}"
        for each, example in zip(groups, examples, strict=True)
    ]


def excluded(summary: Summary) -> list[str]:
    """A line for each reason that excluded URLs: their number, the reason, and the config key."""
    rows = [(count, reason, "") for reason, count in _by_count(summary.skipped)]
    rows += [
        (count, reason, "; they stay queued") for reason, count in _by_count(summary.held_back)
    ]
    if not rows:
        return []
    width = max(len(f"{count:,}") for count, _, _ in rows)
    lines = ["", "Excluded:"]
    for count, reason, note in rows:
        key = SKIP_KEYS.get(reason)
        words = SKIP_WORDS.get(reason, str(reason))
        lines.append(f"  {count:>{width},}  {words}{f' ({key})' if key else ''}{note}")
    return lines


def _by_count(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(
        ((reason, count) for reason, count in counts.items() if count),
        key=lambda row: (-row[1], row[0]),
    )


def _waiting(summary: Summary, options: str, now_s: float) -> list[str]:
    """A line for each reason, the longest waits first. After an interruption every host waits, so
    short waits are left out."""
    groups: dict[str, list[WaitingHost]] = {}
    for each in sorted(summary.waiting, key=lambda each: (-_left_s(each, now_s), each.host)):
        if not summary.interrupted or _left_s(each, now_s) > SHORT_S:
            groups.setdefault(each.reason, []).append(each)
    if not groups:
        return []
    some = f" (the first {WAITING_SHOWN})" if len(summary.waiting) >= WAITING_SHOWN else ""
    lines = ["", f"Hosts that still have URLs queued{some}:"]
    for reason, hosts in list(groups.items())[:_REASONS_SHOWN]:
        until = _until(hosts[0], now_s)
        who = f"{len(hosts):,} hosts"
        if len(hosts) == 1:
            who = plain(hosts[0].host)
        elif until:
            who += f", {plain(hosts[0].host)} the longest"
        lines.append(f"  {who}: {plain(reason)}{until}")
    if rest := list(groups.values())[_REASONS_SHOWN:]:
        lines.append(f"  … and {counted(sum(map(len, rest)), 'more host')}")
    if len(groups) < len(summary.waiting):
        lines.append(f"  list all hosts: courtly show hosts{options}")
    return lines


def _left_s(each: WaitingHost, now_s: float) -> float:
    return math.inf if each.until is None else each.until - now_s


def _until(each: WaitingHost, now_s: float) -> str:
    left_s = _left_s(each, now_s)
    if math.isinf(left_s) or left_s <= 0:
        return ""
    if left_s < SHORT_S:
        return f", for another {format_duration(left_s)}"
    return f", until {at(each.until)} (in {format_duration(left_s)})"
