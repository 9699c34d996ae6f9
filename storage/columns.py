"""Columns of the views and reports of every store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policies.robots_state import RobotsState
from storage.store import UrlState

CONTACTS_KEPT: Final = 50  # per host, for the timeline and the audit

VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    "visited": (
        "url", "status", "fetched_at", "content_type", "body_bytes", "elapsed_s", "depth",
        "referrer", "redirect_url", "title", "indexable", "followable", "archivable",
        "canonical_url", "body_hash", "usage",
        "visits", "checked_at", "changed_at", "next_visit_at", "cut",
    ),
    "blocked": (
        "url", "reason", "dialect", "rule", "line", "robots_url", "blocked_at", "withdrawn",
        "anchor", "referrer",
    ),
    "failed": ("url", "error", "attempts", "last_at"),
    "queued": ("url", "priority", "depth", "due_at", "attempts"),
    "links": ("source", "target", "anchor", "rel", "kind"),
    "malformed": ("source", "href", "reason"),
    "fragments": ("source", "target", "fragment", "found"),
    "hosts": (
        "host", "queued", "visited", "blocked", "failed", "body_bytes", "delay_s", "delay_source",
        "next_at", "paused", "backoff_until", "contacts", "smallest_rest_s", "peak_concurrency",
        "breaches", "slow_s", "latency_s", "connect_failures", "backoff_status", "unproven",
    ),
    "robots": (
        "origin", "host", "state", "status", "fetched_at", "expires_at", "retry_at", "body_bytes",
        "failures", "error", "truncated",
    ),
    "skipped": ("reason", "count"),
    "sitemaps": (
        "url", "kind", "status", "fetched_at", "body_bytes", "urls", "error", "depth", "referrer",
    ),
    "listings": ("url", "lastmod_at", "changefreq", "priority"),
}  # fmt: skip

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
