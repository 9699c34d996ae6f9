"""Internal errors while one URL is processed: contained, logged once and recorded as a reason.

A fault is an unexpected exception: a bug in this package or in a library, or exhausted memory. It
fails only the URL that was being processed. Errors of the store end the run, because nothing can be
recorded without a store.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sysconfig
from pathlib import Path
from types import TracebackType
from typing import Final

from storage.store import StoreError

_log = logging.getLogger("courtly.faults")
_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = tuple(str(_ROOT / name) + "/" for name in ("crawler", "policies", "storage"))
_LIBRARIES: Final = (sysconfig.get_path("stdlib") + "/", "<")  # "<": frozen or generated code
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def contained(doing: str, error: Exception) -> str:
    """Log the fault with its traceback, and return its type and place as a sentence.

    Exception messages may quote the data that caused them, including secrets, so the sentence,
    which is stored and shown, omits them. Re-raises errors of the store, which end a run.
    """
    if isinstance(error, StoreError):
        raise error
    sentence = f"{type(error).__name__} {_place(error.__traceback__)}"
    with contextlib.suppress(Exception):  # a failing log must not end the work it reports on
        _log.error("%s failed: %s", doing, sentence, exc_info=error)
    error.__traceback__ = None  # its frames hold the page
    if is_memory(error):
        gc.collect()
    return sentence


def is_memory(error: BaseException) -> bool:
    """Return whether memory ran out. selectolax raises its own error when it cannot allocate."""
    return isinstance(error, MemoryError) or type(error).__name__ == "SelectolaxError"


def _place(trace: TracebackType | None) -> str:
    """The last line of the caller's program in the traceback, else of this package: an exception
    of a function that the program passed in is to be found there."""
    ours = program = None
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(_OURS):
            ours = f"in {name[len(str(_ROOT)) + 1 :]}, line {trace.tb_lineno}"
        elif not name.startswith(_LIBRARIES) and _INSTALLED.isdisjoint(Path(name).parts):
            program = f"in {Path(name).name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return program or ours or "in an unknown place"
