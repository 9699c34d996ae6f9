"""Request bodies and query parameters as strict types, decoded by msgspec."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from crawler.config.readers import did_you_mean
from crawler.daemon.api.operations import LIMIT_DEFAULT, LIMIT_MAX
from crawler.daemon.problem import Problem, as_problems, invalid
from crawler.embedding.request_arguments import PermitArguments, RequestArguments, Url
from crawler.operator_commands import InvalidCommandError, Name, Number, Text

Names = Name | Annotated[list[str], Meta(min_length=1)]
# No number from outside is unbounded: where there is no narrower range, operations check it.
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]
PermitTime = Annotated[float, Meta(gt=0, le=600)]
Status = Annotated[int, Meta(ge=100, le=999)]
Limit = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown keys are refused: a misspelt key must not mean its default."""


class NoParams(Strict, frozen=True, kw_only=True):
    """Parameters without keys."""


class HostsParams(Strict, frozen=True, kw_only=True):
    search: Text = ""
    pattern: Text = ""
    state: Text = "all"
    reason: Text = ""
    sort: Text = "host"
    limit: Limit = LIMIT_DEFAULT
    after: Text = ""


class HistoryParams(Strict, frozen=True, kw_only=True):
    """Unix seconds, and the length of a step in seconds."""

    from_: Number | None = field(default=None, name="from")
    to: Number | None = None
    step: Whole | None = None


class HostParams(Strict, frozen=True, kw_only=True):
    host: Name


class UrlParams(Strict, frozen=True, kw_only=True):
    url: Url


class BlockedRulesParams(Strict, frozen=True, kw_only=True):
    host: Text = ""
    rule: Text = ""
    exact: bool = False
    reason: Text = ""
    limit: Limit = LIMIT_DEFAULT


class BlockedParams(BlockedRulesParams, frozen=True, kw_only=True):
    after: Text = ""


class UrlsParams(Strict, frozen=True, kw_only=True):
    """`code` applies to failed URLs, `status` to visited ones."""

    state: Text
    host: Text = ""
    text: Text = ""
    code: Text = ""
    status: Status | None = None
    limit: Limit = LIMIT_DEFAULT
    after: Text = ""


class SeedsParams(Strict, frozen=True, kw_only=True):
    text: Text = ""
    state: Text = ""
    limit: Limit = LIMIT_DEFAULT
    after: Text = ""


class LogParams(Strict, frozen=True, kw_only=True):
    """`level`: the minimum. `event`: a name, or "actions"."""

    level: Text = ""
    event: Text = ""
    text: Text = ""
    limit: Limit = LIMIT_DEFAULT
    after: Text = ""


class OriginParams(Strict, frozen=True, kw_only=True):
    origin: Name


class ConfigParams(Strict, frozen=True, kw_only=True):
    host: Text = ""


class DryRunParams(Strict, frozen=True, kw_only=True):
    dry: bool = field(default=False, name="dry_run")


class CheckBody(Strict, frozen=True, kw_only=True):
    urls: list[str]
    robots: str | None = None
    url: str | None = None
    agent: Names | None = None
    dialect: Names | None = None


class TargetBody(Strict, frozen=True, kw_only=True):
    url: Url


class FetchBody(RequestArguments, frozen=True, kw_only=True):
    """`body` is in base64; at most one of body, json and text is sent. `stream`: pass the body of
    the response on while it arrives, of any size; else it is at most as large as `fetch.max_body`,
    and requested again if it breaks off. `description_bytes` limits the header Courtly-Response:
    many clients accept no longer header than 8 KB."""

    stream: bool = True
    description_bytes: Annotated[int, Meta(ge=1_000, le=1_000_000)] = 8_000


class PermitBody(PermitArguments, frozen=True, kw_only=True):
    """`expires_in_s`: the permit ends after that time, unless it is renewed."""

    expires_in_s: PermitTime = 60.0


class RenewBody(Strict, frozen=True, kw_only=True):
    expires_in_s: PermitTime = 60.0


class PermitEndBody(Strict, frozen=True, kw_only=True):
    """The answer, if there was one: the host backs off after 429 and 503, and for Retry-After."""

    status: Whole | None = None
    headers: dict[str, str] = {}


T = TypeVar("T", bound=Struct)

_WORDS = {
    "str": "a string", "int": "an integer", "float": "a number", "bool": "true or false",
    "array": "an array", "object": "an object", "null": "null",
}  # fmt: skip
_SENTENCES = {"invalid base64 encoded string": "must be base64; use text or json for text"}
_FIELD = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`")


def read_body(raw: bytes, kind: type[T]) -> T:
    """Decode a JSON body; an empty one means `{}`. Raises Problem: 400 for invalid JSON, else 422
    with the name of the field."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except msgspec.ValidationError as error:
        with as_problems():
            if isinstance(error.__cause__, InvalidCommandError):
                raise error.__cause__ from None
        raise _problem(str(error), kind) from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, f"the body is not JSON: {why}") from None


def read_query(items: Iterable[tuple[str, str]], kind: type[T]) -> T:
    """Decode the query of a URL; empty optional parameters (`?search=&limit=`) take their defaults.
    Raises Problem (422), for a repeated name as well."""
    values: dict[str, str] = {}
    for name, value in items:
        if name in values:
            raise invalid(name, "is repeated")
        values[name] = value
    for name in _may_be_empty(kind):
        if values.get(name) == "":
            del values[name]
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _problem(str(error), kind) from None
    except UnicodeEncodeError:
        wrong = next(name for name, value in values.items() if not _is_text(value))
        raise invalid(wrong, "has a lone surrogate, which is no character") from None


def _is_text(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value)


@cache
def _may_be_empty(kind: type[Struct]) -> Sequence[str]:
    """The fields that may be empty. A boolean may not: `?dry_run=` must not reload."""
    fields = msgspec.structs.fields(kind)
    return [one.encode_name for one in fields if not one.required and one.type is not bool]


def _problem(message: str, kind: type[Struct]) -> Problem:
    """msgspec's "Expected `str`, got `int` - at `$.host`" as a sentence about the field."""
    if found := re.match(r"Object (missing required|contains unknown) field `([^`]*)`", message):
        if found[1].startswith("missing"):
            what = "is missing"
        else:
            what = f"unknown field{did_you_mean(found[2], kind.__struct_fields__)}"
        return Problem(422, f"{found[2]}: {what}", field=found[2])
    place = _FIELD.search(message)
    field = place[1].replace("[...]", "") if place else ""
    sentence = _FIELD.sub("", message)
    if found := re.fullmatch(r"Expected `([^`]+)`, got `([^`]+)`", sentence):
        expected = " or ".join(_WORDS.get(name, name) for name in found[1].split(" | "))
        sentence = f"expected {expected}, got {_WORDS.get(found[2], found[2])}"
    else:
        sentence = sentence[:1].lower() + sentence[1:]
        sentence = _SENTENCES.get(sentence, sentence)
    whole = f"{field}: {sentence}" if field else f"the body: {sentence}"
    return Problem(422, whole.replace("`", ""), field=field or None)
