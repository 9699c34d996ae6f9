"""What a request may carry: bodies and queries as strict types, read by msgspec."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from crawler.config.readers import did_you_mean
from crawler.daemon.answering.answers import LIMIT_DEFAULT, LIMIT_MAX
from crawler.daemon.problem import Problem

Text = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
Names = Name | Annotated[list[str], Meta(min_length=1)]
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


class RetryBody(Strict, frozen=True, kw_only=True):
    host: Name | None = None
    code: Name | None = None


class SeedsBody(Strict, frozen=True, kw_only=True):
    urls: list[str]
    priority: float = 0.0


class CheckBody(Strict, frozen=True, kw_only=True):
    urls: list[str]
    robots: str | None = None
    url: str | None = None
    agent: Names | None = None
    dialect: Names | None = None


Kind = TypeVar("Kind", bound=Strict)

_WORDS = {
    "str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip
_FIELD = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`")


def read_body(raw: bytes, kind: type[Kind]) -> Kind:
    """A JSON body; an empty one is `{}`. Raises Problem: 400 for what is no JSON, else 422 with the
    field's name."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise _problem(str(error), kind) from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, f"the body is not JSON: {why}") from None


def read_query(items: Iterable[tuple[str, str]], kind: type[Kind]) -> Kind:
    """The query of a URL, where `?search=&limit=` is as good as nothing. Raises Problem (422), also
    for a name that comes twice."""
    values: dict[str, str] = {}
    for name, value in items:
        if name in values:
            raise Problem(422, f"{name}: is given twice", field=name)
        values[name] = value
    for name in _may_be_empty(kind):
        if values.get(name) == "":
            del values[name]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _problem(str(error), kind) from None


@cache
def _may_be_empty(kind: type[Strict]) -> Sequence[str]:
    """The fields for which nothing may be given. What says yes or no has to say it: `?dry_run=`
    must not be a reload."""
    fields = msgspec.structs.fields(kind)
    return [one.name for one in fields if not one.required and one.type is not bool]


def _problem(message: str, kind: type[Strict]) -> Problem:
    """msgspec's "Expected `str`, got `int` - at `$.host`" as a sentence about the field."""
    if found := re.match(r"Object (missing required|contains unknown) field `([^`]*)`", message):
        if found[1].startswith("missing"):
            told = "is missing"
        else:
            hint = did_you_mean(found[2], kind.__struct_fields__)
            told = f"there is no such field{hint}"
        return Problem(422, f"{found[2]}: {told}", field=found[2])
    place = _FIELD.search(message)
    field = place[1].replace("[...]", "") if place else ""
    sentence = _FIELD.sub("", message)
    if found := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", sentence):
        expected = " or ".join(_WORDS.get(name, name) for name in found[1].split(" | "))
        sentence = f"expected {expected}, got {_WORDS.get(found[2], found[2])}"
    else:
        sentence = sentence[:1].lower() + sentence[1:]
    whole = f"{field}: {sentence}" if field else f"the body: {sentence}"
    return Problem(422, whole.replace("`", ""), field=field or None)
