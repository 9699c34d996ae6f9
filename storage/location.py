"""Where a crawl's database is: in a file, or on a PostgreSQL server."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from msgspec import Struct

from policies.config_key import one_line
from storage.safe_files import real_path
from storage.secret_sources import read_source

PORT: Final = 5432  # of PostgreSQL
LEASE_S: Final = 15.0  # of a worker, unless `[storage] lease` says otherwise
START_WAIT_S: Final = 300.0  # for a server, unless `[storage] start_wait` says otherwise
_CONNECT_S: Final = 10.0  # for one attempt to connect, unless the URL has a connect_timeout
_KNOWN_SCHEME = re.compile(r"sqlite:|postgres[a-z0-9+.-]*:|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9.])?\Z")
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]\Z")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

# Parameters that name what the rest of the URL can name as well.
_PLACES: Final = ("host", "port", "user", "dbname")
# The other parameters, with their values where only certain ones make sense. asyncpg sets up the
# connection by the first ones, and passes the last ones on to the server.
_PARAMETERS: Final[Mapping[str, Sequence[str]]] = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "sslrootcert": (),
    "sslcert": (),
    "sslkey": (),
    "sslcrl": (),
    "ssl_min_protocol_version": ("TLSv1.2", "TLSv1.3"),
    "ssl_max_protocol_version": ("TLSv1.2", "TLSv1.3"),
    "target_session_attrs": (
        "any", "read-write", "read-only", "primary", "standby", "prefer-standby",
    ),
    "passfile": (),
    "connect_timeout": (),
    "application_name": (),
    "search_path": (),
    "options": (),
}  # fmt: skip
_SECRETS: Final = ("password", "sslpassword")


class FileLocation(Struct, frozen=True):
    """An SQLite file."""

    path: Path

    @property
    def shown(self) -> str:
        """The name for messages, logs and pages."""
        return str(self.path)

    @property
    def stem(self) -> str:
        """A short name: that of the file, without its ending."""
        return self.path.stem

    @property
    def key(self) -> str:
        """The same for all names of this database, and different from those of others."""
        return f"sqlite:{real_path(self.path).absolute()}"

    def __str__(self) -> str:
        return self.shown


class ServerLocation(Struct, frozen=True, kw_only=True):
    """A database of a PostgreSQL server. Holds no password, only where it is."""

    database: str
    user: str = ""  # "": as the environment variable PGUSER says, or the name of the system's user
    # Names and addresses, or directories of Unix sockets, with ports. Empty: as PGHOST says, or the
    # usual directories. The first that accepts a connection is used.
    hosts: tuple[tuple[str, int], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()  # a subset of _PARAMETERS
    password: str = ""  # `env:NAME` or `file:PATH`; "": PGPASSWORD, or the password file

    @property
    def shown(self) -> str:
        """The name for messages, logs and pages: a URL without the parameters that do not select
        the database."""
        return self._url(("search_path",), with_user=True)

    @property
    def stem(self) -> str:
        """A short name: that of the database."""
        return self.database

    @property
    def key(self) -> str:
        """The same for all users of this database. Databases in different schemas of a server's
        database have different keys; several names of one server do, too."""
        return self._url(("search_path",), with_user=False)

    def __str__(self) -> str:
        return self.shown

    def _url(self, names: Sequence[str], *, with_user: bool) -> str:
        user = f"{_quoted(self.user)}@" if with_user and self.user else ""
        hosts = ",".join(_host_shown(*host) for host in self.hosts)
        asked = [f"{name}={_quoted(value)}" for name, value in self.parameters if name in names]
        query = f"?{'&'.join(asked)}" if asked else ""
        return f"postgresql://{user}{hosts}/{_quoted(self.database)}{query}"

    def parameter(self, name: str) -> str | None:
        """Return a parameter of the URL."""
        return dict(self.parameters).get(name)

    def read_password(self) -> str | None:
        """Return the password; None: asyncpg looks for one. Raises SecretError."""
        return read_source(self.password, waits=False)[0] if self.password else None

    def connect_arguments(self) -> dict[str, Any]:
        """Return the arguments for `asyncpg.connect`, the password included.

        The password is read anew each time, so that it may change while a crawl runs. Raises
        SecretError.
        """
        kept = {name: value for name, value in self.parameters if name != "connect_timeout"}
        kept.setdefault("application_name", "courtly")
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in kept.items())
        return {
            "dsn": f"postgresql://?{query}",
            "host": [host for host, _ in self.hosts] or None,
            "port": [port for _, port in self.hosts] or None,
            "user": self.user or None,
            "database": self.database,
            "password": self.read_password(),
            "timeout": float(self.parameter("connect_timeout") or _CONNECT_S),
        }


Location = FileLocation | ServerLocation


def url_of(text: str) -> str:
    """Return the URL of a database that is given as a URL or as a path."""
    return text if _KNOWN_SCHEME.match(text) else f"sqlite:{text}"


def parse_location(text: str) -> Location:
    """Return the location that a URL or a path names.

    `sqlite:PATH` (`sqlite:///a` is `/a`; the path is not percent-decoded), a plain path, or
    `postgresql://USER@HOST:PORT/DATABASE?PARAMETERS`. Raises ValueError with a sentence that never
    quotes a PostgreSQL URL: it may contain a password in any place.
    """
    url = one_line(url_of(text))
    scheme, _, rest = url.partition(":")
    if scheme.lower() in ("postgresql", "postgres"):
        return _server(rest)
    if scheme.lower() == "sqlite":
        return FileLocation(Path(_file_path(url, rest)))
    if scheme.lower().startswith("postgres"):
        raise ValueError('must begin with "postgresql://"')
    raise ValueError(
        'must be "sqlite:" and a path, as in "sqlite:crawl.db", or a PostgreSQL URL, as in '
        '"postgresql://db.example.org/crawl"'
    )


def _file_path(url: str, path: str) -> str:
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError(f'"{url}" names a host: a database is a local file, "sqlite:crawl.db"')
    if not path.removeprefix("//") or path == ":memory:" or path.endswith("/"):
        raise ValueError(f'must name a file, as in "sqlite:crawl.db", not "{url}"')
    return path.removeprefix("//")


# ---------------------------------------------------------------- PostgreSQL URLs


def _server(rest: str) -> ServerLocation:
    """Read what follows the scheme of a PostgreSQL URL. Raises ValueError."""
    if not rest.startswith("//"):
        raise ValueError('must begin with "postgresql://"')
    authority, _, path_and_query = rest[2:].partition("/")
    if "?" in authority:  # no path
        authority, _, query = authority.partition("?")
        path, query = "", f"{query}/{path_and_query}" if path_and_query else query
    else:
        path, _, query = path_and_query.partition("?")
    userinfo, at, hosts = authority.rpartition("@")
    parameters = _query(query)
    if ":" in unquote(userinfo) or ":" in parameters.get("user", ""):
        raise ValueError(
            "must not contain a password, because command lines and configs are read by others: "
            'put it into the environment variable PGPASSWORD, write storage.password = "env:NAME" '
            'or "file:PATH", or use ~/.pgpass'
        )
    if "#" in rest or _has_at(userinfo) or _has_at(hosts) or _has_at(path):
        raise ValueError(
            'must not contain a password, and in names, "@", "/" and "#" are written "%40", "%2F" '
            'and "%23"'
        )
    places = _places(parameters, at, userinfo, hosts, path)
    return ServerLocation(
        user=_decoded(places["user"], "user"),
        hosts=_hosts(places["host"], places["port"]),
        database=_database(places["dbname"]),
        parameters=tuple(sorted(parameters.items())),
    )


def _has_at(text: str) -> bool:
    return "@" in text or "\uff20" in text


def _query(query: str) -> dict[str, str]:
    """Return the parameters, decoded. Names of unknown ones are not quoted: they may be parts of a
    password with a `?`."""
    found: dict[str, str] = {}
    for number, pair in enumerate(query.split("&") if query else (), start=1):
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError("parameters are written NAME=VALUE, with & between them")
        if name in _SECRETS:
            raise ValueError(
                f"must not contain a password, and has the parameter {name}: write "
                'storage.password = "env:NAME" or "file:PATH"'
            )
        if name not in _PARAMETERS and name not in _PLACES:
            near = difflib.get_close_matches(name.lower(), [*_PLACES, *_PARAMETERS], n=1)
            hint = f'did you mean "{near[0]}"?' if near else _known_parameters()
            raise ValueError(f"parameter {number} of the URL is unknown; {hint}")
        if name in found:
            raise ValueError(f"has the parameter {name} twice")
        found[name] = _value(name, value)
    return found


def _known_parameters() -> str:
    return f"known ones are {', '.join([*_PLACES, *_PARAMETERS])}"


def _value(name: str, raw: str) -> str:
    value = _decoded(raw, name)
    choices = _PARAMETERS.get(name, ())
    if choices and value not in choices:
        raise ValueError(f"the parameter {name} must be {', '.join(choices[:-1])} or {choices[-1]}")
    if not value:
        raise ValueError(f"the parameter {name} is empty")
    if name == "connect_timeout" and not re.fullmatch(r"[1-9][0-9]{0,3}", value):
        raise ValueError("the parameter connect_timeout must be a whole number of seconds")
    return value


def _decoded(text: str, what: str) -> str:
    if _ESCAPE.search(text):
        raise ValueError(f'the {what} has a "%" that begins no escape: write "%25"')
    try:
        return one_line(unquote(text, errors="strict"))
    except UnicodeDecodeError:
        raise ValueError(f"the {what} is not UTF-8") from None


def _places(
    parameters: dict[str, str], at: str, userinfo: str, hosts: str, path: str
) -> Mapping[str, str]:
    """Take host, port, user and database out of the parameters, or of the rest of the URL; still
    encoded. Raises ValueError for one that is named twice."""
    if at and not userinfo:
        raise ValueError('has no user before the "@"')
    given = {"host": hosts, "user": userinfo, "dbname": path, "port": ""}
    for name in _PLACES:
        value = parameters.pop(name, None)
        if value is None:
            continue
        if given[name] or (name == "port" and ":" in hosts):
            raise ValueError(f"names the {name} twice")
        given[name] = quote(value, safe="/:,[]" if name == "host" else ",")
    return given


def _database(path: str) -> str:
    name = _decoded(path, "name of the database")
    if not name or "/" in path:
        raise ValueError('must name one database, as in "postgresql://db.example.org/crawl"')
    return name


def _hosts(text: str, ports: str) -> tuple[tuple[str, int], ...]:
    if not text:
        if ports:
            raise ValueError("names a port, but no host")
        return ()
    named = [_host(one) for one in text.split(",")]
    if not ports:
        return tuple((host, port or PORT) for host, port in named)
    given = [_port(port) for port in ports.split(",")]
    if len(given) == 1:
        given *= len(named)
    if len(given) != len(named) or any(port for _, port in named):
        raise ValueError("must have one port, or as many as hosts")
    return tuple((host, port) for (host, _), port in zip(named, given, strict=True))


def _host(text: str) -> tuple[str, int | None]:
    """Return a host, and its port if it has one: `name:5433`, `[::1]`, `%2Frun%2Fpostgresql`."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, colon = text, ""
    decoded = _decoded(host, "host")
    if found := _IPV6.match(decoded):
        decoded = found[1]
    elif not _HOST_NAME.match(decoded) and not (decoded.startswith("/") and not _has_at(decoded)):
        raise ValueError(
            "names a host that is not a name, an address, or the directory of a Unix socket"
        )
    return decoded, _port(port) if colon else None


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text, re.ASCII) or not 0 < int(text) < 65_536:
        raise ValueError("has a port that is not a number from 1 to 65535")
    return int(text)


def _host_shown(host: str, port: int) -> str:
    shown = f"[{host.replace('%', '%25')}]" if ":" in host else _quoted(host)
    return shown if port == PORT else f"{shown}:{port}"


def _quoted(text: str) -> str:
    return quote(text, safe="-._~,*+$")
