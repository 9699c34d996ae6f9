"""What single keys ask of their values: patterns, headers, addresses, names."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from crawler.config.host_patterns import is_address, read_pattern
from crawler.config.readers import ProblemsError, line, text
from policies.pacing import Window, parse_window
from policies.url import canonical, parse_seed

_URL = re.compile(r"https?://[^\s/()<>\"';,]+", re.IGNORECASE)
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")  # token, RFC 9110 5.6.2
_SCHEMES = ("http://", "https://")
_STATUS = re.compile(r"(?:([1-5][0-9]{2})|([1-5])xx)\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/(?:[a-z0-9!#$&^_.+-]+|\*)\Z")

# Ours to set, or the connection's, or they would change what an answer means (RFC 9110 13 and 14).
_NOT_YOURS = {
    "authorization": 'it is written fetch.credentials = { "https://example.org" = "env:NAME" }',
    "user-agent": 'it is written crawl.user_agent = "…"',
    "from": 'it is written crawl.from = "…"',
    "host": "it follows from the URL",
    "connection": "it belongs to the connection",
    "content-length": "requests have no body",
    "expect": "requests have no body",
    "keep-alive": "it belongs to the connection",
    "proxy-authorization": "put the name and password into fetch.proxy",
    "range": "a part of a page would be taken for the whole",
    "te": "it belongs to the connection",
    "trailer": "it belongs to the connection",
    "transfer-encoding": "it belongs to the connection",
    "upgrade": "it belongs to the connection",
}


def contact_in(text: str) -> bool:
    """Does it carry an http(s) URL or an e-mail address?"""
    return bool(_URL.search(text) or _EMAIL.search(text))


def header_value(value: str) -> str:
    """What may stand in a header field: visible ASCII, spaces and tabs (RFC 9110 5.5)."""
    if not value.isascii():
        raise ValueError("must be ASCII: it is sent in a header")
    if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
        raise ValueError("must be one line without control characters: it is sent in a header")
    return value.strip()


def user_agent(value: str) -> str:
    value = header_value(value)
    if value and not re.match(r"[^\s/()<>@,;:\"\[\]?={}]", value):
        raise ValueError(
            'must begin with the crawler\'s name, as in "examplebot/1.0 (+https://example.com/bot)"'
        )
    return value


def sender(value: str) -> str:
    if not _EMAIL.search(header_value(value)):
        raise ValueError(f'must be an e-mail address, not "{value}"')
    return header_value(value)


def headers(value: Mapping[str, str]) -> Mapping[str, str]:
    return by_name(value, _header)


def _header(name: str, value: str) -> tuple[str, str]:
    if not _HEADER_NAME.match(name):
        raise ValueError(f'"{name}" cannot be a header name')
    if why := _NOT_YOURS.get(name.lower()):
        raise ValueError(f'the header "{name}" cannot be set here: {why}')
    if name.lower().startswith("if-"):
        raise ValueError(f'the header "{name}" cannot be set here: it makes answers without a page')
    return name.title() if name.islower() else name, header_value(value)


def by_name(
    table: Mapping[str, object], read: Callable[[str, str], tuple[str, str]]
) -> Mapping[str, str]:
    """Every pair of a table of texts by `read`; all that is wrong at once. Names ignore case."""
    good: dict[str, str] = {}
    wrong: list[tuple[tuple[str | int, ...], str]] = []
    for name, value in table.items():
        try:
            read_name, read_value = read(name, text(value))
        except ValueError as error:
            wrong.append(((name,), str(error)))
            continue
        if read_name.lower() in map(str.lower, good):
            wrong.append(((name,), f'"{name}" is given twice'))
        good[read_name] = read_value
    if wrong:
        raise ProblemsError(*wrong)
    return good


def proxy(value: str) -> str:
    try:
        parts = urlsplit(line(value))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        # Without the value: a password may stand anywhere in what is no URL.
        raise ValueError('must be an http(s) URL such as "http://127.0.0.1:3128"')
    return value


def url_pattern(value: str) -> str:
    """A glob on whole URLs. One that cannot match any is refused: an `exclude` would do nothing."""
    if not line(value):
        raise ValueError("an empty pattern matches no URL")
    head, star, _ = value.partition("*")
    begins = head.startswith(_SCHEMES) or (star and any(s.startswith(head) for s in _SCHEMES))
    if not begins:
        raise ValueError(
            f'"{value}" matches no URL: a pattern is matched with the whole URL, write "*{value}"'
        )
    return value


def media_type(value: str) -> str:
    if not _MEDIA_TYPE.match(value.lower()):
        raise ValueError(f'must be a type such as "text/html" or "image/*", not "{value}"')
    return value.lower()


def parameter(value: str) -> str:
    if not value or re.search(r"[&=#?\s]", value):
        raise ValueError(f'must be a parameter\'s name such as "sid" or "utm_*", not "{value}"')
    return value


def address_range(value: str) -> str:
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


def static_names(value: Mapping[str, str]) -> Mapping[str, str]:
    return by_name(value, _static_name)


def _static_name(name: str, address: str) -> tuple[str, str]:
    pattern = read_pattern(name)
    if is_address(pattern):
        raise ValueError(f'"{name}" is an address, and only names are resolved')
    try:
        return pattern, str(ipaddress.ip_address(address))
    except ValueError:
        raise ValueError(f'"{address}" is not an IP address') from None


def file_path(value: str) -> str:
    """An absolute path that is not the home page's, with or without a query, in canonical form."""
    if not value.startswith("/") or value.startswith(("//", "/\\")):
        raise ValueError(f'"{value}" is not a path that begins with one "/"')
    url = canonical(value, "http://x/")
    assert url is not None
    path = url.removeprefix("http://x")
    if path.partition("?")[0] == "/":
        raise ValueError(f'"{value}" is the home page, not a file')
    return path


