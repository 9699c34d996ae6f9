"""Who sends a request through a gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of requests.

    name: callers of different names take turns at a host. own: whether it is the program that the
    config belongs to, and whose URLs the configured headers are for. Another program uses none of
    the configured credentials unless `fetch.lend_credentials` allows it. wait_s: how long its
    requests wait if they set no limit; None: as long as politeness requires.
    """

    name: str = ""
    own: bool = True
    wait_s: float | None = None


OWN: Final = Caller()
