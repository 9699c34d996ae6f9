"""What a site owner would want to know about a robots.txt: findings, each with its line and why."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from msgspec import Struct

from policies.pacing import DELAY_S_MAX
from policies.robots import fields
from policies.robots.dialect import Agent, GroupSelection
from policies.robots.dialects import DIALECTS, RFC9309, SLURP
from policies.robots.file import RobotsFile
from policies.robots.groups import Group, groups, is_star, library_name, own_name
from policies.robots.lint_rules import rule_findings, those
from policies.robots.syntax import BYTES_MAX, FIELDS, LINE_BYTES_MAX, Leniency, LineKind

FINDINGS_MAX = 1_000
"""More findings than anybody reads; a hostile file must not make lint a flood."""


_ROWS = DIALECTS.values()
_MERGING = those(row for row in _ROWS if row.choice is GroupSelection.ALL_EQUAL)
_UNMERGED = those(row for row in _ROWS if row.choice is not GroupSelection.ALL_EQUAL)
_STAR_TEXT = those(row for row in _ROWS if row.star_with_text)
_CUT = those(row for row in _ROWS if row.agent is not Agent.WHOLE)
_LIBRARY = those(row for row in _ROWS if row.agent is Agent.LIBRARY)
_BLANK_ENDS = those(row for row in _ROWS if row.blank_ends)
_DELAY_GOES_ON = those(
    row
    for row in _ROWS
    if not row.blank_ends
    and row.list_ends is not None
    and LineKind.CRAWL_DELAY not in row.list_ends
)


class Severity(enum.StrEnum):
    ERROR = "error"  # the line does not do what it was written for
    WARNING = "warning"  # crawlers differ on it, or it is likely a mistake
    NOTE = "note"


class Finding(Struct, frozen=True, kw_only=True):
    """One thing to know. `code` is stable; `line` counts from 1, None means the whole file."""

    line: int | None
    severity: Severity
    code: str
    why: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.severity}: {self.why} [{self.code}]"


def lint(file: RobotsFile) -> tuple[Finding, ...]:
    """All findings in the order of their lines, those on the whole file first."""
    found: list[Finding] = []
    for check in (_file, _lines, _agents, _groups, _delays, _rates, _sitemaps, _rules):
        for finding in check(file):
            found.append(finding)
            if len(found) >= FINDINGS_MAX:
                break
    return tuple(sorted(found[:FINDINGS_MAX], key=lambda finding: finding.line or 0))


def _error(line: int | None, code: str, why: str) -> Finding:
    return Finding(line=line, severity=Severity.ERROR, code=code, why=why)


def _warning(line: int | None, code: str, why: str) -> Finding:
    return Finding(line=line, severity=Severity.WARNING, code=code, why=why)


def _note(line: int | None, code: str, why: str) -> Finding:
    return Finding(line=line, severity=Severity.NOTE, code=code, why=why)


def _file(file: RobotsFile) -> Iterator[Finding]:
    source = file.source
    if source.bytes_unused:
        yield _error(
            source.cut_line,
            "cut",
            f"only the first {BYTES_MAX} bytes are read; {source.bytes_unused} more are not",
        )
    if source.html:
        yield _error(None, "html", "this is a web page, not a robots.txt: is it an error page?")
    if source.encoding != "utf-8":
        yield _warning(None, "utf-16", f"this is {source.encoding}; many read UTF-8 only")
    elif source.bom_bytes:
        yield _warning(
            1,
            "bom",
            "the file begins with a byte order mark, which some crawlers take for a part "
            "of the first field's name",
        )
    for number in source.long_lines:
        yield _error(number, "long-line", f"only {LINE_BYTES_MAX} bytes of this line are read")
    body = source.body[:BYTES_MAX]
    if source.encoding == "utf-8" and b"\0" in body:
        yield _warning(
            body[: body.index(b"\0")].count(b"\n") + 1, "nul", "there are NUL bytes here"
        )
    if not source.indexes(LineKind.AGENT, LineKind.ACAP_CRAWLER) and body.strip():
        yield _warning(
            None, "no-group", "there is no User-agent line, so no rule applies to anybody"
        )


def _lines(file: RobotsFile) -> Iterator[Finding]:
    for line in file.lines:
        name = FIELDS.get(line.kind)
        if line.kind is LineKind.JUNK:
            yield _warning(line.number, "junk", "this line has no colon: nobody understands it")
        elif line.kind is LineKind.UNKNOWN and line.number != file.source.cut_line:
            yield _note(line.number, "unknown", "no crawler that is known here reads this field")
        elif line.leniency & Leniency.NO_COLON:
            yield _error(
                line.number, "no-colon", f'write "{name}: {line.value}": the colon is missing'
            )
        elif line.leniency:
            yield _error(
                line.number,
                "misspelt",
                f'"{name}" is misspelt: some crawlers understand it, others pass over it',
            )
        elif name is not None:
            written = line.text.lstrip("\ufeff \t").partition(":")[0].strip()
            if written not in (name, name.capitalize()) and line.kind is not LineKind.AGENT:
                yield _note(line.number, "word-case", f'the reference guide writes "{name}"')
            elif line.kind is LineKind.AGENT and written not in ("User-agent", "User-Agent"):
                yield _note(line.number, "word-case", 'the reference guide writes "User-agent"')
        if "\ufffd" in line.value:
            yield _warning(
                line.number,
                "bytes",
                "there are bytes here that are not UTF-8; Bing reads ASCII and UTF-8 only",
            )
        elif not line.value.isascii() and line.kind in (LineKind.ALLOW, LineKind.DISALLOW):
            yield _note(
                line.number,
                "non-ascii",
                "write other letters than ASCII's escaped (%C3%A9): crawlers differ on raw ones",
            )


def _agents(file: RobotsFile) -> Iterator[Finding]:
    for i in file.source.indexes(LineKind.AGENT, LineKind.ACAP_CRAWLER):
        value = file.source.text(i)
        if not value:
            yield _error(i + 1, "no-agent", "this names no crawler, so no dialect can match it")
        elif value == "*":
            continue
        elif value.startswith("*"):
            yield _error(
                i + 1,
                "star-text",
                f"only a lone `*` means everybody; {_STAR_TEXT} read it so "
                "with text behind it, too",
            )
        elif not library_name(value):
            yield _error(
                i + 1,
                "no-token",
                f"`{value[:80]}` begins with no letter, `-` or `_`: "
                f"{_CUT if not own_name(value) else _LIBRARY} cannot match it with any crawler",
            )
        elif own_name(value) != value.lower():
            yield _warning(
                i + 1,
                "token",
                f"no crawler can be called `{value[:80]}`: tokens have letters, `-` and "
                f"`_` only. Some read `{own_name(value)[:80]}` here, others look for their "
                "name within it",
            )
        elif library_name(value) != value.lower():
            yield _warning(
                i + 1,
                "token",
                f"tokens have letters, `-` and `_` only: {_LIBRARY} reads "
                f"`{library_name(value)[:80]}` in place of `{value[:80]}`",
            )


def _groups(file: RobotsFile) -> Iterator[Finding]:
    source = file.source
    found = groups(source, RFC9309)
    first_rule = next(iter(source.indexes(LineKind.ALLOW, LineKind.DISALLOW)), None)
    if first_rule is not None and (not found or first_rule < found[0].start):
        yield _error(first_rule + 1, "no-agent-yet", "rules before any User-agent apply to nobody")
    seen: dict[str, int] = {}
    for record in found:
        yield from _repeated(record, seen)
        kinds = {source.kinds[i] & 0x1F for i in range(record.start, record.end)}
        if not kinds & {
            LineKind.ALLOW,
            LineKind.DISALLOW,
            LineKind.ACAP_ALLOW,
            LineKind.ACAP_DISALLOW,
        }:
            yield _note(record.start + 1, "empty-group", "this group has no rules: it allows all")
        yield from _delay_only(file, record)
        lines = range(record.agent_lines[-1] + 1, record.end)
        between = [source.kinds[i] for i in lines]
        blank = between.index(LineKind.BLANK) if LineKind.BLANK in between else None
        rule = next(
            (n for n, k in enumerate(between) if k in (LineKind.ALLOW, LineKind.DISALLOW)), None
        )
        if blank is not None and rule is not None and blank < rule:
            yield _warning(
                record.agent_lines[-1] + 2 + blank,
                "blank-line",
                f"for {_BLANK_ENDS} this blank line ends the "
                "group, so the rules behind it apply to nobody",
            )


def _repeated(record: Group, seen: dict[str, int]) -> Iterator[Finding]:
    for value, at in zip(record.agents, record.agent_lines, strict=True):
        token = "*" if is_star(value, RFC9309) else own_name(value)
        if token in seen and token:
            yield _warning(
                at + 1,
                "unreachable-group",
                f"there is a group for `{token}` at line {seen[token]}: "
                f"{_MERGING} merge the two; {_UNMERGED} never reach this one",
            )
        elif token:
            seen[token] = at + 1


def _delay_only(file: RobotsFile, record: Group) -> Iterator[Finding]:
    """Agents whose only line is Crawl-delay, before another agent's rules."""
    kinds = file.source.kinds
    for before, after in zip(record.agent_lines, record.agent_lines[1:], strict=False):
        between = [kinds[i] & 0x1F for i in range(before + 1, after)]
        if LineKind.CRAWL_DELAY in between:
            yield _warning(
                after + 1,
                "delay-only",
                f"the group at line {before + 1} has only a Crawl-delay: "
                f"{_DELAY_GOES_ON} take it and this one for one group, and give both these "
                'rules; others do not. Give each a rule of its own (an empty "Disallow:" will do)',
            )


