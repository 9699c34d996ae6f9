"""How `courtly robots check` shows a verdict: the deciding line in context, and the dialects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from crawler.cli.robots.sources import name_of
from crawler.cli.safe_console import print_hanging, safe_console
from crawler.config.units import format_duration
from crawler.explain.formatting import plain
from crawler.explain.robots_tester import RobotsTester, UrlVerdict
from policies import robots
from policies.robots import RobotsFile

CONTEXT_LINES = 2  # before and after a deciding line
LINE_CHARS_MAX = 160  # of a line of the file, if the output is not a terminal
LOSERS_SHOWN = 3
GROUPS_SHOWN = 4
_LABEL_CELLS = 12
_DIFFERS = "≠"
_COLOURS = {True: "green", False: "red"}


class VerdictView:
    """Prints verdicts: in colour and wrapped on a terminal, else in whole lines."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or safe_console(soft_wrap=True)
        self._width = self._console.width if self._console.is_terminal else None

    def line(self, text: Text | str = "", *, cut: bool = True) -> None:
        text = Text(text) if isinstance(text, str) else text
        if cut and self._width and text.cell_len > self._width:
            text = text.copy()
            text.truncate(self._width, overflow="ellipsis")
        self._console.print(text, soft_wrap=True)

    def verdict(
        self,
        url: str,
        tester: RobotsTester,
        result: UrlVerdict,
        by_dialect: Mapping[str, UrlVerdict],
    ) -> None:
        """One URL in one dialect, or the strictest of several, and the dialects that differ."""
        self.line(Text(plain(url), style="bold"), cut=False)
        word, _, rest = result.reason.partition(" ")
        self._sentence(Text.assemble((word, _style(result)), f" {plain(rest)}"))
        verdict = result.verdict
        if verdict is not None and tester.file is not None:
            if verdict.line is not None:
                self.line()
                self._context(tester.file, {verdict.line: ""}, verdict.group_lines)
            self.line()
            group = verdict.group
            if group is not None:
                lines = _lines(verdict.group_lines)
                others = _others(verdict.other_groups)
                self._labelled("group", f"`{group}` at {lines}{others}")
            self._labelled("compared as", verdict.compared)
            if verdict.losers:
                self._labelled("also matches", _losers(verdict.losers))
            if (delay_s := verdict.rules.crawl_delay_s) is not None:
                self._labelled("Crawl-delay", format_duration(delay_s))
            source = robots.DIALECTS[result.dialect].source
            self._labelled("relies on", f"{'; '.join(verdict.relied_on)} ({source})")
        else:
            self.line()
        self._labelled("robots.txt", _where(tester))
        self._labelled("dialects", _differing(result, by_dialect))

    def table(
        self, url: str, tester: RobotsTester, by_dialect: Mapping[str, UrlVerdict], reference: str
    ) -> None:
        """One URL in every dialect, highlighting those that differ from `reference`."""
        self.line(Text(plain(url), style="bold"), cut=False)
        base = by_dialect.get(reference) or next(iter(by_dialect.values()))
        rows = [("", "dialect", "verdict", "line", "rule", "group")]
        for name, each in by_dialect.items():
            differs = each.allowed != base.allowed
            rows.append(
                (
                    _DIFFERS if differs else "",
                    name,
                    "allowed" if each.allowed else "disallowed",
                    str(each.line or "-"),
                    each.rule or ("-" if each.verdict else f"none: {each.state}"),
                    (each.verdict.group if each.verdict else None) or "-",
                )
            )
        self._rows(rows, [None, *by_dialect.values()])
        differing = [name for name, each in by_dialect.items() if each.allowed != base.allowed]
        self.line()
        if differing:
            self._sentence(Text(f"{_DIFFERS} differs from {reference}: {_and(differing)}."))
        else:
            self._sentence(Text(f"All {len(by_dialect)} dialects agree."))
        self._deciding_lines(tester, by_dialect)
        self._reasons(by_dialect)
        self.line()
        self._labelled("robots.txt", _where(tester))

    def _rows(self, rows: Sequence[Sequence[str]], results: Sequence[UrlVerdict | None]) -> None:
        widths = [max(map(cell_len, map(plain, column))) for column in zip(*rows, strict=True)]
        for cells, result in zip(rows, results, strict=True):
            text = Text()
            for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
                shown = plain(cell)
                pad = " " * (width - cell_len(shown))
                style = "bold" if result is None else ""
                if result is not None and at == 2:
                    style = _style(result)
                if result is not None and cells[0] and at < 2:
                    style = "bold yellow"
                text.append(pad + shown if at == 3 else shown + pad, style)
                text.append("  ")
            text.rstrip()
            self.line(text)

    def _deciding_lines(self, tester: RobotsTester, by_dialect: Mapping[str, UrlVerdict]) -> None:
        marks: dict[int, list[str]] = {}
        heads: set[int] = set()
        for name, each in by_dialect.items():
            if each.line is not None and each.verdict is not None:
                marks.setdefault(each.line, []).append(name)
                heads.update(each.verdict.group_lines)
        if marks and tester.file is not None:
            self.line()
            names = {
                line: "all dialects" if len(who) == len(by_dialect) else ", ".join(who)
                for line, who in marks.items()
            }
            self._context(tester.file, names, heads)

    def _reasons(self, by_dialect: Mapping[str, UrlVerdict]) -> None:
        """One sentence for all dialects with the same reason and line."""
        self.line()
        alike: dict[tuple[object, ...], list[str]] = {}
        for name, each in by_dialect.items():
            reason = each.reason.replace(name, "")
            key = (each.allowed, each.line, each.state, reason.partition(" Note:")[0])
            alike.setdefault(key, []).append(name)
        for names in alike.values():
            self._labelled(names[0], by_dialect[names[0]].reason)
            if names[1:]:
                self._labelled("", f"The same applies to {_and(names[1:])}.")

    def _context(self, file: RobotsFile, marks: Mapping[int, str], heads: Iterable[int]) -> None:
        """The marked lines, some lines around each, and the nearest start of their group."""
        lines = file.lines
        wanted: set[int] = set()
        heads = sorted(heads)
        for number in marks:
            wanted.update(range(number - CONTEXT_LINES, number + CONTEXT_LINES + 1))
            if before := [head for head in heads if head <= number]:
                wanted.add(before[-1])
        shown = sorted(number for number in wanted if 1 <= number <= len(lines))
        cells = len(str(shown[-1]))
        last = shown[0]
        for number in shown:
            if number > last + 1:
                self.line(Text(f"    {'':>{cells}} ⋮", style="dim"))
            last = number
            here = number in marks
            text = Text.assemble(
                ("  ▸ " if here else "    ", "bold yellow"),
                (f"{number:>{cells}} │ ", "dim"),
                (_shortened(lines[number - 1].text), "bold" if here else ""),
            )
            mark = Text(f"   ◂ {marks[number]}" if here and marks[number] else "", style="yellow")
            if not self._width or text.cell_len + mark.cell_len <= self._width:
                self.line(text + mark)
            else:
                self.line(text)
                if mark:
                    self._sentence(Text(f"◂ {marks[number]}", "yellow"), indent=cells + 7)

    def _sentence(self, text: Text, indent: int = 2, first: Text | None = None) -> None:
        """An indented sentence, wrapped to the width of the terminal."""
        print_hanging(self._console, first or Text(" " * indent), text, indent=indent)

    def _labelled(self, label: str, sentence: str) -> None:
        first = Text(f"  {label:<{_LABEL_CELLS}}  ", style="dim" if label else "")
        self._sentence(Text(plain(sentence)), indent=_LABEL_CELLS + 4, first=first)


