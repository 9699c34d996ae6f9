"""Logging to standard error: one line per message, without characters that a terminal interprets.

Messages quote URLs, and errors of libraries may quote anything that a site sent.
"""

from __future__ import annotations

import logging

from crawler.explain.formatting import printable
from crawler.explain.site_text import for_log


class SafeFormatter(logging.Formatter):
    """Formats a record as `for_log` does. The lines of a traceback stay lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides
        return for_log(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


def make_last_resort_safe() -> None:
    """Format so what Python prints where no handler is configured: warnings of a crawl."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter("%(message)s"))
