"""The `[webhook]` section: where changes of the health of a crawl are sent."""

# Without `from __future__ import annotations`: evaluating annotations from strings takes longer.

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from crawler.config.secrets import HIDDEN, hidden
from crawler.config.sections import SectionWithSecrets
from policies.config_key import Key, one_line
from policies.header_field import field_value, is_of_connection, is_token
from storage.secret_sources import is_source, rooted_source

# The checks of health that can be reported (`crawler.daemon.health.CheckName`).
CHECKS: Final = (
    "network", "responses", "urls", "robots.txt", "politeness", "commits", "disk", "workers",
)  # fmt: skip
REPEAT_S_MIN: Final = 60.0  # a receiver is a person, or wakes one
_PLACES: Final = ("env:", "file:")


class WebhookLevel(enum.StrEnum):
    """The state of a check from which on it is reported."""

    WARNING = "warning"
    BAD = "bad"


def _is_http(value: str) -> bool:
    try:
        parts = urlsplit(one_line(value))
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def webhook_url(value: str) -> str:
    """Return a URL, or where one is. Raises ValueError without the value, which may be secret."""
    value = value.strip()
    if not is_source(value) and not _is_http(value):
        raise ValueError('must be an http(s) URL, or where it is: "env:NAME" or "file:PATH"')
    return value


def read_url(text: str) -> str:
    """Return the URL that a source holds. Raises ValueError without the text."""
    text = text.strip()
    if not _is_http(text):
        raise ValueError("must hold an http(s) URL on a single line")
    return text


def http_url(value: str) -> str:
    """Return the URL of a page."""
    if not _is_http(value.strip()):
        raise ValueError('must be an http(s) URL such as "https://crawl.example.com/"')
    return value.strip()


def webhook_header(name: str, value: str) -> tuple[str, str]:
    """Return a header of a notification; its value may be `env:NAME` or `file:PATH`."""
    if not is_token(name):
        raise ValueError(f'"{name}" cannot be a header name')
    if is_of_connection(name) or name.lower() == "content-type":
        raise ValueError(f'the header "{name}" cannot be set here')
    if value.startswith(_PLACES) and not is_source(value):
        raise ValueError(f'for {name}: "env:" and "file:" must be followed by a name')
    return name, field_value(value)


def rooted_headers(table: Mapping[str, str], base: Path) -> Mapping[str, str]:
    """Return headers whose files have absolute paths."""
    return {name: rooted_source(value, base) for name, value in table.items()}


def shown_url(value: str) -> str:
    """Return the source of a URL as it is. Of a URL, only its host is shown: the path of a webhook
    is often its secret."""
    if not value or is_source(value):
        return value
    parts = urlsplit(value)
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}/{HIDDEN}"


def shown_headers(table: Mapping[str, str]) -> Mapping[str, str]:
    """Return headers with the sources of their values, and a mark in place of other values."""
    return {name: value if is_source(value) else hidden(value) for name, value in table.items()}


class WebhookConfig(SectionWithSecrets, frozen=True, kw_only=True):
    """The `[webhook]` section."""

    url: Annotated[
        str,
        Key(
            'POST changes of health to this URL: itself, "env:NAME" or "file:PATH"',
            parse=webhook_url,
            rooted=rooted_source,
            mask=shown_url,
            restart=True,
        ),
    ] = ""
    headers: Annotated[
        Mapping[str, str],
        Key(
            'additional headers: { Authorization = "env:NAME" }; "file:PATH" or a value as well',
            parse=webhook_header,
            rooted=rooted_headers,
            mask=shown_headers,
            restart=True,
        ),
    ] = msgspec.field(default_factory=dict)
    level: Annotated[WebhookLevel, Key("the state of a check that is reported, and worse")] = (
        WebhookLevel.BAD
    )
    checks: Annotated[
        tuple[str, ...], Key("the checks that are reported; empty: all", choices=CHECKS)
    ] = ()
    after_s: Annotated[
        float,
        Key(
            "report what has lasted this long; after this long without it, report that it is over",
            "seconds",
            maximum=86_400,
        ),
    ] = 60.0
    repeat_s: Annotated[
        float,
        Key(
            "report again after this long, while it lasts",
            "seconds",
            minimum=REPEAT_S_MIN,
            inf=True,
        ),
    ] = 4 * 3_600.0
    page_url: Annotated[
        str,
        Key(
            "URL of the daemon's page, for the link; default: with the address it listens on",
            parse=http_url,
        ),
    ] = ""