def _style(result: UrlVerdict) -> str:
    return f"bold {_COLOURS[result.allowed]}"


def _shortened(text: str) -> str:
    text = plain(text.lstrip("\ufeff").expandtabs(4))
    return text if len(text) <= LINE_CHARS_MAX else text[: LINE_CHARS_MAX - 1] + "…"


def _lines(numbers: Sequence[int]) -> str:
    listed = _and([str(number) for number in numbers[:GROUPS_SHOWN]])
    if len(numbers) > GROUPS_SHOWN:
        listed = f"{', '.join(map(str, numbers[:GROUPS_SHOWN]))} and more"
    return f"line{'' if len(numbers) == 1 else 's'} {listed}"


def _others(groups: Sequence[tuple[int, tuple[str, ...]]]) -> str:
    if not groups:
        return ""
    named = [f"`{', '.join(agents)}` (line {line})" for line, agents in groups[:GROUPS_SHOWN]]
    more = len(groups) - len(named)
    return f"; other groups: {', '.join(named)}{f' and {more:,} more' if more else ''}"


def _losers(rules: Sequence[robots.Rule]) -> str:
    named = [f"line {rule.line}, `{rule.quote}` ({rule.octets} octets)" for rule in rules]
    more = len(named) - LOSERS_SHOWN
    return "; ".join(named[:LOSERS_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")


def _differing(result: UrlVerdict, by_dialect: Mapping[str, UrlVerdict]) -> str:
    """The dialects with another verdict, and the lines that decide it."""
    others = {name: each for name, each in by_dialect.items() if each.allowed != result.allowed}
    if not others:
        return f"all {len(by_dialect)} agree"
    verb = "disallowed" if result.allowed else "allowed"
    named = [f"{name} ({_by(each)})" for name, each in others.items()]
    return f"{verb} by {_and(named)}"


def _by(result: UrlVerdict) -> str:
    if result.line is not None:
        return f"line {result.line}"
    return "no rule" if result.verdict else result.state


def _where(tester: RobotsTester) -> str:
    known = tester.known
    where = name_of(known)
    if not known.fetched or known.access.status is None:
        return where
    return f"{where} (status {known.access.status})"


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
