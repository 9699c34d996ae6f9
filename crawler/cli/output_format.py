"""The format of a file: as its name says, or as an option says, never one against the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from crawler.explain.formatting import plain

_COMPRESSED = frozenset({".br", ".bz2", ".gz", ".xz", ".zip", ".zst"})


def chosen_format(
    given: str | None, output: Path | None, suffixes: Mapping[str, str], *, default: str
) -> str:
    """Return the format in which to write.

    given: the value of --format. output: the file, or None for standard output. suffixes: the
    format for each suffix of a file name. default: for standard output, and for a name without a
    suffix. Raises UsageError if the name contradicts --format, or has an unknown suffix and there
    is no --format.
    """
    suffix = "" if output is None else output.suffix.lower()
    if not suffix:
        return given or default
    known = ", ".join(suffixes)
    if suffix in _COMPRESSED:
        raise click.UsageError(
            f'--output: the file would not be compressed as the suffix "{suffix}" says: name it '
            f"without that suffix ({known}), or compress standard output"
        )
    implied = suffixes.get(suffix)
    if implied is None and given is None:
        raise click.UsageError(
            f'--output: the suffix "{plain(suffix)}" is none of {known}: choose one of these, or '
            f"name the format with --format ({', '.join(dict.fromkeys(suffixes.values()))})"
        )
    if implied is not None and given not in (None, implied):
        raise click.UsageError(
            f'--format {given}: the suffix "{suffix}" of --output means {implied}'
        )
    return given or implied or default
