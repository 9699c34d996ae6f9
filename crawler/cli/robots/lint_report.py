"""`courtly robots lint`: the mistakes in a robots.txt, for its owner."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from crawler.cli.exit_codes import FAILED, print_problems
from crawler.cli.robots.sources import fetch, name_of, read
from crawler.cli.safe_console import print_hanging, safe_console
from crawler.cli.text import echo, echo_json
from crawler.config import Config
from crawler.explain.formatting import plain
from crawler.explain.robots_tester import KnownRobots
from policies import robots
from policies.robots import Finding, RobotsFile, Severity
from policies.robots.lint import FINDINGS_MAX

LINE_CHARS_MAX = 160
_INDENT = 18
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.NOTE: "bold blue"}


def lint(config: Config, what: str, *, as_json: bool) -> None:
    """Print the findings. Raises SystemExit(1) if there are errors, or the file could not be
    fetched."""
    known = fetch(config, [what])[0] if "://" in what else read(what)
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


def _counts(findings: tuple[Finding, ...]) -> dict[Severity, int]:
    counted = Counter(finding.severity for finding in findings)
    return {severity: counted[severity] for severity in Severity}


def _object(known: KnownRobots, findings: tuple[Finding, ...]) -> dict[str, object]:
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


def _without_file(known: KnownRobots, *, as_json: bool) -> int:
    """Print why there is no file, and return the exit code: a missing file is no error."""
    status = known.access.status
    absent = known.access.unreachable_since is None and status is not None
    if as_json:
        error = None if absent else known.error or known.access.error or "no answer"
        echo_json({**_object(known, ()), "error": error})
    elif absent:
        echo(f"{plain(known.where)}: does not exist (status {status})")
    else:
        why = known.error or known.access.error or "no answer"
        print_problems(f"{plain(known.where)}: could not be fetched: {plain(why)}")
    return 0 if absent else FAILED


def _show(known: KnownRobots, file: RobotsFile, findings: tuple[Finding, ...]) -> None:
    """One finding per line, as compilers print them; on a terminal with the line of the file."""
    console = safe_console(soft_wrap=True)
    where = plain(name_of(known))
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
        label.append(" " * max(1, _INDENT - label.cell_len))
        why = Text.assemble(plain(finding.why), (f" [{finding.code}]", "dim"))
        print_hanging(console, label, why, indent=_INDENT)
    if findings and width:
        console.print()
    console.print(Text.assemble((f"{where}: ", "bold"), _summary(findings)))


def _summary(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return "no problems found"
    named = [
        f"{count:,} {severity}{'' if count == 1 else 's'}"
        for severity, count in _counts(findings).items()
        if count
    ]
    more = f"; only the first {FINDINGS_MAX:,} are shown" if len(findings) >= FINDINGS_MAX else ""
    return ", ".join(named) + more
