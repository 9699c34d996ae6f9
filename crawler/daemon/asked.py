"""What a request may carry: bodies and queries as strict types, read by msgspec."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from crawler.daemon.answers import LIMIT_DEFAULT, LIMIT_MAX

Text = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not known is refused: a misspelt key must not be taken for its default."""


class Nothing(Strict, frozen=True, kw_only=True):
    """No keys."""


class HostsQuery(Strict, frozen=True, kw_only=True):
    search: Text = ""
    state: Text = "all"
    sort: Text = "host"
    limit: Limit = LIMIT_DEFAULT
    after: Text = ""


class HostQuery(Strict, frozen=True, kw_only=True):
    host: Name


class UrlQuery(Strict, frozen=True, kw_only=True):
    url: Annotated[str, Meta(min_length=1, max_length=20_000)]


class BlockedQuery(Strict, frozen=True, kw_only=True):
    host: Text = ""
    rule: Text = ""
    limit: Limit = LIMIT_DEFAULT
    after: Text = ""


class OriginQuery(Strict, frozen=True, kw_only=True):
    origin: Name


class ConfigQuery(Strict, frozen=True, kw_only=True):
    host: Text = ""


class ReloadQuery(Strict, frozen=True, kw_only=True):
    dry_run: bool = False


class HostBody(Strict, frozen=True, kw_only=True):
    host: Name


class SlowBody(Strict, frozen=True, kw_only=True):
    host: Name
    delay_s: float


class SeedsBody(Strict, frozen=True, kw_only=True):
    urls: list[str]
    priority: float = 0.0


class CheckBody(Strict, frozen=True, kw_only=True):
    urls: list[str]
    robots: str | None = None
    url: str | None = None
    agent: str | list[str] | None = None
    dialect: str | list[str] | None = None
