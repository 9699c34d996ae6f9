"""Printing: sentences wrapped for the terminal, without control characters from other sources."""

from __future__ import annotations

import codecs
import io
import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

import click

from crawler.explain.formatting import json_printable, printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


def width(*, err: bool = False) -> int | None:
    """The width of the terminal on stdout (or stderr) in columns. None if it is not a terminal:
    output that a program may read is not wrapped."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        return None
    return max(20, shutil.get_terminal_size().columns)


def wrapped(text: str, columns: int | None, *, hang: int = 2) -> str:
    """Wrap each line between words, indenting continuation lines by `hang` columns more.

    URLs are not broken, and neither is a command at the end of a line (`: courtly …`), which gets a
    line of its own: both are meant to be copied.
    """
    if columns is None:
        return text
    return "\n".join(_wrapped(line, columns, hang) for line in text.split("\n"))


def _wrapped(line: str, columns: int, hang: int) -> str:
    if len(line) <= columns:
        return line
    words = line.lstrip(" ")
    indent = " " * (len(line) - len(words))
    words, colon, command = words.partition(": courtly ")
    if colon:
        return (
            f"{_wrapped(f'{indent}{words}:', columns, hang)}\n{indent}{' ' * hang}courtly {command}"
        )
    return textwrap.fill(
        words,
        columns,
        initial_indent=indent,
        subsequent_indent=indent + " " * hang,
        break_long_words=False,
        break_on_hyphens=False,
    )


def say(text: str, *, err: bool = False, hang: int = 2) -> None:
    """Print sentences, wrapped if printed to a terminal."""
    echo(wrapped(text, width(err=err), hang=hang), err=err)


def echo(
    text: str = "", *, err: bool = False, bold: bool = False, file: TextIO | None = None
) -> None:
    """Print lines for people, with control characters replaced."""
    text = printable(text)
    # Given explicitly, because click itself would write UTF-8 in an ASCII locale.
    stream = file or (sys.stderr if err else sys.stdout)
    if stream is not None:
        click.echo(click.style(text, bold=True) if bold else text, file=stream)


def echo_json(value: object, *, readable: bool = False, indent: int | None = None) -> None:
    """Print a value as JSON. readable: do not escape non-ASCII characters if standard output is
    UTF-8."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not (readable and unicode), indent=indent, default=str)
    if sys.stdout is not None:
        click.echo(json_printable(text), file=sys.stdout)


def write_out(text: str) -> None:
    """Write part of a document to standard output, with control characters replaced if that is a
    terminal. Raises OSError."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def bytes_out() -> BinaryIO:
    """Standard output for bytes. If it is a terminal, they are decoded and made printable."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    return cast("BinaryIO", io.BufferedWriter(_TerminalBytes(), 8_192))


class _TerminalBytes(io.RawIOBase):
    """Decodes bytes as UTF-8, replacing invalid ones and control characters by U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        raw = bytes(data)
        text = self._decoder.decode(raw)
        sys.stdout.write(printable(text.replace("\r\n", "\n")))
        return len(raw)

    def flush(self) -> None:
        if not self.closed:
            sys.stdout.flush()


def clock(seconds: float) -> str:
    """Return a duration as `0:07`, `12:34` or `1:02:03`."""
    minutes, seconds_left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"


def rate(pages_per_s: float) -> str:
    return f"{pages_per_s:,.{0 if pages_per_s >= 100 else 1}f} pages/s"
