"""`courtly robots lint`: what the owner of a robots.txt would want to know."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from crawler.cli import screen
from crawler.cli.errors import FAILED, tell
from crawler.cli.robots.files import read
from crawler.cli.text import echo, echo_json
from crawler.config import Config
from crawler.telling.tester import Known
from crawler.telling.words import plain
from policies import robots
from policies.robots import Finding, RobotsFile, Severity
from policies.robots.lint import FINDINGS_MAX

LINE_CHARS_MAX = 160
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold blue"}


def lint(config: Config, what: str, *, as_json: bool) -> None:
    """Print the findings. SystemExit(1) where there are errors, or no file could be had."""
    known = _fetched(config, what) if "://" in what else read(what)
    if known.access.body is None:
        raise SystemExit(_without_file(known, as_json=as_json))
    file = robots.parse(known.access.body)
    findings = robots.lint(file)
    if as_json:
        echo_json(_object(known, findings))
    else:
        _show(known, file, findings)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise SystemExit(FAILED)


def _fetched(config: Config, url: str) -> Known:
    from crawler.cli.robots.fetch import fetch, origin_to_ask  # loads what the network needs

    origin = origin_to_ask(url)
    return fetch(config, [origin])[origin]


def _counts(findings: tuple[Finding, ...]) -> dict[Severity, int]:
    counted = Counter(finding.severity for finding in findings)
    return {severity: counted[severity] for severity in Severity}


def _object(known: Known, findings: tuple[Finding, ...]) -> dict[str, object]:
    counts = _counts(findings)
    return {
        "robots": known.where,
        "status": known.access.status if known.fetched else None,
        "errors": counts[Severity.ERROR],
        "warnings": counts[Severity.WARNING],
        "notes": counts[Severity.NOTE],
        "findings": [
            {
                "line": finding.line,
                "severity": str(finding.severity),
                "code": finding.code,
                "why": finding.why,
            }
            for finding in findings
        ],
    }


def _without_file(known: Known, *, as_json: bool) -> int:
    """There is nothing to lint: no fault if there is no such file, a failure if nobody knows."""
    status = known.access.status
    absent = known.access.unreachable_since is None and status is not None
    if as_json:
        error = None if absent else known.error or known.access.error or "no answer"
        echo_json({**_object(known, ()), "error": error})
    elif absent:
        echo(f"{plain(known.where)}: there is none (status {status}): nothing to find")
    else:
        why = known.error or known.access.error or "no answer"
        tell(f"{plain(known.where)}: cannot be had: {plain(why)}")
    return 0 if absent else FAILED


def _show(known: Known, file: RobotsFile, findings: tuple[Finding, ...]) -> None:
    """As compilers print it: one finding a line; on a terminal with the line it is about."""
    console = screen.console(soft_wrap=True)
    where = "standard input" if known.where == "-" else plain(known.where)
    width = console.width if console.is_terminal else None
    before: int | None = None
    for finding in findings:
        if width and finding.line and finding.line != before:
            text = plain(file.lines[finding.line - 1].text.lstrip("\ufeff").expandtabs(4))
            quoted = Text.assemble((f"{finding.line:>6} │ ", "dim"), text[:LINE_CHARS_MAX])
            quoted.truncate(width, overflow="ellipsis")
            if before is not None:
                console.print()
            console.print(quoted)
        before = finding.line
        severity = (str(finding.severity), _STYLES[finding.severity])
        if width is None:
            place = f"{where}:{finding.line}" if finding.line else where
            console.print(
                Text.assemble(f"{place}: ", severity, f": {plain(finding.why)} [{finding.code}]")
            )
            continue
        label = Text.assemble("  " if finding.line is None else " " * 9, severity)
        why = Text.assemble(plain(finding.why), (f" [{finding.code}]", "dim"))
        _wrapped(console, label, why, indent=18, width=width)
    if findings and width:
        console.print()
    console.print(Text.assemble((f"{where}: ", "bold"), _summary(findings)))


def _wrapped(console: Console, label: Text, text: Text, *, indent: int, width: int) -> None:
    lines = list(text.wrap(console, max(20, width - indent)))
    for number, line in enumerate(lines):
        line.rstrip()
        first = label.copy()
        first.append(" " * max(1, indent - first.cell_len))
        console.print((first if not number else Text(" " * indent)) + line)


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "nothing to find fault with"
    named = [
        f"{count:,} {severity}{'' if count == 1 else 's'}"
        for severity, count in _counts(findings).items()
        if count
    ]
    more = f"; only the first {FINDINGS_MAX:,} are listed" if len(findings) >= FINDINGS_MAX else ""
    return ", ".join(named) + more
