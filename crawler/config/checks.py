"""Parse the strings of single config keys. Every function raises ValueError with a sentence."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from crawler.config.host_patterns import is_address, read_pattern
from policies.config_key import one_line
from policies.header_field import field_value, is_of_connection, is_token
from policies.url import parse_seed
from storage.location import parse_location

_URL = re.compile(r"https?://[^\s/()<>\"';,]+", re.IGNORECASE)
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
NAME_CHARS_MAX = 60  # of a daemon
UNIX: Final = "unix:"  # before the path of a socket
PROXY_ON_SOCKET: Final = "unix"  # a proxy that connects to the Unix socket
# Paths of the daemon, which a prefix must not begin with: proxies may remove it or keep it.
_OWN_SEGMENTS: Final = frozenset(
    {"api", "config", "healthz", "host", "hosts", "login", "logout", "metrics", "readyz", "static"}
)
_STATUS = re.compile(r"(?:([1-5][0-9]{2})|([1-5])xx)\Z")

# Set by the crawler or the connection, or they would change the meaning of a response (RFC 9110
# sections 13 and 14).
_RESERVED_HEADERS: Final[Mapping[str, str]] = {
    "authorization": 'write fetch.credentials = { "https://example.org" = "env:NAME" }',
    "user-agent": 'write crawl.user_agent = "…"',
    "from": 'write crawl.from = "…"',
    "host": "it is derived from the URL",
    "content-length": "requests have no body",
    "expect": "requests have no body",
    "proxy-authorization": "put the name and password into fetch.proxy",
    "range": "part of a page would be taken for the whole page",
}


def contact_in(text: str) -> bool:
    """Return whether a string contains an http(s) URL or an e-mail address."""
    return bool(_URL.search(text) or _EMAIL.search(text))


def user_agent(value: str) -> str:
    value = field_value(value)
    if value and not re.match(r"[^\s/()<>@,;:\"\[\]?={}]", value):
        raise ValueError(
            'must begin with the crawler\'s name, as in "examplebot/1.0 (+https://example.com/bot)"'
        )
    return value


def email_address(value: str) -> str:
    value = field_value(value)
    if not _EMAIL.search(value):
        raise ValueError(f'must be an e-mail address, not "{value}"')
    return value


def header(name: str, value: str) -> tuple[str, str]:
    """Return a request header that the config may set, as name and value."""
    if not is_token(name):
        raise ValueError(f'"{name}" cannot be a header name')
    why = _RESERVED_HEADERS.get(name.lower())
    if why is None and is_of_connection(name):
        why = "it belongs to the connection"
    if name.lower().startswith("if-"):
        why = "the response could have no body"
    if why:
        raise ValueError(f'the header "{name}" cannot be set here: {why}')
    return name.title() if name.islower() else name, field_value(value)


def proxy(value: str) -> str:
    try:
        parts = urlsplit(one_line(value))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        # Without the value: in a malformed URL, the password can be anywhere.
        raise ValueError('must be an http(s) URL such as "http://127.0.0.1:3128"')
    return value


def address_range(value: str) -> str:
    """Return an address or a range of addresses in CIDR notation."""
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise ValueError(
            f'must be an address or a range such as "127.0.0.0/8" or "::1", not "{value}"'
        ) from None
    raise ValueError(f'"{value}" has bits set beyond its range; did you mean "{meant}"?')


def static_name(name: str, address: str) -> tuple[str, str]:
    """Return a host pattern and the IP address that it resolves to."""
    pattern = read_pattern(name)
    if is_address(pattern):
        raise ValueError(f'"{name}" is an address, and only names are resolved')
    try:
        return pattern, str(ipaddress.ip_address(address))
    except ValueError:
        raise ValueError(f'"{address}" is not an IP address') from None


def seed(value: str) -> str:
    """Return a URL in canonical form, or `@FILE` unchanged."""
    if value.startswith("@"):
        if not value[1:].strip():
            raise ValueError('"@" must be followed by the name of a seed file: "@seeds.txt"')
        return one_line(value)
    return parse_seed(value)


def rooted_seeds(seeds: Sequence[str], base: Path) -> tuple[str, ...]:
    """Return seeds whose files have absolute paths."""
    return tuple(f"@{base / one[1:].strip()}" if one.startswith("@") else one for one in seeds)


def listen_address(value: str) -> str:
    """Return `HOST:PORT`, an address or `localhost`; with port 0 the system chooses one. Or
    `unix:PATH`, a socket."""
    if value.startswith(UNIX):
        if not one_line(value).removeprefix(UNIX).strip():
            raise ValueError('must have a path, as in "unix:/run/courtly/page.sock"')
        return value
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535 or not host:
        raise ValueError(f'must be ADDRESS:PORT such as "127.0.0.1:8710", not "{value}"')
    if host != "localhost" and not is_address(host):
        raise ValueError(f'"{host}" is not an address to listen on, such as "127.0.0.1"')
    return value


def rooted_listen(value: str, base: Path) -> str:
    """Return the address with the path of a socket made absolute."""
    if not value.startswith(UNIX):
        return value
    return f"{UNIX}{base / value.removeprefix(UNIX).strip()}"


def trusted_proxy(value: str) -> str:
    """Return an address, a range of addresses, or "unix"."""
    return value if value == PROXY_ON_SOCKET else address_range(value)


def base_path(value: str) -> str:
    """Return a path prefix such as "/courtly", without a slash at its end; "" for none."""
    path = value.rstrip("/")
    if path and not re.fullmatch(r"(/[A-Za-z0-9._~-]+){1,8}", path):
        raise ValueError(f'must be a path such as "/courtly", not "{value}"')
    if any(part.strip(".") == "" for part in path.split("/")[1:]):
        raise ValueError(f'must not contain the segments "." and "..", as in "{value}"')
    if path.split("/")[1:2] and path.split("/")[1] in _OWN_SEGMENTS:
        raise ValueError(f'"/{path.split("/")[1]}" is a path of the daemon itself; take another')
    return path


def authority(value: str) -> str:
    """Return a name or an address as in a Host header, with or without a port."""
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?", value):
        raise ValueError(f'must be a name such as "crawl.example.com", not "{value}"')
    return value


def secret(value: str) -> str:
    """Return one line without surrounding whitespace, which a header could not carry."""
    return one_line(value).strip()


def daemon_name(value: str) -> str:
    """Return a name for titles and labels."""
    if len(one_line(value)) > NAME_CHARS_MAX:
        raise ValueError(f"is longer than {NAME_CHARS_MAX} characters")
    return value.strip()


def storage_url(value: str) -> str:
    """Return the URL of a database; see `storage.location.parse_location`."""
    if ":" not in one_line(value):
        raise ValueError(f'must be "sqlite:" and a path, as in "sqlite:crawl.db", not "{value}"')
    parse_location(value)
    return value


def file_mode(value: str) -> str:
    """Return octal permissions that let the owner read and write, and nobody execute."""
    if not re.fullmatch("0?[0-7]{3}", value) or (int(value, 8) & ~0o066) != 0o600:
        raise ValueError(
            'must be permissions such as "0600" or "0640" that let the owner read and write, '
            f'not "{value}"'
        )
    return value


def status(value: object) -> int:
    """Return a status code, or the first digit of a class of them: 2 of `"2xx"`."""
    found = None if isinstance(value, bool) else _STATUS.match(str(value).lower())
    if found is None:
        raise ValueError(f'must be a status such as 200, or a class such as "2xx", not {value!r}')
    return int(found[1] or found[2])