def _delays(file: RobotsFile) -> Iterator[Finding]:
    for record in groups(file.source, SLURP):
        before: int | None = None
        for i in range(record.start, record.end):
            if file.source.kinds[i] & 0x1F != LineKind.CRAWL_DELAY:
                continue
            text = file.source.text(i)
            value = fields.number(text)
            if value is None:
                yield _error(i + 1, "delay-value", f"Crawl-delay wants seconds, not `{text[:80]}`")
                continue
            if value > DELAY_S_MAX:
                yield _error(
                    i + 1,
                    "delay-extreme",
                    f"nobody waits that long: it is read as {DELAY_S_MAX:.0f} seconds (ten years)",
                )
                continue
            if text.strip("0123456789."):
                yield _warning(i + 1, "delay-unit", f"`{text}` is read as {value:g}: write that")
            if value != int(value):
                yield _note(
                    i + 1,
                    "delay-fraction",
                    f"bing rounds {value:g} up to a whole number",
                )
            for row in _ROWS:
                low, high = row.crawl_delay_range or (0, value)
                if not low <= value <= high:
                    yield _note(
                        i + 1,
                        "delay-range",
                        f"{row.name} named the range {low:g} to {high:g} for "
                        f"Crawl-delay; {value:g} is outside",
                    )
            if before is not None:
                yield _warning(
                    i + 1,
                    "delay-repeated",
                    f"Crawl-delay stands at line {before}, too: the largest counts",
                )
            before = before or i + 1


def _rates(file: RobotsFile) -> Iterator[Finding]:
    for i in file.source.indexes(LineKind.REQUEST_RATE):
        text = file.source.text(i)
        rate = fields.request_rate(text, i + 1)
        if rate is None:
            yield _error(
                i + 1,
                "rate-value",
                f"Request-rate wants pages/seconds, as in 1/10, not `{text[:80]}`",
            )
        elif rate.seconds_per_page >= DELAY_S_MAX:
            yield _error(
                i + 1, "rate-extreme", "nobody waits that long: it is read as a page in ten years"
            )


def _sitemaps(file: RobotsFile) -> Iterator[Finding]:
    for i in file.source.indexes(LineKind.SITEMAP):
        value = file.source.text(i)
        if not value.lower().startswith(("http://", "https://")):
            yield _error(i + 1, "sitemap", "a sitemap's URL is absolute: https://host/sitemap.xml")


def _rules(file: RobotsFile) -> Iterator[Finding]:
    severities = {"error": _error, "warning": _warning, "note": _note}
    for line, severity, code, why in rule_findings(file.source):
        yield severities[severity](line, code, why)
