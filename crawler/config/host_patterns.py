"""Host patterns: host names with `*`, as in `[site."…"]` and `[network] resolve`."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping

import ada_url

_NO_HOST = re.compile(r"[\s@?#%\\]")
_GLOB = re.compile(r"[a-z0-9_*-]+(?:\.[a-z0-9_*-]+)*\Z")


def read_pattern(text: str) -> str:
    """Return a pattern in canonical form. Raises ValueError with a sentence.

    A host name or address covers only itself; `*` stands for any characters, including dots; a
    leading `*.` also covers the name after it (`*.example.org`: example.org and all subdomains).
    """
    name = text.strip().lower().removesuffix(".")
    if not name:
        raise ValueError("must be a host name, not an empty string")
    if "://" in name or "/" in name:
        raise ValueError(
            f'{text!r} is not a host name: write "example.org" or "*.example.org", '
            "without scheme and path"
        )
    if _NO_HOST.search(name):  # a URL parser would skip these, or split at them
        raise ValueError(f"{text!r} is not a host name")
    if address := _address(name):
        return address
    if re.search(r":\d*\Z", name):
        raise ValueError(f"{text!r} names a port, but the rules of a host apply to all its ports")
    prefix, rest = ("*.", name[2:]) if name.startswith("*.") else ("", name)
    if "*" not in rest:
        try:
            rest = ada_url.URL(f"http://{rest}/").hostname
        except ValueError:
            raise ValueError(f"{text!r} is not a host name") from None
    if not _GLOB.match(rest):
        raise ValueError(f"{text!r} is not a host name")
    return prefix + rest


def is_address(host: str) -> bool:
    """Return whether a host or pattern is an IP address, with or without brackets."""
    return bool(_address(host))


def _address(name: str) -> str:
    """Return an address in the form that URLs use, without brackets; "" for a name."""
    try:
        address = ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return ""
    if address.version == 4:
        return str(address)
    # Python formats addresses with an embedded IPv4 address differently from URLs since 3.13.
    bits = f"{int(address):032x}"
    groups = ":".join(bits[at : at + 4] for at in range(0, 32, 4))
    return ada_url.URL(f"http://[{groups}]/").hostname[1:-1]


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    head, rest = (r"(?:.*\.)?", pattern[2:]) if pattern.startswith("*.") else ("", pattern)
    return re.compile(head + ".*".join(map(re.escape, re.split(r"\*+", rest))) + r"\Z")


def matches(pattern: str, host: str) -> bool:
    """Return whether a pattern (from `read_pattern`) covers a host.

    host: without port and brackets, in any case, with or without a final dot.
    """
    host = host.lower().removesuffix(".")
    return pattern == host or ("*" in pattern and _compiled(pattern).match(host) is not None)


def by_specificity(patterns: Iterable[str]) -> list[str]:
    """Return patterns in order of precedence: whole names first, then by the number of characters
    other than `*`. Patterns of equal precedence keep their order."""
    return sorted(patterns, key=lambda one: ("*" in one, -len(one.replace("*", ""))))


def static_address(table: Mapping[str, str], host: str) -> str | None:
    """Return the address of a host in `[network] resolve`, by the most specific pattern, or None.
    Hosts that are addresses are never resolved.

    table: pattern (from `read_pattern`) to address. host: as for `matches`.
    """
    name = host.lower().removesuffix(".")
    if not table or is_address(name):
        return None
    if name in table:  # a table may hold thousands of whole names
        return table[name]
    patterns = by_specificity(one for one in table if "*" in one)
    return next((table[one] for one in patterns if matches(one, name)), None)
