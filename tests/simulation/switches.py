"""What the program promises but does not keep yet; switched on with the change that does."""

from __future__ import annotations

from typing import Final

RETRY_AFTER_ON_EVERY_STATUS: Final = True  # of pages; of robots.txt it counts on any
CONSENT_ON_EVERY_ANSWER: Final = False  # a noindex that comes with a 304, or with the same body
