"""Lint for site owners: findings on a robots.txt, each with its line and an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from policies.pacing import DELAY_S_MAX
from policies.robots import fields
from policies.robots.dialect import Agent, GroupSelection
from policies.robots.dialects import DIALECTS, RFC9309, SLURP
from policies.robots.file import RobotsFile
from policies.robots.groups import Group, groups, is_star, library_name, own_name
from policies.robots.lint_rules import ERROR, NOTE, WARNING, Finding, names_of, rule_findings
from policies.robots.syntax import BYTES_MAX, FIELDS, LINE_BYTES_MAX, Leniency, LineKind

FINDINGS_MAX = 1_000

_ALL = DIALECTS.values()
_MERGING = names_of(one for one in _ALL if one.choice is GroupSelection.ALL_EQUAL)
_UNMERGED = names_of(one for one in _ALL if one.choice is not GroupSelection.ALL_EQUAL)
_STAR_TEXT = names_of(one for one in _ALL if one.star_with_text)
_CUT = names_of(one for one in _ALL if one.agent is not Agent.WHOLE)
_LIBRARY = names_of(one for one in _ALL if one.agent is Agent.LIBRARY)
_BLANK_ENDS = names_of(one for one in _ALL if one.blank_ends)
_DELAY_CONTINUES = names_of(
    one
    for one in _ALL
    if not one.blank_ends
    and one.list_ends is not None
    and LineKind.CRAWL_DELAY not in one.list_ends
)
_RULES = frozenset({LineKind.ALLOW, LineKind.DISALLOW})
_ACAP_RULES = frozenset({LineKind.ACAP_ALLOW, LineKind.ACAP_DISALLOW})


def lint(file: RobotsFile) -> tuple[Finding, ...]:
    """The findings in order of their lines, those on the whole file first; FINDINGS_MAX at most."""
    checks = (_file, _lines, _agents, _groups, _delays, _rates, _sitemaps, _rules)
    found = islice(chain.from_iterable(check(file) for check in checks), FINDINGS_MAX)
    return tuple(sorted(found, key=lambda finding: finding.line or 0))


def _file(file: RobotsFile) -> Iterator[Finding]:
    source = file.source
    if source.bytes_unused:
        why = (
            f"only the first {BYTES_MAX} bytes are read; the last {source.bytes_unused} are ignored"
        )
        yield Finding(source.cut_line, ERROR, "cut", why)
    if source.html:
        why = "this is a web page, perhaps an error page, and not a robots.txt"
        yield Finding(None, ERROR, "html", why)
    if source.encoding != "utf-8":
        why = f"this file is {source.encoding}; many crawlers read only UTF-8"
        yield Finding(None, WARNING, "utf-16", why)
    elif source.bom_bytes:
        why = (
            "the file begins with a byte order mark, which some crawlers read as part of the "
            "first field's name"
        )
        yield Finding(1, WARNING, "bom", why)
    for number in source.long_lines:
        why = f"only the first {LINE_BYTES_MAX} bytes of this line are read"
        yield Finding(number, ERROR, "long-line", why)
    body = source.body[:BYTES_MAX]
    if source.encoding == "utf-8" and b"\0" in body:
        number = body[: body.index(b"\0")].count(b"\n") + 1
        yield Finding(number, WARNING, "nul", "this line contains NUL bytes")
    if not source.indexes(LineKind.AGENT, LineKind.ACAP_CRAWLER) and body.strip():
        why = "there is no User-agent line, so no rule applies to any crawler"
        yield Finding(None, WARNING, "no-group", why)


def _lines(file: RobotsFile) -> Iterator[Finding]:
    for line in file.lines:
        name = FIELDS.get(line.kind)
        if line.kind is LineKind.JUNK:
            why = "this line has no colon, so no crawler understands it"
            yield Finding(line.number, WARNING, "junk", why)
        elif line.kind is LineKind.UNKNOWN and line.number != file.source.cut_line:
            yield Finding(line.number, NOTE, "unknown", "no known crawler reads this field")
        elif line.leniency & Leniency.NO_COLON:
            why = f'the colon is missing: write "{name}: {line.value}"'
            yield Finding(line.number, ERROR, "no-colon", why)
        elif line.leniency:
            why = f'"{name}" is misspelt: some crawlers understand it, others ignore the line'
            yield Finding(line.number, ERROR, "misspelt", why)
        elif name is not None:
            written = line.text.lstrip("\ufeff \t").partition(":")[0].strip()
            usual = (name, name.capitalize())
            if line.kind is LineKind.AGENT:
                usual = ("User-agent", "User-Agent")
            if written not in usual:
                yield Finding(line.number, NOTE, "word-case", f'the usual spelling is "{name}"')
        if "\ufffd" in line.value:
            why = "this line contains bytes that are not UTF-8; Bing reads only ASCII and UTF-8"
            yield Finding(line.number, WARNING, "bytes", why)
        elif not line.value.isascii() and line.kind in _RULES:
            why = (
                "percent-encode non-ASCII characters (as in %C3%A9): crawlers treat unencoded ones "
                "differently"
            )
            yield Finding(line.number, NOTE, "non-ascii", why)


def _agents(file: RobotsFile) -> Iterator[Finding]:
    for i in file.source.indexes(LineKind.AGENT, LineKind.ACAP_CRAWLER):
        value = file.source.text(i)
        shown = value[:80]
        if not value:
            why = "this line names no crawler, so no dialect can match it"
            yield Finding(i + 1, ERROR, "no-agent", why)
        elif value == "*":
            continue
        elif value.startswith("*"):
            why = (
                "only `*` alone means all crawlers; "
                f"{_STAR_TEXT} also accept it with text after a space"
            )
            yield Finding(i + 1, ERROR, "star-text", why)
        elif not library_name(value):
            unable = _CUT if not own_name(value) else _LIBRARY
            why = (
                f"`{shown}` does not begin with a letter, `-` or `_`: "
                f"{unable} cannot match it with any crawler"
            )
            yield Finding(i + 1, ERROR, "no-token", why)
        elif own_name(value) != value.lower():
            why = (
                f"no crawler can have the name `{shown}`, because tokens consist of letters, `-` "
                f"and `_`. Some crawlers read `{own_name(value)[:80]}`, others look for their name "
                "in the value"
            )
            yield Finding(i + 1, WARNING, "token", why)
        elif library_name(value) != value.lower():
            why = (
                f"tokens consist of letters, `-` and `_`: {_LIBRARY} reads "
                f"`{library_name(value)[:80]}` instead of `{shown}`"
            )
            yield Finding(i + 1, WARNING, "token", why)


def _groups(file: RobotsFile) -> Iterator[Finding]:
    source = file.source
    found = groups(source, RFC9309)
    first_rule = next(iter(source.indexes(*_RULES)), None)
    if first_rule is not None and (not found or first_rule < found[0].start):
        why = "rules before the first User-agent line apply to no crawler"
        yield Finding(first_rule + 1, ERROR, "no-agent-yet", why)
    seen: dict[str, int] = {}
    for group in found:
        yield from _repeated(group, seen)
        kinds = {source.kinds[i] & 0x1F for i in range(group.start, group.end)}
        if kinds.isdisjoint(_RULES | _ACAP_RULES):
            why = "this group has no rules, so it allows everything"
            yield Finding(group.start + 1, NOTE, "empty-group", why)
        yield from _delay_only(file, group)
        between = [source.kinds[i] for i in range(group.agent_lines[-1] + 1, group.end)]
        blank = between.index(LineKind.BLANK) if LineKind.BLANK in between else None
        rule = next((n for n, kind in enumerate(between) if kind in _RULES), None)
        if blank is not None and rule is not None and blank < rule:
            why = (
                f"for {_BLANK_ENDS} this blank line ends the group, so the rules after it apply to "
                "no crawler"
            )
            yield Finding(group.agent_lines[-1] + 2 + blank, WARNING, "blank-line", why)


def _repeated(group: Group, seen: dict[str, int]) -> Iterator[Finding]:
    for value, at in zip(group.agents, group.agent_lines, strict=True):
        token = "*" if is_star(value, RFC9309) else own_name(value)
        if token in seen and token:
            why = (
                f"there is already a group for `{token}` at line {seen[token]}: "
                f"{_MERGING} merge the two; {_UNMERGED} never use this one"
            )
            yield Finding(at + 1, WARNING, "unreachable-group", why)
        elif token:
            seen[token] = at + 1


def _delay_only(file: RobotsFile, group: Group) -> Iterator[Finding]:
    """Agents whose only line is a Crawl-delay, before another agent's rules."""
    kinds = file.source.kinds
    for before, after in zip(group.agent_lines, group.agent_lines[1:], strict=False):
        between = [kinds[i] & 0x1F for i in range(before + 1, after)]
        if LineKind.CRAWL_DELAY in between:
            why = (
                f"the group at line {before + 1} has only a Crawl-delay: {_DELAY_CONTINUES} read "
                "it and this one as one group, and apply these rules to both; others do not. Give "
                'each a rule of its own (an empty "Disallow:" is enough)'
            )
            yield Finding(after + 1, WARNING, "delay-only", why)


