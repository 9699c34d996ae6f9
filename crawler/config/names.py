"""Host names with `*`, as `[site."…"]` and `[network] resolve` write them."""

from __future__ import annotations

import functools
import ipaddress
import re

import ada_url

_GLOB = re.compile(r"[a-z0-9_*-]+(?:\.[a-z0-9_*-]+)*\Z")


def read_pattern(text: str) -> str:
    """The pattern in canonical form. Raises ValueError with a sentence.

    A host name or address is itself; `*` stands for any characters, dots included; a leading `*.`
    covers the name after it as well (`*.example.org`: example.org and all below).
    """
    name = text.strip().lower().removesuffix(".")
    if not name:
        raise ValueError("a host name is needed, not an empty text")
    if "://" in name or "/" in name:
        raise ValueError(
            f'{text!r} is not a host name: write "example.org" or "*.example.org", '
            "without scheme and path"
        )
    if _address(name):
        return _address(name)
    if re.search(r":\d*\Z", name):
        raise ValueError(
            f"{text!r} names a port, but a host's rules cover all its ports: leave it out"
        )
    prefix, rest = ("*.", name[2:]) if name.startswith("*.") else ("", name)
    if "*" not in rest:
        try:
            rest = ada_url.URL(f"http://{rest}/").hostname
        except ValueError:
            raise ValueError(f"{text!r} is not a host name") from None
    if not _GLOB.match(rest):
        raise ValueError(f"{text!r} is not a host name")
    return prefix + rest


def _address(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        return ""


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    head, rest = (r"(?:.*\.)?", pattern[2:]) if pattern.startswith("*.") else ("", pattern)
    return re.compile(head + ".*".join(map(re.escape, re.split(r"\*+", rest))) + r"\Z")


def matches(pattern: str, host: str) -> bool:
    """Does a pattern (from `read_pattern`) cover a host (lower case, no port, no brackets)?"""
    return pattern == host or ("*" in pattern and _compiled(pattern).match(host) is not None)


def specificity(pattern: str) -> tuple[bool, int]:
    """The larger, the more specific: a whole name before any `*`, then more characters given."""
    return ("*" not in pattern, len(pattern.replace("*", "")))
