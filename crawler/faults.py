"""Faults of our own while one URL is processed: contained, logged once, named in a reason.

A fault is an exception that no code expected: a bug of ours or of a library, or memory that ran
out. It costs the URL that met it. Errors of the store end a run, because nothing can be recorded
without it.
"""

from __future__ import annotations

import contextlib
import gc
import logging
from pathlib import Path
from types import TracebackType
from typing import Final

from storage.store import StoreError

_log = logging.getLogger("courtly.faults")
_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = tuple(str(_ROOT / name) + "/" for name in ("crawler", "policies", "storage"))


def contained(doing: str, error: Exception) -> str:
    """Log the fault with its traceback, and return its type and place as a sentence.

    Exceptions may quote what they failed on, secrets among it. So the sentence, which is stored and
    shown, leaves their message out. Raises errors that end a run again: those of the store.
    """
    if isinstance(error, StoreError):
        raise error
    sentence = f"{type(error).__name__} {_place(error.__traceback__)}"
    with contextlib.suppress(Exception):  # a log that fails must not end what it reports on
        _log.error("%s failed: %s", doing, sentence, exc_info=error)
    error.__traceback__ = None  # its frames hold the page
    if is_memory(error):
        gc.collect()
    return sentence


def is_memory(error: BaseException) -> bool:
    """Did memory run out? selectolax has an error of its own for a parser that gets none."""
    return isinstance(error, MemoryError) or type(error).__name__ == "SelectolaxError"


def _place(trace: TracebackType | None) -> str:
    """The last line of ours that it passed through."""
    place = "in an unknown place"
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(_OURS):
            place = f"in {name[len(str(_ROOT)) + 1 :]}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
