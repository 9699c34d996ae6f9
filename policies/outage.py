"""Is it a host that cannot be reached, or our own network? Judged by who failed since the last
answer: pure values, replaced with every attempt."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# Hosts that answered before do not vanish together: a few of them are enough.
REACHED_MIN: Final = 3
# Hosts that never answered may all be dead, and many are tried while one living host rests: it
# takes a row of them that is unlikely by the share of dead hosts so far, and silence for a while.
UNKNOWN_MIN: Final = 20
UNKNOWN_MAX: Final = 2_000
UNLIKELY: Final = 1e-6
SILENT_S_MIN: Final = 10.0


class Evidence(Struct, frozen=True):
    """Hosts whose last attempt failed without a byte of an answer, and nobody answered since.

    reached: those that could not be connected to and had answered before, and, while no host has
    answered yet, those whose failure speaks of our own side (no route, no resolver). unknown: all
    others that could not be connected to. mute: those that had answered before and now took a
    connection, to say nothing or to break it off, as a firewall or a proxy without a network does;
    or for which a proxy said that it could not reach them.
    """

    reached: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()

    @property
    def hosts(self) -> int:
        """How many distinct hosts."""
        return len(self.reached | self.unknown | self.mute)


NONE: Final = Evidence()


def after_failure(
    before: Evidence, host: str, *, reached: bool, local: bool, connected: bool = False
) -> Evidence:
    """One more attempt failed: of an unknown host, its first. reached: this host answered before.
    local: the failure speaks of our own side. connected: it came after a connection was made."""
    if connected:
        if not reached or host in before.mute or len(before.mute) >= UNKNOWN_MIN:
            return before
        return replace(before, mute=before.mute | {host})
    if reached or local:
        if host in before.reached:
            return before
        return replace(before, reached=before.reached | {host})
    if host in before.unknown or len(before.unknown) >= UNKNOWN_MAX:
        return before
    return replace(before, unknown=before.unknown | {host})


def unknown_min(hosts_reached: int, hosts_dead: int) -> int:
    """How many new hosts must fail in a row, where so many answered at first and so many did
    not before."""
    if not hosts_reached:
        return UNKNOWN_MIN
    dead = (hosts_dead + 1) / (hosts_reached + hosts_dead + 2)
    return max(UNKNOWN_MIN, min(math.ceil(math.log(UNLIKELY) / math.log(dead)), UNKNOWN_MAX))


def is_outage(evidence: Evidence, *, hosts_reached: int, hosts_dead: int, silent_s: float) -> bool:
    """Do these failures show that our own network is at fault?

    hosts_reached: how many distinct hosts have answered. Where those are two, both must fail. One
    host cannot tell: it waits on its own retry clock. hosts_dead: how many failed at their first
    try before this evidence. silent_s: how long no host has answered.
    """
    enough = min(REACHED_MIN, max(hosts_reached, 2))
    if len(evidence.reached) >= enough:
        return True
    # A host can take connections and be unwell, and a few of them together: all have to, or many.
    failing = len(evidence.reached | evidence.mute)
    if failing >= min(UNKNOWN_MIN, max(hosts_reached, REACHED_MIN)):
        return True
    if silent_s < SILENT_S_MIN:
        return False
    if failing >= min(UNKNOWN_MIN, max(hosts_reached, 2)):
        return True
    return len(evidence.reached | evidence.unknown) >= unknown_min(hosts_reached, hosts_dead)
