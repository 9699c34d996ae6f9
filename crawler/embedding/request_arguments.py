"""The arguments of a request: checked before anything waits, so that none of them can reach a host
malformed or count as the host's failure."""

from __future__ import annotations

import json as json_module
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Self, TypedDict, Unpack
from urllib.parse import urlencode

from aiohttp import ClientRequest
from aiohttp.payload import Payload
from msgspec import Meta, Struct, structs
from yarl import URL

from crawler.embedding.caller_verdicts import canonical_url
from crawler.errors import InvalidRequest
from crawler.operator_commands import Json, Number
from policies.header_field import field_value, is_of_connection, is_refused_method, is_token
from policies.url import host_of

Scalar = str | int | float
# Values of a query or a form. A name with several values has a sequence, or occurs several times.
Fields = Mapping[str, Scalar | Sequence[Scalar]] | Sequence[tuple[str, Scalar]]
Body = bytes | bytearray | memoryview

WAIT_S_MAX: Final = 30 * 86_400.0  # to another process: it counts as no limit
Url = Annotated[str, Meta(min_length=1, max_length=20_000)]
Wait = Annotated[float, Meta(ge=0, le=WAIT_S_MAX)]

_FORM: Final = "application/x-www-form-urlencoded"
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
SHOWN_CHARS: Final = 80  # of a value in a message


class RequestOptions(TypedDict, total=False):
    """The keyword arguments of `PoliteSession.fetch` but for the method."""

    params: Fields | str | None
    headers: Mapping[str, str] | None
    json: Any
    data: Fields | str | Body | None
    body: Body | None
    follow: bool
    retry: bool
    timeout_s: float | None
    max_wait_s: float | None


class PermitArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a permit, and of every request. Unknown keys are refused: a misspelt key
    must not mean its default. max_wait_s: of all waits together; None: no limit."""

    url: Url
    method: str = "GET"
    max_wait_s: Wait | None = None

    def checked(self) -> Self:
        """Return them with the canonical URL and the method in upper case. Raises InvalidURL and
        InvalidRequest."""
        return structs.replace(
            self,
            url=canonical_url(self.url),
            method=check_method(self.method),
            max_wait_s=_seconds("max_wait_s", self.max_wait_s, zero_ok=True),
        )


class RequestArguments(PermitArguments, frozen=True, kw_only=True):
    """The arguments of a request, as they cross to another process: in JSON, `body` is in base64.
    At most one of body, json and text is sent. timeout_s: None for `fetch.timeout`. headers and
    body may hold secrets."""

    headers: dict[str, str] = {}
    body: bytes | None = None
    json: Json = None
    text: str | None = None
    follow: bool = True
    retry: bool = True
    timeout_s: Number | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method} {self.url})"

    def checked(
        self, params: Fields | str | None = None, data: Fields | str | Body | None = None
    ) -> Self:
        """Return them as they are sent: what goes into the URL is in it, and the body is in bytes,
        with its Content-Type among the headers. params, data: of `PoliteSession.fetch`. Raises
        InvalidURL and InvalidRequest."""
        valid = super().checked()
        for name, value in (("follow", self.follow), ("retry", self.retry)):
            if not isinstance(value, bool):
                raise InvalidRequest(name, f"must be True or False, not {_shown(value)}")
        content, content_type = _content(self.json, self.text if data is None else data, self.body)
        headers = _headers(self.headers)
        if content_type is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = content_type
        return structs.replace(
            valid,
            url=_with_params(valid.url, params),
            headers=headers,
            body=content,
            json=None,
            text=None,
            timeout_s=_seconds("timeout_s", self.timeout_s),
        )


def read_arguments(
    url: str | URL, *, method: str = "GET", **options: Unpack[RequestOptions]
) -> RequestArguments:
    """Check the arguments of a request. Raises InvalidURL and InvalidRequest."""
    given: dict[str, Any] = dict(options)
    params, data = given.pop("params", None), given.pop("data", None)
    return RequestArguments(url=url, method=method, **given).checked(params, data)  # type: ignore[arg-type]


def check_client_request(request: ClientRequest) -> None:
    """Check what aiohttp leaves to its caller: that the headers are well-formed, that Host names
    the host whose robots.txt is obeyed, and that Content-Length is that of the body. Raises
    InvalidRequest."""
    check_method(request.method)
    for name, value in request.headers.items():
        _check_name(name)
        if _CONTROL.search(value.replace("\t", " ")):
            raise InvalidRequest("headers", f'the value of "{name}" must be one line of text')
    host = request.url.host_port_subcomponent
    names = request.headers.getall("Host", [])
    if names != [host] and names != [f"{request.url.host_subcomponent}:{request.url.port}"]:
        raise InvalidRequest("headers", f'"Host" must be that of the URL, {host}')
    lengths = request.headers.getall("Content-Length", [])
    size = request.body.size if isinstance(request.body, Payload) else len(request.body)
    if lengths and (len(lengths) > 1 or (size is not None and lengths[0] != str(size))):
        raise InvalidRequest("headers", f'"Content-Length" must be that of the body, {size}')


def check_method(method: object) -> str:
    """Return it in upper case. Raises InvalidRequest."""
    if not isinstance(method, str) or not is_token(method):
        raise InvalidRequest("method", f"must be a word such as GET, not {_shown(method)}")
    if is_refused_method(method):
        why = "opens a tunnel, which cannot be fetched"
        if method.upper() != "CONNECT":
            why = "returns the request with its credentials, and is refused"
        raise InvalidRequest("method", f"{method.upper()} {why}")
    return method.upper()


def _seconds(argument: str, value: object, *, zero_ok: bool = False) -> float | None:
    """Return a duration, or None. Raises InvalidRequest unless it is positive (or zero, with
    `zero_ok`) and finite."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(argument, f"must be a number of seconds, not {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (0 < number < math.inf or (zero_ok and number == 0)):
        positive = "zero or positive," if zero_ok else "positive"
        raise InvalidRequest(argument, f"must be {positive} and finite, not {_shown(value)}")
    return number


def _check_name(name: object) -> str:
    """Return the name of a header. Raises InvalidRequest, which does not show it: a whole header
    given as a name holds a secret."""
    if not isinstance(name, str):
        raise InvalidRequest("headers", f"a header name must be a string, not {_kind(name)}")
    if not name:
        raise InvalidRequest("headers", "a header name cannot be empty")
    if not is_token(name):
        wrong = next(char for char in name if not is_token(char))
        raise InvalidRequest("headers", f"a header name cannot contain {wrong!a}")
    return name


def _headers(headers: object) -> dict[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidRequest(
            "headers", f"must be a mapping of names to values, not {_kind(headers)}"
        )
    checked: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in headers.items():
        name = _check_name(name)
        lower = name.lower()
        if is_of_connection(name):
            raise InvalidRequest(
                "headers", f'"{name}" cannot be set: it follows from the URL, body and connection'
            )
        if lower == "user-agent":
            raise InvalidRequest(
                "headers",
                f'"{name}" cannot be set for one request: robots.txt is obeyed for the user_agent '
                "of the session",
            )
        if lower in seen:
            raise InvalidRequest("headers", f'"{name}" is given twice')
        seen.add(lower)
        if not isinstance(value, str):  # its value may be a secret, so it is not shown
            raise InvalidRequest(
                "headers", f'the value of "{name}" must be a string, not {_kind(value)}'
            )
        try:
            checked[name] = field_value(value)
        except ValueError as error:
            raise InvalidRequest("headers", f'the value of "{name}" {error}') from None
    return checked


def _content(
    json: Any, data: Fields | str | Body | None, body: Body | None
) -> tuple[bytes | None, str | None]:
    """The body and its type, if the type follows from the argument."""
    given = [
        name
        for name, value in (("body", body), ("json", json), ("data", data))
        if value is not None
    ]
    if len(given) > 1:
        raise InvalidRequest(given[1], f"cannot be combined with {given[0]}=: give one of them")
    if body is not None:
        if not isinstance(body, bytes | bytearray | memoryview):
            raise InvalidRequest("body", f"must be bytes, not {_kind(body)}: use data= for text")
        return bytes(body), None
    if json is not None:
        return _json(json), _JSON
    if data is None:
        return None, None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), None
    if isinstance(data, str):
        return _utf8("data", data), _TEXT
    return _encoded("data", data).encode(), _FORM


def _json(value: Any) -> bytes:
    try:
        text = json_module.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest("json", f"cannot be written as JSON: {error}") from error


def _with_params(url: str, params: Fields | str | None) -> str:
    """The URL with params appended to its query."""
    if params is None:
        return url
    if isinstance(params, str):
        if _CONTROL.search(params):
            raise InvalidRequest("params", "has control characters: write them as in %0A")
        query = params.removeprefix("?").replace("#", "%23").replace(" ", "%20")
        _utf8("params", query)
    else:
        query = _encoded("params", params)
    if not query:
        return url
    mark = "&" if "?" in url else "?"
    complete = canonical_url(f"{url}{mark}{query}")
    assert host_of(complete) == host_of(url)
    return complete


def _encoded(argument: str, fields: Fields) -> str:
    """Names and values as in a form (WHATWG URL, application/x-www-form-urlencoded)."""
    pairs = list(_pairs(argument, fields))
    for name, value in pairs:
        _utf8(argument, name)
        if isinstance(value, str):
            _utf8(argument, value)
    try:
        return urlencode(pairs)
    except ValueError:
        raise InvalidRequest(argument, "has a number with too many digits") from None


def _pairs(argument: str, fields: object) -> Iterator[tuple[str, Scalar]]:
    items: list[Any] = []
    if isinstance(fields, Mapping):
        items = list(fields.items())
    elif isinstance(fields, Sequence) and not isinstance(fields, bytes | bytearray | memoryview):
        items = list(fields)
    else:
        raise InvalidRequest(
            argument, f"must be a mapping, a list of pairs or a string, not {_kind(fields)}"
        )
    for item in items:
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InvalidRequest(argument, f"must hold pairs of name and value, not {_kind(item)}")
        name, value = item
        if not isinstance(name, str):
            raise InvalidRequest(argument, f"the name {_shown(name)} must be a string")
        several = isinstance(value, list | tuple) and isinstance(fields, Mapping)
        for single in value if several else (value,):
            yield name, _scalar(argument, name, single)


def _scalar(argument: str, name: str, value: object) -> Scalar:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        # servers differ in how they write True and None, so there is no safe choice
        raise InvalidRequest(
            argument, f"the value of {name!r} must be a string or a number, not {_kind(value)}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequest(argument, f"the value of {name!r} must be finite, not {value}")
    return value


def _utf8(argument: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            argument, "has a lone surrogate, which cannot be written in UTF-8"
        ) from None


def _shown(value: object) -> str:
    try:
        shown = ascii(value)
    except ValueError:  # an integer with more digits than Python writes
        return _kind(value)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"


def _kind(value: object) -> str:
    """The type of a value that may hold a secret."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
