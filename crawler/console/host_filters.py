"""The filter of the list of hosts: in its address, its form, its downloads and its commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from crawler.steering.queue_waits import PHRASES

STATES: Final = (
    ("all", "any"),
    ("queued", "with queued URLs"),
    ("waiting", "waiting"),
    ("paused", "paused"),
    ("slowed", "slowed"),
    ("backing-off", "backing off"),
    ("failing", "with failures"),
    ("done", "done"),
)
REASONS: Final = (("", "anything"), *((one.value, one.value.replace("-", " ")) for one in PHRASES))
_DEFAULTS: Final = {"search": "", "state": "all", "reason": ""}


def filter_of(query: Mapping[str, object]) -> dict[str, str]:
    """The fields of the filter in a query or form, with their defaults."""
    found = {}
    for name, default in _DEFAULTS.items():
        given = query.get(name)
        found[name] = given.strip() or default if isinstance(given, str) else default
    return found


def is_filtered(fields: Mapping[str, str]) -> bool:
    """Whether a filter leaves out any host."""
    return any(fields[name] != default for name, default in _DEFAULTS.items())


def conditions(fields: Mapping[str, str]) -> dict[str, str]:
    """The arguments of `Operations.hosts` for a filter. A search with `*` is a host pattern."""
    search = fields["search"]
    name = "pattern" if "*" in search else "search"
    return {name: search, "state": fields["state"], "reason": fields["reason"]}
