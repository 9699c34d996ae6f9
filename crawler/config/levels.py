"""How much the daemon logs."""

from __future__ import annotations

import enum


class LogLevel(enum.StrEnum):
    """How much is logged: what is of a lower level is left out."""

    DEBUG = "debug"  # robots.txt fetches and commits, too
    INFO = "info"  # every outcome of a URL
    WARNING = "warning"  # what failed
    ERROR = "error"  # what needs somebody to look
