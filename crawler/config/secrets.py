"""Credentials: the config says for which origin and where they are; never what they are. And what
may be secret is kept out of everything that is shown."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from crawler.config.readers import ProblemsError
from policies.url import SeedError, origin_of, parse_seed, path_of

SECRET_BYTES_MAX: Final = 16_384
_NAME = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*\Z")
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)\Z", re.IGNORECASE)  # RFC 6750 2.1
HIDDEN: Final = "…"
# Keys whose values are never shown; `robots.token` alone is none of them.
SECRET: Final = frozenset({"headers", "credentials", "proxy", "token"})
_LONG = 6  # shorter strings ("file:") may be parts of our own words: hidden only where quoted
# A password may hold "@", "/" or spaces where it should be escaped: up to the last "@", however
# that is spelled.
_IN_SENTENCE = re.compile(r"(?<=//).*(?:@|%40|\uff20)", re.IGNORECASE | re.DOTALL)
_IN_PROXY = re.compile(r"(https?://)?.*(?:@|%40|\uff20)", re.IGNORECASE | re.DOTALL)
_AUTHORIZATION = re.compile(r"\b(bearer|basic|digest|negotiate)(?:\s|%20|\+)+\S+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def redact_proxy(url: str) -> str:
    """The URL of a proxy without name and password."""
    return _IN_PROXY.sub(rf"\g<1>{HIDDEN}@", url, count=1)


def redact(sentence: str, value: object = None) -> str:
    """A sentence without the credentials that a URL or an Authorization header in it has; nor any
    string of `value`, where that is a secret."""
    for one in sorted(_parts(value), key=len, reverse=True):
        sentence = sentence.replace(f'"{one}"', HIDDEN).replace(f"'{one}'", HIDDEN)
        if len(one) >= _LONG:
            sentence = sentence.replace(one, HIDDEN)
    sentence = _IN_SENTENCE.sub(f"{HIDDEN}@", sentence)
    return _AUTHORIZATION.sub(rf"\1 {HIDDEN}", sentence)


def _parts(value: object) -> Iterator[str]:
    """Strings in it, as they are and as Python would print them."""
    match value:
        case str():
            yield from (value, repr(value)[1:-1])
        case Mapping() | list() | tuple():
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from _parts(each)


class SecretError(Exception):
    """A source that gives no usable credentials. The sentence never shows what it gave."""


def credentials(value: Mapping[str, object]) -> Mapping[str, str]:
    """Origin → `env:NAME` or `file:PATH`. What is wrong is told without the value: it may be the
    secret itself, written where it does not belong."""
    good: dict[str, str] = {}
    wrong: list[tuple[tuple[str | int, ...], str]] = []
    for name, source in value.items():
        if (origin := _origin(name)) is None:
            sentence = 'credentials are for an origin, such as "https://example.org"'
            wrong.append(((name,), sentence))
        elif not isinstance(source, str) or not _is_source(source):
            sentence = f'for {origin}: must be "env:NAME" or "file:PATH", not the secret itself'
            wrong.append(((name,), sentence))
        elif origin in good:
            wrong.append(((name,), f'"{origin}" is given twice'))
        else:
            good[origin] = source
    if wrong:
        raise ProblemsError(*wrong)
    return good


def rooted(value: object, base: Path) -> object:
    """The same with the paths of files whole."""
    assert isinstance(value, Mapping)
    return {
        origin: f"file:{base / source[5:].strip()}" if source.startswith("file:") else source
        for origin, source in value.items()
    }


def authorization(source: str) -> str:
    """The Authorization header that a source stands for: `Bearer TOKEN` as it is (RFC 6750), and
    `user:password` as Basic (RFC 7617). Raises SecretError."""
    kind, _, name = source.partition(":")
    if kind == "env":
        text = os.environ.get(name)
        if text is None:
            raise SecretError(f"the environment variable {name} is not set")
        what = f"the environment variable {name}"
    else:
        text = _file(Path(name))
        what = name
    text = text.strip("\r\n")
    if found := _BEARER.match(text):
        return f"Bearer {found[1]}"
    if ":" not in text.lstrip(":") or _CONTROL.search(text):
        raise SecretError(f'{what} must hold "user:password" or "Bearer TOKEN" in one line')
    return "Basic " + base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(SECRET_BYTES_MAX + 1)
        if len(raw) > SECRET_BYTES_MAX:
            raise SecretError(f"{path} is larger than {SECRET_BYTES_MAX:,} bytes")
        return raw.decode()
    except UnicodeDecodeError:
        raise SecretError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise SecretError(f"{path} cannot be read: {error.strerror}") from None


def _origin(text: str) -> str | None:
    try:
        url = parse_seed(text)
    except SeedError:
        return None
    return origin_of(url) if path_of(url) == "/" and "@" not in text and "#" not in text else None


def _is_source(text: str) -> bool:
    return bool(_NAME.match(text)) or (
        text.startswith("file:") and bool(text[5:].strip()) and not _CONTROL.search(text)
    )