def seed(value: str) -> str:
    """A URL, made canonical, or `@FILE`, as it stands."""
    if value.startswith("@"):
        if not value[1:].strip():
            raise ValueError('"@" needs the name of a file of seeds, as in "@seeds.txt"')
        return line(value)
    return parse_seed(value)


def window(value: str) -> Window:
    return parse_window(value)


def listen(value: str) -> str:
    """`HOST:PORT` with an address or `localhost`; port 0 lets the system choose one."""
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535 or not host:
        raise ValueError(f'must be ADDRESS:PORT such as "127.0.0.1:8710", not "{value}"')
    if host != "localhost":
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ValueError(
                f'"{host}" is not an address to listen on, such as "127.0.0.1"'
            ) from None
    return value


def authority(value: str) -> str:
    """A name or an address as it stands in a Host header, with or without a port."""
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]{1,5})?", value):
        raise ValueError(f'must be a name such as "crawl.example.com", not "{value}"')
    return value


def secret(value: str) -> str:
    """One line, without the blanks around it, which no header could carry."""
    return line(value).strip()


def storage_url(value: str) -> str:
    """`sqlite:PATH`. The path is taken as it stands, without decoding; `sqlite:///a` is `/a`."""
    scheme, colon, path = line(value).partition(":")
    if not colon or scheme.lower() != "sqlite":
        raise ValueError(f'must be "sqlite:" and a path, as in "sqlite:crawl.db", not "{value}"')
    if path.startswith("//") and not path.startswith("///"):
        raise ValueError(
            f'"{value}" names a machine: a database is a local file, "sqlite:crawl.db"'
        )
    if not path.removeprefix("//") or path == ":memory:" or path.endswith("/"):
        raise ValueError(f'must name a file, as in "sqlite:crawl.db", not "{value}"')
    return value


def file_mode(value: str) -> str:
    """Permissions in octal that let the owner read and write, and nobody execute."""
    if not re.fullmatch("0?[0-7]{3}", value) or (int(value, 8) & ~0o066) != 0o600:
        raise ValueError(
            f'must be permissions such as "0600" or "0640", which let the owner read and write,'
            f' not "{value}"'
        )
    return value


def robots_token(value: str) -> str:
    if not line(value).strip():
        raise ValueError("a token must not be empty")
    return value.strip()


def path_text(value: str) -> str:
    if not line(value).strip():
        raise ValueError("must be a path")
    return value


def statuses(values: Iterable[object]) -> tuple[int, ...]:
    """Statuses as numbers, and classes of them by their first digit: `"2xx"` is 2."""
    good: list[int] = []
    wrong: list[tuple[tuple[str | int, ...], str]] = []
    for index, value in enumerate(values):
        found = _STATUS.match(str(value).lower()) if not isinstance(value, bool) else None
        if found is None:
            sentence = (
                f'must be a status such as 200, or a class of them such as "2xx", not {value!r}'
            )
            wrong.append(((index,), sentence))
        else:
            good.append(int(found[1] or found[2]))
    if wrong:
        raise ProblemsError(*wrong)
    return tuple(good)
