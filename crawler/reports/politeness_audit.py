"""Check the treatment of each host, by the stored aggregates and the recent contacts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Final

from crawler.config import Config
from crawler.config.units import format_duration
from crawler.reports.report_sections import ROWS_MAX, Report, Section, count
from storage.reader import Reader
from storage.store import Row

# Times are stored as floating-point seconds; rounding can shift their difference by this much.
_TOLERANCE_S: Final = 0.001
_REFUSALS: Final = frozenset({429, 503})


@dataclass(slots=True, kw_only=True)
class HostAudit:
    """The facts of one host, and a sentence for each violation. Delays are in seconds."""

    host: str
    contacts: int
    smallest_rest_s: float | None  # between two contacts
    floor_s: float | None  # the configured delay
    delay_s: float | None
    delay_source: object
    peak_concurrency: int
    breaches: int  # contacts that the crawl itself found too early
    unproven: int  # contacts after a delay that nobody could measure; no violations
    inside_retry_after: int
    violations: list[str]


class _Hosts(Section):
    columns = (
        "host", "contacts", "shortest delay", "configured", "unproven", "simultaneous",
        "during Retry-After", "violations",
    )  # fmt: skip
    items_name = "hosts"

    def add(self, host: HostAudit) -> None:
        self.add_row(
            host.host,
            host.contacts,
            "-" if host.smallest_rest_s is None else format_duration(host.smallest_rest_s),
            "-" if host.floor_s is None else format_duration(host.floor_s),
            host.unproven,
            host.peak_concurrency,
            host.inside_retry_after,
            "; ".join(host.violations),
        )
        self.add_item(asdict(host))


class PolitenessAudit(Report):
    """Reports for each host the shortest delay, the highest concurrency, and contacts during a
    Retry-After.

    config: whose delays and limits apply. None: only the audit that the crawl itself made, contact
    by contact, decides.
    """

    name = "politeness"
    title = "Politeness"

    def __init__(self, reader: Reader, config: Config | None) -> None:
        super().__init__(reader)
        self._config = config
        self._hosts = self._contacts = self._unproven = self._violators = 0

    async def sections(self) -> AsyncGenerator[Section, None]:
        section = _Hosts("Hosts")
        async with aclosing(self.reader.iterate("hosts")) as rows:
            async for row in rows:
                if not row["contacts"]:
                    continue
                host = _audit(row, await self.reader.host(str(row["host"])), self._config)
                section.add(host)
                self._hosts += 1
                self._contacts += host.contacts
                self._unproven += host.unproven
                self._violators += bool(host.violations)
                if len(section.rows) == ROWS_MAX:
                    yield section
                    section = _Hosts(f"Hosts from no. {self._hosts + 1:,} on")
        if section.rows or not self._hosts:
            yield section

    def conclusion(self) -> str:
        contacts = count(self._contacts, "contact", "contacts")
        hosts = count(self._hosts, "host", "hosts")
        found = "no violations"
        if self._violators:
            found = f"violations at {count(self._violators, 'host', 'hosts')}"
        unproven = ""
        if self._unproven:
            after = count(self._unproven, "contact", "contacts")
            unproven = f" {after} followed a delay that nobody could measure."
        return f"{contacts} with {hosts}: {found}.{unproven}"

    @property
    def politeness_violated(self) -> bool:  # type: ignore[override]
        return self._violators > 0


def _audit(row: Row, host: Row | None, config: Config | None) -> HostAudit:
    contacts = host["contacts"] if host is not None else []
    assert isinstance(contacts, Sequence)
    settings = None if config is None else config.site(str(row["host"])).politeness
    audit = HostAudit(
        host=str(row["host"]),
        contacts=int(_number(row["contacts"]) or 0),
        smallest_rest_s=_number(row["smallest_rest_s"]),
        floor_s=None if settings is None else float(settings.delay),
        delay_s=_number(row["delay_s"]),
        delay_source=row["delay_source"],
        peak_concurrency=int(_number(row["peak_concurrency"]) or 0),
        breaches=int(_number(row["breaches"]) or 0),
        unproven=int(_number(row["unproven"]) or 0),
        inside_retry_after=contacts_inside_backoff(contacts, _number(row["backoff_until"])),
        violations=[],
    )
    if audit.breaches:
        were = count(audit.breaches, "contact was", "contacts were")
        audit.violations.append(f"{were} too early")
    if audit.inside_retry_after:
        during = count(audit.inside_retry_after, "contact", "contacts")
        audit.violations.append(f"{during} during a Retry-After")
    if settings is not None:
        allowed, rest_s = settings.concurrency_per_host, audit.smallest_rest_s
        if audit.peak_concurrency > allowed:
            audit.violations.append(
                f"{audit.peak_concurrency} simultaneous contacts, where {allowed} are allowed"
            )
        if allowed == 1 and rest_s is not None and rest_s < settings.delay - _TOLERANCE_S:
            audit.violations.append("a delay shorter than configured")
    return audit


def contacts_inside_backoff(contacts: Sequence[Mapping[str, object]], until: float | None) -> int:
    """The number of recent contacts that began between the latest refusal and the end of the
    backoff it asked for, if that is still known."""
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
