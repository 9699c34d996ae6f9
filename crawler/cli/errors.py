"""Every error as a sentence on stderr and an exit code; tracebacks only for those who ask."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

FAILED = 1  # at run time
MISUSED = 2  # bad usage or config
INTERRUPTED = 130


@contextmanager
def sentences() -> Iterator[None]:
    """Turns what goes wrong inside into exit code and sentence. COURTLY_DEBUG=1 lets it through."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        _forget_stdout()
        raise SystemExit(0) from None
    except Exception as error:
        if os.environ.get("COURTLY_DEBUG") == "1":
            raise
        code, lines = _explain(error)
        for line in lines:
            click.echo(line, err=True)
        raise SystemExit(code) from None


def _explain(error: Exception) -> tuple[int, tuple[str, ...]]:
    from crawler.config import ConfigError
    from storage.base import StoreError, StoreRefused

    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, ConfigError):
            return MISUSED, leaf.problems
    for leaf in leaves:
        if isinstance(leaf, StoreError):
            return (MISUSED if isinstance(leaf, StoreRefused) else FAILED), (f"courtly: {leaf}",)
    leaf = leaves[0]
    if isinstance(leaf, OSError):
        return FAILED, (f"courtly: {leaf}",)
    words = f"{type(leaf).__name__}: {leaf}" if str(leaf) else type(leaf).__name__
    sentence = f"courtly: stopped by an error of its own ({words})"
    return FAILED, (f"{sentence}; COURTLY_DEBUG=1 shows where it happened",)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group (a TaskGroup raises groups), or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _forget_stdout() -> None:
    """Whoever read us has left: what is still buffered must not fail again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file
        return
