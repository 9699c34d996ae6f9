"""A rich console whose output contains no control characters except those of rich itself."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from crawler.explain.formatting import printable


class Safe:
    """A renderable without the characters that `printable` replaces."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


class _SafeHook:
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Safe(one) for one in renderables]


def safe_console(
    *, file: TextIO | None = None, err: bool = False, soft_wrap: bool = False
) -> Console:
    """A console on standard output, on `file`, or on standard error."""
    console = Console(file=file, stderr=err, highlight=False, soft_wrap=soft_wrap)
    console.push_render_hook(_SafeHook())  # type: ignore[arg-type]
    return console


def print_hanging(console: Console, first: Text, text: Text, *, indent: int) -> None:
    """Print `first`, which is up to `indent` columns wide, and `text`. On a terminal the text is
    wrapped and indented; elsewhere it is one line."""
    lines = [text]
    if console.is_terminal:
        lines = list(text.wrap(console, max(20, console.width - indent)))
    for line in lines:
        line.rstrip()
        console.print(first + line, soft_wrap=True)
        first = Text(" " * indent)
