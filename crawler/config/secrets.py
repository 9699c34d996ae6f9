"""Credentials, and everything that keeps secrets out of output.

The config names the origin that credentials are for and where they are stored, never their value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from policies.config_key import one_line
from policies.url import SeedError, origin_of, parse_seed, path_of
from storage.secret_sources import SecretError, is_source, read_source, rooted_source

HIDDEN: Final = "…"
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*)\Z", re.IGNORECASE)  # RFC 6750 section 2.1
_TOKEN_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}\Z")
_LONG = 6  # shorter strings ("file:") may be part of our own words: hidden only in quotes
# A password may contain "@", "/" or spaces that should have been escaped: everything up to the last
# "@", however that is spelled.
_IN_SENTENCE = re.compile(r"(?<=//).*(?:@|%40|\uff20)", re.IGNORECASE | re.DOTALL)
_IN_PROXY = re.compile(r"(https?://)?.*(?:@|%40|\uff20)", re.IGNORECASE | re.DOTALL)
_AUTHORIZATION = re.compile(r"\b(bearer|basic|digest|negotiate)(?:\s|%20|\+)+\S+", re.IGNORECASE)


# ---------------------------------------------------------------- output without secrets


def hidden(value: str) -> str:
    """Return a mark in place of a secret; "" if there is none."""
    return value and HIDDEN


def hidden_values(table: Mapping[str, str]) -> Mapping[str, str]:
    """Return a table with its values hidden."""
    return dict.fromkeys(table, HIDDEN)


def sources(table: Mapping[str, str]) -> Mapping[str, str]:
    """Return a table of credentials as it is: it holds only the places where the secrets are."""
    return table


def redact_proxy(url: str | None) -> str | None:
    """Return the URL of a proxy without name and password."""
    return url and _IN_PROXY.sub(rf"\g<1>{HIDDEN}@", url, count=1)


def redact(sentence: str, value: object = None) -> str:
    """Return a sentence without the credentials in its URLs and Authorization headers.

    value: a secret; every string in it is hidden as well.
    """
    for one in sorted(_strings(value), key=len, reverse=True):
        sentence = sentence.replace(f'"{one}"', HIDDEN).replace(f"'{one}'", HIDDEN)
        if len(one) >= _LONG:
            sentence = sentence.replace(one, HIDDEN)
    sentence = _IN_SENTENCE.sub(f"{HIDDEN}@", sentence)
    return _AUTHORIZATION.sub(rf"\1 {HIDDEN}", sentence)


def _strings(value: object) -> Iterator[str]:
    """The strings in a value, as they are and as Python prints them."""
    match value:
        case str():
            yield from (value, repr(value)[1:-1])
        case Mapping() | list() | tuple():
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from _strings(each)


# ---------------------------------------------------------------- credentials


def credential(name: str, source: str) -> tuple[str, str]:
    """Return an origin and the source of its credentials, `env:NAME` or `file:PATH`.

    Raises ValueError without the source: it may be the secret itself, written in the wrong place.
    """
    origin = origin_in(name)
    if origin is None:
        raise ValueError('credentials are for an origin, such as "https://example.org"')
    if not is_source(source):
        raise ValueError(f'for {origin}: must be "env:NAME" or "file:PATH", not the secret itself')
    return origin, source


def origin_in(text: str) -> str | None:
    """Return the origin that a string names without anything else; None if it names none."""
    try:
        url = parse_seed(text)
    except SeedError:
        return None
    return origin_of(url) if path_of(url) == "/" and "@" not in text and "#" not in text else None


def _is_one_line(text: str) -> bool:
    try:
        return bool(one_line(text).strip())
    except ValueError:
        return False


def rooted_sources(table: Mapping[str, str], base: Path) -> Mapping[str, str]:
    """Return a table of credentials whose files have absolute paths."""
    return {origin: rooted_source(source, base) for origin, source in table.items()}


def authorization(source: str) -> str:
    """Return the Authorization header for a source: `Bearer TOKEN` as it is (RFC 6750), and
    `user:password` as Basic (RFC 7617). Raises SecretError."""
    text, what = read_source(source)
    if found := _BEARER.match(text):
        return f"Bearer {found[1]}"
    if ":" not in text.lstrip(":") or not _is_one_line(text):
        raise SecretError(f'{what} must hold "user:password" or "Bearer TOKEN" on a single line')
    return "Basic " + base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


# ---------------------------------------------------------------- tokens of the daemon


def named_token(name: str, source: str) -> tuple[str, str]:
    """Return the name of a token, and its source. Raises ValueError without the source."""
    if not _TOKEN_NAME.match(name):
        raise ValueError('names of tokens have up to 32 letters, digits, "-" and "_"')
    if not is_source(source):
        raise ValueError(f'for {name}: must be "env:NAME" or "file:PATH", not the token itself')
    return name, source


def shown_token(token: str) -> str:
    """Return the source of a token as it is, and a mark in place of a token."""
    return token if is_source(token) else hidden(token)


# ---------------------------------------------------------------- the password of the database


def password_source(text: str) -> str:
    """Return the source of a password. Raises ValueError without it: it may be the password."""
    if not is_source(text):
        raise ValueError('must be "env:NAME" or "file:PATH", not the password itself')
    return text


def shown_source(source: str) -> str:
    """Return a source as it is: it holds only the place where the secret is."""
    return source
