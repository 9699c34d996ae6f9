"""Standard input, output and error of a command: closed, full, or without a reader."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from typing import TextIO

import click


def require_stdout() -> None:
    """Raise ClickException if standard output is closed: the command would have no effect."""
    if sys.stdout is None:
        raise click.ClickException("standard output is closed, so nothing can be printed")


def prepare() -> None:
    """Make the standard streams safe to use, before a command opens any file."""
    # Descriptors 0 to 2 that are closed get connected to the null device. Otherwise the next files
    # that are opened would take their numbers, and stray messages would be written into them.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    # Under PYTHONUNBUFFERED there is no buffer, and a partial write to a full disk succeeds.
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and isinstance(stdout.buffer, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(stdout.buffer),
            encoding=stdout.encoding,
            errors=stdout.errors,
            write_through=True,
        )
    # Write "?" for characters that the locale cannot represent.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def flush_stdout(*, fsync: bool = False) -> None:
    """Write what standard output has buffered. Raises OSError.

    fsync: if it is a file, wait for the disk. Some file systems report a full disk only then.
    """
    if sys.stdout is None:
        return
    sys.stdout.flush()
    if fsync:
        with contextlib.suppress(io.UnsupportedOperation):  # in tests
            descriptor = sys.stdout.fileno()
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.fsync(descriptor)


def discard_stdout_if_broken() -> None:
    """Flush standard output. If that fails, discard the buffer, so that it does not fail again at
    exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        discard_output(sys.stdout)


def discard_output(*streams: TextIO | None) -> None:
    """Connect these streams, or else standard output and error, to the null device. Otherwise their
    buffers would be written at exit, which would block while nobody reads them."""
    for stream in streams or (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):  # not a real file
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
