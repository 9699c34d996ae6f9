"""A robots.txt as `courtly robots` knows it: from a path, standard input, or a polite fetch."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from crawler.telling.tester import Known
from policies.access import Access

FILE_BYTES_MAX = 16_000_000  # more is cut, as most of this is: 500 KiB of a robots.txt are used
STDIN = "-"


def read(file: str) -> Known:
    """A robots.txt from a path or, by `-`, from standard input. Raises UsageError."""
    try:
        if file == STDIN:
            body = sys.stdin.buffer.read(FILE_BYTES_MAX)
        else:
            with Path(file).open("rb") as stream:
                body = stream.read(FILE_BYTES_MAX)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise click.UsageError(f"cannot read {file}: {why}") from None
    now_s = time.time()
    known = Access(status=200, body=body, copy_at=now_s, fetched_at=now_s, expires_at=now_s + 1)
    return Known(where=file, access=known, now_s=now_s, fetched=False)
