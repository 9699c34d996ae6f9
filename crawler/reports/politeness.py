"""Were the hosts treated as promised? From the stored aggregates and recent contacts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from crawler.config import Config
from crawler.config.units import format_duration
from crawler.reports.base import Report, Section, count
from storage.base import Reader, Row

_HOSTS_PER_SECTION: Final = 100
# Times are stored as floating point seconds: what two of them may differ by without a cause.
_TOLERANCE_S: Final = 0.001
_REFUSALS: Final = frozenset({429, 503})


def politeness(reader: Reader, config: Config | None) -> Report:
    """For each host smallest rest against its floor, largest concurrency, contacts inside a
    Retry-After. `config`: whose delays and limits count; None: what the audit of the crawl itself
    says, contact by contact, is all there is."""
    found = {"hosts": 0, "contacts": 0, "broken": 0}

    async def sections() -> AsyncGenerator[Section, None]:
        section = _section(0)
        async with aclosing(reader.iterate("hosts")) as rows:
            async for row in rows:
                if not row["contacts"]:
                    continue
                host = await reader.host(str(row["host"]))
                _add(section, _audit(row, host, config), found)
                if len(section.rows) == _HOSTS_PER_SECTION:
                    yield section
                    section = _section(found["hosts"])
        if section.rows or not found["hosts"]:
            yield section

    def conclude() -> str:
        hosts = count(found["hosts"], "host", "hosts")
        contacts = count(found["contacts"], "contact", "contacts")
        if not found["broken"]:
            return f"{contacts} with {hosts}: nobody was hurried."
        return (
            f"{contacts} with {hosts}: {count(found['broken'], 'host was', 'hosts were')} hurried."
        )

    return Report(
        name="politeness",
        title="Politeness",
        sections=sections(),
        conclude=conclude,
        broken_law=lambda: found["broken"] > 0,
    )


def _section(after: int) -> Section:
    return Section(
        title="Hosts" if not after else f"Hosts from the {after + 1:,}th",
        columns=("host", "contacts", "smallest rest", "floor", "at once", "inside Retry-After", ""),
        of="hosts",
    )


def _add(section: Section, facts: dict[str, object], found: dict[str, int]) -> None:
    contacts, broken = facts["contacts"], facts["broken"]
    assert isinstance(contacts, int)
    assert isinstance(broken, list)
    found["hosts"] += 1
    found["contacts"] += contacts
    found["broken"] += bool(broken)
    rest_s, floor_s = facts["smallest_rest_s"], facts["floor_s"]
    section.add(
        facts["host"],
        contacts,
        format_duration(rest_s) if isinstance(rest_s, float) else "-",
        format_duration(floor_s) if isinstance(floor_s, float) else "-",
        facts["peak_concurrency"],
        facts["inside_retry_after"],
        "; ".join(map(str, broken)),
    )
    section.add_item(facts)


def _audit(row: Row, host: Row | None, config: Config | None) -> dict[str, object]:
    """One host; `broken` has a sentence for each law that was."""
    name = str(row["host"])
    rest_s = _number(row["smallest_rest_s"])
    peak, breaches = int(_number(row["peak_concurrency"]) or 0), int(_number(row["breaches"]) or 0)
    contacts = host["contacts"] if host is not None else []
    assert isinstance(contacts, Sequence)
    inside = inside_backoff(contacts, _number(row["backoff_until"]))
    floor_s: float | None = None
    lanes: int | None = None
    if config is not None:
        rules = config.site(name).politeness
        floor_s, lanes = float(rules.delay), rules.concurrency_per_host
    broken: list[str] = []
    if breaches:
        broken.append(f"{count(breaches, 'contact', 'contacts')} before its time")
    if inside:
        broken.append(f"{count(inside, 'contact', 'contacts')} inside a Retry-After")
    if lanes is not None and peak > lanes:
        broken.append(f"{peak} contacts at once, where {lanes} may be")
    audited = floor_s is not None and lanes == 1 and rest_s is not None
    if audited and (rest_s or 0.0) < (floor_s or 0.0) - _TOLERANCE_S:
        broken.append("a rest shorter than its floor")
    return {
        "host": name,
        "contacts": int(_number(row["contacts"]) or 0),
        "smallest_rest_s": rest_s,
        "floor_s": floor_s,
        "delay_s": _number(row["delay_s"]),
        "delay_source": row["delay_source"],
        "peak_concurrency": peak,
        "breaches": breaches,
        "inside_retry_after": inside,
        "broken": broken,
    }


def inside_backoff(contacts: Sequence[Mapping[str, object]], until: float | None) -> int:
    """How many of the recent contacts began between the latest refusal and the end of the rest it
    asked for, where that is still known."""
    if until is None:
        return 0
    refused_at = max(
        (_number(one["end_at"]) or 0.0 for one in contacts if one["status"] in _REFUSALS),
        default=None,
    )
    if refused_at is None:
        return 0
    starts = [_number(one["start_at"]) or 0.0 for one in contacts]
    return sum(refused_at + _TOLERANCE_S < at < until - _TOLERANCE_S for at in starts)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
