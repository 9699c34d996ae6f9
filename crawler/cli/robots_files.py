"""A robots.txt as `courtly robots` knows it: from a path, standard input, or a polite fetch."""

from __future__ import annotations

import dataclasses
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click

from policies import access
from policies.access import Access, RobotsRules, Standing

FILE_BYTES_MAX = 16_000_000  # more is cut, as most of this is: 500 KiB of a robots.txt are used
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one robots.txt."""

    where: str  # a path, "-" or the URL of the robots.txt
    access: Access
    now_s: float  # when: Unix seconds
    fetched: bool
    error: str = ""  # why its host could not be asked

    def standing(self, dialects: tuple[str, ...], rules: RobotsRules) -> Standing:
        """What it means for pages under these dialects; a file given by hand is simply there."""
        if self.fetched:
            rules = dataclasses.replace(rules, dialect=dialects)
        else:
            rules = RobotsRules(dialect=dialects)
        return access.standing(self.access, now_s=self.now_s, rules=rules)


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
