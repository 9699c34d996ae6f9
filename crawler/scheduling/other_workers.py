"""The other workers that share a crawl, as the latest pulse reports them."""

from __future__ import annotations

import math

from msgspec import Struct


class OtherWorkers(Struct, kw_only=True):
    """Changed by `SharedCrawl` only. shared: whether there can be any."""

    shared: bool
    active: int = 0  # not idle
    hungry: int = 0  # could use more hosts
    # When the latest pulse that was answered was asked for (monotonic).
    asked_s: float = -math.inf
