"""Long sentences, folded for a terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap

import click


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
    click.echo(wrapped(text, width(err=err), hang=hang), err=err)