def _delays(file: RobotsFile) -> Iterator[Finding]:
    for group in groups(file.source, SLURP):
        before: int | None = None
        for i in range(group.start, group.end):
            if file.source.kinds[i] & 0x1F != LineKind.CRAWL_DELAY:
                continue
            text = file.source.text(i)
            value = fields.number(text)
            if value is None:
                why = f"Crawl-delay must be a number of seconds, not `{text[:80]}`"
                yield Finding(i + 1, ERROR, "delay-value", why)
                continue
            if value > DELAY_S_MAX:
                why = f"the delay is too long and is read as {DELAY_S_MAX:.0f} seconds (ten years)"
                yield Finding(i + 1, ERROR, "delay-extreme", why)
                continue
            if text.strip("0123456789."):
                why = f"`{text}` is read as {value:g}: write {value:g}"
                yield Finding(i + 1, WARNING, "delay-unit", why)
            if value != int(value):
                why = f"bing rounds {value:g} up to a whole number"
                yield Finding(i + 1, NOTE, "delay-fraction", why)
            for dialect in _ALL:
                low, high = dialect.crawl_delay_range or (0, value)
                if not low <= value <= high:
                    why = (
                        f"the documented range of {dialect.name} for Crawl-delay is {low:g} to "
                        f"{high:g}; {value:g} is outside"
                    )
                    yield Finding(i + 1, NOTE, "delay-range", why)
            if before is not None:
                why = f"line {before} also has a Crawl-delay: the largest applies"
                yield Finding(i + 1, WARNING, "delay-repeated", why)
            before = before or i + 1


def _rates(file: RobotsFile) -> Iterator[Finding]:
    for i in file.source.indexes(LineKind.REQUEST_RATE):
        text = file.source.text(i)
        rate = fields.request_rate(text, i + 1)
        if rate is None:
            why = f"Request-rate must be pages/seconds, as in 1/10, not `{text[:80]}`"
            yield Finding(i + 1, ERROR, "rate-value", why)
        elif rate.seconds_per_page >= DELAY_S_MAX:
            why = "the rate is too low and is read as one page in ten years"
            yield Finding(i + 1, ERROR, "rate-extreme", why)


def _sitemaps(file: RobotsFile) -> Iterator[Finding]:
    for i in file.source.indexes(LineKind.SITEMAP):
        if not file.source.text(i).lower().startswith(("http://", "https://")):
            why = "the URL of a sitemap must be absolute: https://host/sitemap.xml"
            yield Finding(i + 1, ERROR, "sitemap", why)


def _rules(file: RobotsFile) -> Iterator[Finding]:
    return rule_findings(file.source)
