"""All that the commands print: sentences folded for a terminal, and nothing that one would obey."""

from __future__ import annotations

import codecs
import io
import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

import click

from crawler.telling.words import json_printable, printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


def width(*, err: bool = False) -> int | None:
    """Columns of the terminal that stdout (or stderr) is; None where it is none: nothing is folded
    that a program may read."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        return None
    return max(20, shutil.get_terminal_size().columns)


def wrapped(text: str, columns: int | None, *, hang: int = 2) -> str:
    """Each line folded between words to so many columns, what follows indented by `hang` more than
    its beginning. URLs stay whole, and so does a command at the end of a line (`: courtly …`), on a
    line of its own: they are there to be copied."""
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
    """Print sentences, folded where somebody looks at them."""
    echo(wrapped(text, width(err=err), hang=hang), err=err)


def echo(
    text: str = "", *, err: bool = False, bold: bool = False, file: TextIO | None = None
) -> None:
    """Print lines for people. Whatever is in them, no terminal obeys it."""
    text = printable(text)
    stream = file or (sys.stderr if err else sys.stdout)  # click itself writes UTF-8 for ASCII
    if stream is not None:
        click.echo(click.style(text, bold=True) if bold else text, file=stream)


def echo_json(value: object, *, readable: bool = False, indent: int | None = None) -> None:
    """Print a value as JSON. readable: characters beyond ASCII stand as they are, where standard
    output can show them."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not (readable and unicode), indent=indent, default=str)
    if sys.stdout is not None:
        click.echo(json_printable(text), file=sys.stdout)


def write_out(text: str) -> None:
    """Write a piece of a document to standard output: as it is, but for a terminal. Raises
    OSError."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def bytes_out() -> BinaryIO:
    """Standard output for bytes: as they are, but for a terminal, which gets them as text."""
    if not sys.stdout.isatty():
        return sys.stdout.buffer
    return cast("BinaryIO", io.BufferedWriter(_Terminal(), 8_192))


class _Terminal(io.RawIOBase):
    """Bytes to text that a terminal may show; what is no UTF-8 becomes U+FFFD."""

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
