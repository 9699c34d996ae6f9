"""The arguments of the tools: their types, bounds and JSON schemas."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

URL_CHARS_MAX: Final = 8_192
PART_CHARS: Final = 10_000  # of a page, unless a call asks for more or less
PART_CHARS_MAX: Final = 100_000
WAIT_S_MAX: Final = 300.0

Format = Literal["markdown", "text", "html"]
Url = Annotated[
    str,
    Meta(
        description="An absolute http or https URL.",
        min_length=1,
        max_length=URL_CHARS_MAX,
        examples=["https://example.com/a"],
    ),
]
MaxWait = Annotated[
    float,
    Meta(
        description="Seconds to wait for the site's turn, at most. If the turn comes later, the "
        "call returns immediately and names the time.",
        ge=0,
        le=WAIT_S_MAX,
    ),
]


class FetchArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the tool `fetch`."""

    url: Url
    format: Annotated[
        Format,
        Meta(
            description="markdown: the main text, without navigation (default). text: all visible "
            "text, and the links. html: the source."
        ),
    ] = "markdown"
    start: Annotated[
        int,
        Meta(
            description="The first character to return. A shortened answer names it.",
            ge=0,
            le=2**53,  # beyond any page: no number from outside is unbounded
        ),
    ] = 0
    max_chars: Annotated[
        int, Meta(description="Characters of the page to return.", ge=100, le=PART_CHARS_MAX)
    ] = PART_CHARS
    fresh: Annotated[
        bool,
        Meta(description="Request the page again, even if it was fetched a few minutes ago."),
    ] = False
    max_wait_s: MaxWait | None = None


class UrlArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the tools `may_fetch` and `why`."""

    url: Url
    max_wait_s: MaxWait | None = None


class RobotsArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of the tool `robots`."""

    url: Annotated[
        str,
        Meta(
            description="A URL of the site, such as https://example.com/ or a page whose verdict "
            "you want to see.",
            min_length=1,
            max_length=URL_CHARS_MAX,
        ),
    ]
    max_wait_s: MaxWait | None = None


Arguments = FetchArguments | UrlArguments | RobotsArguments
A = TypeVar("A", FetchArguments, UrlArguments, RobotsArguments)


def schema_of(kind: type[Arguments]) -> dict[str, object]:
    """The JSON schema of a tool's arguments."""
    _, parts = msgspec.json.schema_components([kind])
    found = parts[kind.__name__]
    return {key: value for key, value in found.items() if key not in ("title", "description")}


def read_arguments(kind: type[A], given: dict[str, object] | None) -> A:
    """Convert the arguments of a call. Numbers may be written as strings, as some models do.
    Raises msgspec.ValidationError, which names the argument."""
    return msgspec.convert(given or {}, kind, strict=False)
