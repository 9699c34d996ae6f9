"""What a host is doing, in one word and its colour, and whether it is worth a look."""

from __future__ import annotations

from dataclasses import dataclass

from crawler.daemon.shapes import HostRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Mood:
    """`kind` is the class of its pill: good, calm, wait, bad or robots."""

    kind: str
    word: str


def mood(row: HostRow, now_s: float) -> Mood:
    """The strongest reason first, as `courtly why` gives them."""
    if row["paused"]:
        return Mood(kind="wait", word="paused")
    if (row["backoff_until"] or 0.0) > now_s:
        return Mood(kind="wait", word="backing off")
    if row["connect_failures"]:
        return Mood(kind="bad", word="unreachable")
    if row["slow_s"]:
        return Mood(kind="wait", word="slowed")
    now = row["now"]
    if now is not None and now["state"] in ("robots", "closed"):
        words = {"robots": "awaits robots.txt", "closed": "closed"}
        return Mood(kind="robots", word=words[now["state"]])
    if now is not None and now["in_flight"]:
        return Mood(kind="good", word="in contact")
    if not row["queued"]:
        return Mood(kind="calm", word="done")
    if (row["next_at"] or 0.0) > now_s:
        return Mood(kind="calm", word="resting")
    return Mood(kind="good", word="ready")


def next_turn(row: HostRow) -> float | None:
    """When it may be contacted next, Unix seconds; None: nothing is to be asked of it, or nobody
    knows, because it is paused. A held host knows better than its row, which is as committed."""
    if row["paused"] or not row["queued"]:
        return None
    now = row["now"]
    return row["next_at"] if now is None else now["next_at"]


def waits_for(row: HostRow) -> str:
    """Why it waits, in words; nothing for a host of which nothing is wanted."""
    if row["queued"] or row["paused"] or row["connect_failures"]:
        return row["wait_reason"]
    return ""


def trouble(row: HostRow, feels: Mood) -> str:
    """Why it is worth a look, in a sentence: what it waits for, or what failed."""
    if feels.kind not in ("calm", "good") and (reason := waits_for(row)):
        return reason
    if row["connect_failures"]:
        times = row["connect_failures"]
        return f"{times} connection{'' if times == 1 else 's'} in a row could not be made"
    if row["failed"]:
        return f"{row['failed']:,} of its URLs failed"
    return "paused by hand" if row["paused"] else ""
