"""Errors of asyncpg, of the server and of the network, in words for the operator."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec
from asyncpg import (
    ClientConfigurationError,
    InterfaceError,
    InternalClientError,
    PostgresError,
    ProtocolViolationError,
)
from asyncpg.exceptions import (
    TargetServerAttributeNotMatched,
    UnsupportedClientFeatureError,
    UnsupportedServerFeatureError,
)

from storage.engine.statements import TransactionConflict
from storage.location import ServerLocation
from storage.secret_sources import SecretError
from storage.store_errors import StoreError, StoreRefused
from storage.transient_faults import FaultKind, kind_of

VERSION_MIN: Final = 15
# What a server, or a damaged database, may raise.
FAILURES: Final = (
    PostgresError, InterfaceError, InternalClientError, OSError, zlib.error, msgspec.DecodeError,
)  # fmt: skip

# Classes and codes of the appendix "PostgreSQL Error Codes"; a longer prefix wins. None: it will
# not pass, because an operator must change something, or because it is about a value. What is not
# listed here is UNKNOWN: a new connection, and some time, may help.
_FAULTS: Final = {
    "03": FaultKind.UNKNOWN,  # a statement is not complete
    "08": FaultKind.UNREACHABLE,  # the connection was lost
    "08P01": FaultKind.UNKNOWN,  # a violation of the protocol
    "09": FaultKind.UNKNOWN,  # of triggers, which are not ours
    "0A": FaultKind.UNKNOWN,  # not supported: also a plan from before a change of the schema
    "0B": FaultKind.UNKNOWN,  # the state of a transaction
    "0F": FaultKind.UNKNOWN,  # locators
    "0L": None,  # a grantor
    "0P": None,  # no such role
    "0Z": FaultKind.UNKNOWN,  # diagnostics
    "10": FaultKind.UNKNOWN,  # XQuery
    "20": FaultKind.UNKNOWN,  # a case in a procedure
    "21": None,  # a value: the same row twice in one statement
    "22": None,  # a value
    "23": None,  # a value
    "24": FaultKind.UNKNOWN,  # the state of a cursor
    "25": FaultKind.UNKNOWN,  # the state of a transaction
    "25006": FaultKind.UNREACHABLE,  # read-only: another server has taken over
    "25P03": FaultKind.UNREACHABLE,  # a timeout while the connection was idle
    "25P04": FaultKind.LOCKED,  # a transaction timeout
    "26": FaultKind.UNKNOWN,  # a prepared statement is gone: made by another connection
    "27": FaultKind.UNKNOWN,  # of triggers
    "28": None,  # no such user, a wrong password
    "2B": None,  # dependent privileges
    "2D": FaultKind.UNKNOWN,  # the end of a transaction
    "2F": FaultKind.UNKNOWN,  # of functions, which are not ours
    "34": FaultKind.UNKNOWN,  # the name of a cursor
    "38": FaultKind.UNKNOWN,  # of functions
    "39": FaultKind.UNKNOWN,  # of functions
    "3B": FaultKind.UNKNOWN,  # a savepoint
    "3D": None,  # no such database
    "3F": None,  # no such schema
    "40": FaultKind.LOCKED,  # deadlocks, serialization failures
    "42": None,  # no such table or column, no privilege
    "42P03": FaultKind.UNKNOWN,  # a cursor of this name exists
    "42P05": FaultKind.UNKNOWN,  # a prepared statement of this name exists
    "44": FaultKind.UNKNOWN,  # a view with a check, which is not ours
    "53": FaultKind.IO,  # other resources
    "53100": FaultKind.NO_SPACE,
    "53200": FaultKind.MEMORY,
    "53300": FaultKind.UNREACHABLE,  # too many connections
    "54": None,  # a value that is too large
    "55": FaultKind.LOCKED,  # an object is in use, or not ready
    "57": FaultKind.UNREACHABLE,  # shutdown, crash, recovery
    "57014": FaultKind.LOCKED,  # a statement timeout
    "57P04": None,  # the database was dropped
    "58": FaultKind.IO,  # errors of the server's system
    "72": FaultKind.LOCKED,  # a snapshot is too old
    "F0": FaultKind.UNKNOWN,  # a config file of the server
    "HV": FaultKind.UNKNOWN,  # foreign data, which is not ours
    "P0": FaultKind.UNKNOWN,  # of procedures, which are not ours
    "XX": FaultKind.UNKNOWN,  # internal errors of the server
    "XX001": None,  # the data is damaged
    "XX002": None,  # an index is damaged
}
_FILES: Final = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")
_OWN: Final = (FaultKind.MEMORY, FaultKind.DESCRIPTORS)  # of this machine
# A new connection may help. One with any other fault is still in order.
_OF_CONNECTION: Final = (FaultKind.UNREACHABLE, FaultKind.UNKNOWN, *_OWN)
_UNSUPPORTED: Final = (UnsupportedClientFeatureError, UnsupportedServerFeatureError)


@contextlib.contextmanager
def described(location: ServerLocation, *, opening: bool = False) -> Iterator[None]:
    """Raise StoreError for what fails in the block. opening: or StoreRefused, where `refusal_of`
    returns it."""
    try:
        yield
    except TransactionConflict as error:
        raise failure_of(error.__cause__ or error, location) from error
    except (SecretError, *FAILURES) as error:
        refusal = refusal_of(error, location) if opening else None
        raise refusal or failure_of(error, location) from error


class ServerIsReplica(StoreRefused):
    """The server follows another one. It may take its place any moment."""


def fault_kind_of(error: BaseException) -> FaultKind | None:
    """Return the kind of fault that made a call fail; None if it will not pass.

    An error of the server or of asyncpg passes unless it is known that it does not."""
    if isinstance(error, PostgresError):
        code = error.sqlstate or ""
        found = [prefix for prefix in _FAULTS if code.startswith(prefix)]
        return _FAULTS[max(found, key=len)] if found else FaultKind.UNKNOWN
    if isinstance(error, ServerIsReplica):
        return FaultKind.UNREACHABLE
    if isinstance(error, SecretError):  # the file is being replaced
        return FaultKind.UNKNOWN
    if isinstance(error, (ssl.SSLCertVerificationError, *_UNSUPPORTED)):
        return None
    if isinstance(error, OSError | MemoryError):  # OSError: TimeoutError, too
        kind = kind_of(error)
        return kind if kind in _OWN else FaultKind.UNREACHABLE
    if isinstance(error, InternalClientError):  # raised while a connection is being lost
        return FaultKind.UNREACHABLE
    if isinstance(error, InterfaceError):
        if isinstance(error, ValueError):  # an argument or a value that asyncpg does not accept
            return None
        return FaultKind.UNREACHABLE if "closed" in str(error) else FaultKind.UNKNOWN
    return None


def ends_connection(error: BaseException) -> bool:
    """Return whether a connection must not be used any longer after an error of a call."""
    return fault_kind_of(error) in _OF_CONNECTION


def refusal_of(
    error: BaseException, location: ServerLocation, *, waits: bool = False
) -> StoreRefused | None:
    """Return the refusal for an error while a database was opened; None if waiting may help.

    waits: the caller has the time to wait for a server that cannot be reached at all. Once a
    database is open, only `fault_kind_of` decides.
    """
    if isinstance(error, SecretError):
        return StoreRefused(f"the password for {location} cannot be read: {error}")
    if isinstance(error, ServerIsReplica):  # more likely the wrong server than a failover
        return StoreRefused(str(error))
    kind = fault_kind_of(error)
    if isinstance(error, ProtocolViolationError):  # a setting that a pooler does not know
        kind = None
    unreachable = isinstance(error, OSError | TargetServerAttributeNotMatched)
    if kind is None or (unreachable and not (waits and not _is_misconfigured(error, location))):
        return None if kind in _OWN else _refusal(error, location)
    return None


def _is_misconfigured(error: BaseException, location: ServerLocation) -> bool:
    """Whether a connection cannot be made for what the URL says, however long one waits."""
    if isinstance(error, FileNotFoundError):
        return _names_missing_files(location)
    misnamed = PermissionError | IsADirectoryError | NotADirectoryError
    return isinstance(error, misnamed) or "rejected SSL upgrade" in str(error)


def _names_missing_files(location: ServerLocation) -> bool:
    files = any(location.parameter(name) for name in _FILES)
    return files and any(not host.startswith("/") for host, _ in location.hosts)


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
    if code == "08P01":
        return f"{words}; connect to the server directly, not by a connection pooler"
    if isinstance(error, ConnectionRefusedError) or "refused" in words.lower():
        return f"{words}; is the server running, and does it listen there?"
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    if isinstance(error, FileNotFoundError):
        if _names_missing_files(location):
            files = [name for name in _FILES if location.parameter(name)]
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


def pools_transactions(location: ServerLocation) -> StoreRefused:
    """A connection pooler gives each transaction another connection."""
    return StoreRefused(
        f"{location} is a connection pooler that gives each transaction another connection, and"
        " courtly needs one for a whole session: connect to the server directly, or set the pooler"
        " to session pooling"
    )


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
    """Return the error for a search_path of which no schema exists."""
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


def other_commit(location: ServerLocation, version: int) -> StoreRefused:
    """Another commit made the tables, with our version."""
    return StoreRefused(
        f"{location} was made by another commit of courtly, whose schema has the same number"
        f" ({version}) and another definition: start a new database, or use the commit that made it"
    )


def development_schema(location: ServerLocation, found: int) -> StoreRefused:
    """A version that was never released made the tables."""
    return StoreRefused(
        f"{location} was made by a development version of courtly (its schema is {found}), and"
        " cannot be brought up to date: start a new database, or use the version that made it"
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
        return ServerIsReplica(f"{location} {why} with ?target_session_attrs=read-write")
    return StoreRefused(
        f"{location} accepts no changes: default_transaction_read_only is on for this user,"
        " database or server"
    )


def unfinished_copy(location: ServerLocation) -> StoreRefused:
    """Return the error for a target of a `courtly db copy` that was interrupted."""
    return StoreRefused(
        f"{location} is an incomplete copy: run the same `courtly db copy` again to complete it"
    )
