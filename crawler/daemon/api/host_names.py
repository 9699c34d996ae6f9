"""Names of hosts in requests."""

from __future__ import annotations

from crawler.daemon.problem import invalid, unknown_host
from crawler.explain.explanation import host_named, known_host
from storage.reader import Reader


def host_name(text: str) -> str:
    """A host in its normal form. Raises Problem."""
    try:
        return host_named(text)
    except ValueError:
        raise invalid("host", "must be a host such as example.com") from None


async def stored_name(reader: Reader, text: str) -> str:
    """The name under which the store has a host. Raises Problem."""
    name = host_name(text)
    row = await known_host(reader, name)
    if row is None:
        raise unknown_host(name)
    return str(row["host"])
