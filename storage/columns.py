"""Columns of the views and reports of every store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from policies.robots_state import RobotsState
from storage.sql_source import SHARED, read_script
from storage.url_records import UrlState

CONTACTS_KEPT: Final = 50  # per host, for the timeline and the audit

_VIEW: Final = re.compile(r"CREATE VIEW (\w+) AS\s+SELECT\s(.*?)\nFROM ", re.DOTALL)
_KEYS: Final = frozenset({"id", "place", "target_id"})  # by which a view is read, and not shown


def _columns(selected: str) -> tuple[str, ...]:
    """Return the names of the columns of a view, without its keys."""
    text = re.sub(r"\{[^}]*\}", "", selected)
    while text != (text := re.sub(r"\([^()]*\)", "", text)):
        pass
    names = [re.findall(r"\w+", column)[-1] for column in text.split(",")]
    return tuple(name for name in names if name not in _KEYS)


VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    view: _columns(selected) for view, selected in _VIEW.findall(read_script(SHARED / "views.sql"))
}

SEED_COLUMNS: Final = ("url", "state", "status", "error", "depth", "priority")

# Columns of reports, by kind.
REPORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "broken": ("url", "status", "error", "source", "via", "anchor", "kind"),
    "malformed": ("href", "reason", "source"),
    "dangling": ("url", "fragment", "source", "via"),
    "looked": ("pages", "links", "pointers", "fragments", "requisites"),
    "forbidden": (
        "host", "robots_url", "line", "rule", "reason", "url", "withdrawn", "anchor", "referrer",
    ),
    "duplicates": (
        "body_hash", "url", "status", "body_bytes", "content_type", "title", "canonical_url",
    ),
}  # fmt: skip

STATE_VIEWS: Final[Mapping[UrlState, str]] = {
    UrlState.VISITED: "visited",
    UrlState.BLOCKED: "blocked",
    UrlState.FAILED: "failed",
    UrlState.QUEUED: "queued",
}


def check_view(view: str, host: str | None) -> None:
    """Raise ValueError for an unknown view, and for a host if the rows belong to none."""
    if view not in VIEWS:
        raise ValueError(f"there is no view {view!r}; choose one of {', '.join(VIEWS)}")
    if view == "skipped" and host is not None:
        raise ValueError('the view "skipped" cannot be filtered by host')


def hostname_of(origin: str) -> str:
    """Return the host name in an origin, without the port and the brackets of an IPv6 address."""
    authority = origin[origin.index("//") + 2 :]
    if authority.startswith("["):
        return authority[1 : authority.index("]")]
    return authority.partition(":")[0]


def robots_state(access: RobotsState) -> str:
    """Return the `state` of a row of `robots`, which depends on no dialect.

    `rules`: there is a copy; `stale`: its refresh fails; `unreachable`: no copy, and the last
    attempt failed; `absent`: answered, but without a file; `unknown`: not requested yet.
    """
    if access.body is not None:
        return "stale" if access.failures else "rules"
    if access.failures:
        return "unreachable"
    return "unknown" if access.status is None else "absent"


CLOCKS_APART_S: Final = 0.001  # closer times of a store are equal
