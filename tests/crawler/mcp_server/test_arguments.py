"""Every number that a model may give has a range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from crawler.mcp_server.arguments import (
    Arguments,
    FetchArguments,
    RobotsArguments,
    UrlArguments,
    read_arguments,
    schema_of,
)
from tests.tables import each

KINDS = (FetchArguments, RobotsArguments, UrlArguments)


def numbers(part: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The numbers of a JSON schema, each with the name of its argument."""
    if isinstance(part, dict):
        if part.get("type") in ("integer", "number"):
            yield name, part
        for key, value in part.items():
            yield from numbers(value, key if key not in ("anyOf", "properties") else name)
    elif isinstance(part, list):
        for value in part:
            yield from numbers(value, name)


@each("kind", KINDS)
def test_every_number_has_a_range(kind: type[Arguments]) -> None:
    found = list(numbers(schema_of(kind)))
    assert found
    for name, part in found:
        assert "minimum" in part, name
        assert "maximum" in part, name
        for value in (10**20, -(10**20), "9" * 20, "-1", "nan", "1e999", "٣"):
            with pytest.raises(msgspec.ValidationError):
                read_arguments(kind, {"url": "http://a.test/", name: value})  # type: ignore[type-var]
