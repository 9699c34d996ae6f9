"""Rich, with nothing in its output that a terminal would obey but what rich itself says."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult
from rich.segment import Segment

from crawler.telling.words import printable


class Safe:
    """What is shown, without the characters that `printable` replaces."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


class _Hook:
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [Safe(one) for one in renderables]


def console(*, file: TextIO | None = None, err: bool = False, soft_wrap: bool = False) -> Console:
    """A console on standard output, or on `file` or standard error."""
    made = Console(file=file, stderr=err, highlight=False, soft_wrap=soft_wrap)
    made.push_render_hook(_Hook())  # type: ignore[arg-type]
    return made
