"""What the program logs for its operators."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


class Log(logging.Handler):
    """Keeps the warnings of the program, instead of printing them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        logger = logging.getLogger("courtly")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)
