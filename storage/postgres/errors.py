"""Errors of asyncpg, of the server and of the network, in words for the operator."""

from __future__ import annotations

import os
import re
import socket
import ssl
from typing import Final

from asyncpg import (
    ClientConfigurationError,
    InterfaceError,
    InternalClientError,
    PostgresError,
)
from asyncpg.exceptions import TargetServerAttributeNotMatched

from storage.location import ServerLocation
from storage.secret_sources import SecretError
from storage.store_errors import StoreError, StoreRefused
from storage.transient_faults import FaultKind, kind_of

VERSION_MIN: Final = 15

# Classes and codes of the appendix "PostgreSQL Error Codes"; a longer prefix wins.
_FAULTS: Final = {
    "08": FaultKind.UNREACHABLE,  # the connection was lost
    "25006": FaultKind.UNREACHABLE,  # read-only: another server has taken over
    "25P03": FaultKind.UNREACHABLE,  # a timeout while the connection was idle
    "40": FaultKind.LOCKED,  # deadlocks, serialization failures
    "53": FaultKind.IO,  # other resources
    "53100": FaultKind.NO_SPACE,
    "53200": FaultKind.MEMORY,
    "53300": FaultKind.UNREACHABLE,  # too many connections
    "55P03": FaultKind.LOCKED,
    "57014": FaultKind.LOCKED,  # a statement timeout
    "57P": FaultKind.UNREACHABLE,  # shutdown, crash, recovery
    "57P04": None,  # the database was dropped
    "58030": FaultKind.IO,
}
_LASTING_PROTOCOL: Final = "08P01"  # such as a setting that a connection pooler does not know
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")


def fault_kind_of(error: BaseException) -> FaultKind | None:
    """Return the kind of fault that made a call fail; None if it will not pass."""
    if isinstance(error, PostgresError):
        code = error.sqlstate or ""
        if code == _LASTING_PROTOCOL:
            return None
        found = [prefix for prefix in _FAULTS if code.startswith(prefix)]
        return _FAULTS[max(found, key=len)] if found else None
    if isinstance(error, ssl.SSLCertVerificationError):
        return None
    if isinstance(error, InternalClientError):  # raised while a connection is being lost
        return FaultKind.UNREACHABLE
    if isinstance(error, OSError | MemoryError):  # OSError: TimeoutError, too
        kind = kind_of(error)
        return kind if kind in _OWN else FaultKind.UNREACHABLE
    if isinstance(error, TargetServerAttributeNotMatched):
        return FaultKind.UNREACHABLE
    if isinstance(error, InterfaceError) and "closed" in str(error):
        return FaultKind.UNREACHABLE
    return None


_OWN: Final = (FaultKind.MEMORY, FaultKind.DESCRIPTORS)  # of this machine


def refusal_of(error: BaseException, location: ServerLocation) -> StoreRefused | None:
    """Return the refusal for an error while a database was opened; None if waiting may help.

    Once a database is open, only `fault_kind_of` decides.
    """
    if isinstance(error, SecretError):
        return StoreRefused(f"the password for {location} cannot be read: {error}")
    kind = fault_kind_of(error)
    if kind is None or isinstance(error, OSError | TargetServerAttributeNotMatched):
        return None if kind in _OWN else _refusal(error, location)
    return None


def _refusal(error: BaseException, location: ServerLocation) -> StoreRefused | None:
    code = error.sqlstate if isinstance(error, PostgresError) else None
    if code == "42501":
        return StoreRefused(
            f"the user of {location} lacks a privilege: {words_of(error)}; make it the owner of the"
            " database, or of the schema in search_path"
        )
    if code is not None and not code.startswith(("08", "22", "28", "3D", "42")):
        return None
    if code is None and not isinstance(
        error, OSError | ClientConfigurationError | TargetServerAttributeNotMatched
    ):
        return None
    return StoreRefused(f"cannot connect to {location}: {_why(error, location)}")


