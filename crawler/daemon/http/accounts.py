"""The tokens of the daemon: who may read, and who may steer."""

from __future__ import annotations

import enum
import hashlib
import hmac
import math
import os
import re
import secrets
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.config import Config, ConfigError
from policies.config_key import one_line
from storage.location import FileLocation
from storage.safe_files import open_exclusive
from storage.secret_sources import SecretError, is_source, read_source

BITS_MIN: Final = 64.0  # of a token that guards an address beyond loopback
DEFAULT: Final = "default"  # the name of `daemon.token`
_GENERATED_BYTES: Final = 24
_TOKEN_FILE_MODE: Final = 0o600
_HOW: Final = "generate one with `openssl rand -hex 32`"
SESSIONS_MAX = 1_000  # the oldest is dropped
SESSIONS_OF_ACCOUNT_MAX = 200  # the oldest of the account is dropped: it cannot end those of others
SESSION_S = 12 * 3600.0  # a working day; then the token is required again


class Role(enum.StrEnum):
    """What a token permits."""

    READ = "read"  # every page and query
    STEER = "steer"  # commands as well


class Account(Struct, frozen=True):
    """A token, by its hash."""

    name: str
    role: Role
    digest: bytes

    @property
    def can_steer(self) -> bool:
        return self.role is Role.STEER


LOCAL: Final = Account("local", Role.STEER, b"")  # where no token is needed


def account(name: str, token: str, role: Role = Role.STEER) -> Account:
    return Account(name, role, digest_of(token))


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def matching(accounts: Sequence[Account], given: str) -> Account | None:
    """The account of a token. Takes the same time whether and where it is found."""
    found, digest = None, digest_of(given)
    for one in accounts:
        if hmac.compare_digest(one.digest, digest):
            found = one
    return found


class Token(Struct, frozen=True):
    """A token as it was read."""

    name: str
    role: Role
    text: str


def accounts_of(tokens: Iterable[Token]) -> tuple[Account, ...]:
    """The accounts of tokens, which do not hold them."""
    return tuple(account(one.name, one.text, one.role) for one in tokens)


def read_tokens(config: Config) -> tuple[Token, ...]:
    """Read the tokens of the config; where one is needed and none is given, the one generated at
    the first start. () if none is needed. Raises ConfigError."""
    section, place = config.daemon, config.given.place
    sources = [(DEFAULT, section.token, Role.STEER, "daemon.token")] if section.token else []
    sources += [(name, one, Role.STEER, "daemon.tokens") for name, one in section.tokens.items()]
    sources += [
        (name, one, Role.READ, "daemon.read_tokens") for name, one in section.read_tokens.items()
    ]
    beyond_loopback = section.is_beyond_loopback
    found: dict[str, Token] = {}
    for name, source, role, key in sources:
        try:
            token = _read(source)
        except SecretError as error:
            raise ConfigError(f"{place(key)}: {key}: {error}") from None
        if beyond_loopback and (why := weakness(token)):
            raise ConfigError(f"{place(key)}: {key}: the token “{name}” {why}; {_HOW}")
        if token in found:
            other = found[token].name
            raise ConfigError(f"{place(key)}: {key}: “{name}” and “{other}” are the same token")
        found[token] = Token(name, role, token)
    if not found and beyond_loopback:
        return (Token(DEFAULT, Role.STEER, _generated(token_file(config))),)
    return tuple(found.values())


def _read(source: str) -> str:
    if not is_source(source):
        return source
    text, what = read_source(source)
    try:
        token = one_line(text).strip()
    except ValueError:
        token = ""
    if not token or not token.isascii():
        raise SecretError(f"{what} must hold a token on a single line, in ASCII")
    return token


def weakness(token: str) -> str:
    """Return why a token is too easy to guess; "" if it is not."""
    if len(token) < 16:
        return "is shorter than 16 characters"
    counts = Counter(token).values()
    per_char = -sum(one / len(token) * math.log2(one / len(token)) for one in counts)
    repeated = re.fullmatch(r"(.{1,8})\1+", token)
    if repeated or per_char * len(token) < BITS_MIN / 2 * 1.2:
        return "repeats itself too often"
    return ""


def token_file(config: Config) -> Path:
    """Return where a generated token is kept: beside the database. The config has checked that this
    is a file."""
    location = config.storage.location
    assert isinstance(location, FileLocation)
    return location.path.with_name(location.path.name + ".token")


def _generated(path: Path) -> str:
    """The token in the file, which is created if it does not exist. Raises ConfigError."""
    try:
        try:
            with os.fdopen(open_exclusive(path, _TOKEN_FILE_MODE), "w", encoding="ascii") as file:
                file.write(secrets.token_urlsafe(_GENERATED_BYTES) + "\n")
        except FileExistsError:
            pass
        token = _read(f"file:{path}")
    except OSError as error:
        raise ConfigError(f"the token cannot be kept in {path}: {error.strerror}") from None
    except SecretError as error:
        raise ConfigError(str(error)) from None
    if why := weakness(token):
        raise ConfigError(f"the token in {path} {why}; remove the file to have another generated")
    return token


class Sessions:
    """Browser sessions, in memory only: one ends at logout, after SESSION_S or with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By the hashes of their names.
        self._open: OrderedDict[bytes, tuple[float, Account]] = OrderedDict()

    def open(self, account: Account) -> str:
        """Open a session and return its name, which is random."""
        own = [key for key, (_, whose) in self._open.items() if whose.name == account.name]
        if len(own) >= SESSIONS_OF_ACCOUNT_MAX:
            del self._open[own[0]]
        while len(self._open) >= SESSIONS_MAX:
            self._open.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._open[digest_of(name)] = self._clock.monotonic() + SESSION_S, account
        return name

    def account(self, name: str) -> Account | None:
        """Return the account of a session; None if it has ended."""
        key = digest_of(name)
        found = self._open.get(key)
        if found is None:
            return None
        ends_s, account = found
        if self._clock.monotonic() >= ends_s:
            del self._open[key]
            return None
        return account

    def close(self, name: str) -> None:
        self._open.pop(digest_of(name), None)
