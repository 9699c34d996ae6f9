"""What to do about what went wrong: sentences with commands that can be copied."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from crawler.events import Often

# What may be one's own, in the pieces that one would allow.
_OWN = tuple(
    map(
        ipaddress.ip_network,
        (
            "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
            "100.64.0.0/10", "fc00::/7",
        ),
    )
)  # fmt: skip
_REFUSED = re.compile(r"address: (\S+) is .*network\.allow")


def range_to_allow(error: str) -> str | None:
    """The range that `network.allow` lacks by this error, if one may have it of one's own."""
    found = _REFUSED.match(error)
    if found is None:
        return None
    try:
        address = ipaddress.ip_address(found[1].partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    return next((str(network) for network in _OWN if address in network), None)


def after_failures(errors: Sequence[Often], again: str) -> list[str]:
    """What to do about failures. `again`: the options that name the database and the config."""
    lines = [
        f"all of them: courtly show failed{again}",
        f"to queue them again: courtly retry failed{again}",
    ]
    ranges = dict.fromkeys(filter(None, (range_to_allow(each.words) for each in errors)))
    if "::1/128" in ranges:  # "localhost" is both, and its server may listen on either
        ranges = {"127.0.0.0/8": None, **ranges}
    if ranges:
        allow = "".join(f" --allow {network}" for network in ranges)
        lines.append(
            "if these addresses are yours, queue them again, and let the crawl connect to them: "
            f"courtly crawl{allow}{again}"
        )
    return lines