def _why(error: BaseException, location: ServerLocation) -> str:
    """Return why no connection was made, with advice where there is any."""
    words = words_of(error)
    code = error.sqlstate if isinstance(error, PostgresError) else None
    if code == "28P01":
        given = "the one" if location.password else "PGPASSWORD, storage.password or ~/.pgpass"
        source = f" from {location.password}" if location.password else ""
        return f"{words}; check {given}{source}"
    if code == "3D000":
        return f"{words}; create it with `createdb`"
    if isinstance(error, ConnectionRefusedError) or "refused" in words.lower():
        return f"{words}; is the server running, and does it listen there?"
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, FileNotFoundError):
        files = [name for name in _FILES if location.parameter(name)]
        if files and any(not host.startswith("/") for host, _ in location.hosts):
            return f"a file does not exist: the one in {' or '.join(files)}"
        return "there is no such socket; is the server running?"
    if "rejected SSL upgrade" in words:
        return f"the server does not offer TLS, which sslmode={location.parameter('sslmode')} needs"
    if isinstance(error, TargetServerAttributeNotMatched):
        wanted = location.parameter("target_session_attrs")
        return f"no server has the property target_session_attrs={wanted}"
    return words


def words_of(error: BaseException) -> str:
    """Describe the cause of an error, for use after a colon: one line, without a final stop."""
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of the server is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return (error.strerror or str(error)).lower()
    if isinstance(error, OSError):
        return _system_words(error)
    if isinstance(error, PostgresError) and error.args:
        return str(error.args[0]).strip().partition("\n")[0].rstrip(".")
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def _system_words(error: OSError) -> str:
    """The message of the system: asyncio's lists all addresses, or says "Connect call failed"."""
    number = error.errno
    if number is None and (found := _ERRNO.search(str(error))):
        number = int(found[1])
    if number is not None and number > 0:
        return os.strerror(number).lower()
    return str(error).strip().partition("\n")[0] or "the connection failed"


def failure_of(error: BaseException, location: ServerLocation) -> StoreError:
    """Return what to raise for an error that will not pass, in an open database."""
    return StoreError(f"the database {location} cannot be used: {words_of(error)}")


# ---------------------------------------------------------------- what is found in a database


def too_old(location: ServerLocation, version: str) -> StoreRefused:
    """The server is older than VERSION_MIN. version: as the server shows it."""
    return StoreRefused(
        f"{location} is on PostgreSQL {version}; courtly needs {VERSION_MIN} or newer"
    )


def not_utf8(location: ServerLocation, encoding: str) -> StoreRefused:
    """The database has another encoding."""
    return StoreRefused(
        f"{location} has the encoding {encoding}; courtly needs UTF8: create another database with"
        " `createdb --encoding=UTF8 --template=template0`"
    )


def not_ours(location: ServerLocation, tables: int) -> StoreRefused:
    """The schema has tables, but no crawl."""
    return StoreRefused(
        f"{location} holds {tables} {'table' if tables == 1 else 'tables'} that are not courtly's:"
        " use a database of its own, or a schema of its own with ?search_path=NAME"
    )


def no_schema(location: ServerLocation) -> StoreRefused:
    """No schema of search_path exists."""
    path = location.parameter("search_path") or "public"
    return StoreRefused(
        f"{location} has no schema {path}: create it with `CREATE SCHEMA`, or name another one"
    )


def no_crawl(location: ServerLocation) -> StoreRefused:
    """The schema is empty, and a command wants to read."""
    return StoreRefused(f"there is no crawl in {location}: create it with `courtly crawl`")


def newer_schema(location: ServerLocation, found: int, known: int) -> StoreRefused:
    """A newer version made the tables."""
    return StoreRefused(
        f"{location} was made by a newer courtly (its schema is {found}, this one knows {known})"
    )


def older_schema(location: ServerLocation, found: int, known: int) -> StoreRefused:
    """An older version made the tables, and a command wants to read."""
    return StoreRefused(
        f"{location} was made by an older courtly (its schema is {found}, this one reads {known}):"
        " a crawl brings it up to date"
    )


def read_only(location: ServerLocation, *, replica: bool) -> StoreRefused:
    """The server accepts no changes. replica: because it follows another server."""
    if replica:
        why = "is a replica, which accepts no changes: name the primary server, or several hosts"
        return StoreRefused(f"{location} {why} with ?target_session_attrs=read-write")
    return StoreRefused(
        f"{location} accepts no changes: default_transaction_read_only is on for this user,"
        " database or server"
    )


def unfinished_copy(location: ServerLocation) -> StoreRefused:
    """`courtly db copy` was interrupted."""
    return StoreRefused(
        f"{location} is an incomplete copy: run the same `courtly db copy` again to complete it"
    )
