"""Outage detection: whether hosts cannot be reached, or our own network is down, judged by the
hosts that failed since the last answer."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

# Hosts that have answered before rarely fail together: a few of them are enough.
REACHED_MIN: Final = 3
# Hosts that never answered may all be dead, and many are tried during one politeness delay. Enough
# of them must fail in a row to be unlikely, given the share of dead hosts so far, with no answer at
# all.
UNKNOWN_MIN: Final = 20
UNKNOWN_MAX: Final = 2_000
UNLIKELY: Final = 1e-6
SILENT_S_MIN: Final = 10.0


class OutageEvidence(Struct, frozen=True):
    """Hosts whose last attempt failed without a byte of an answer, since any host last answered.

    reached: those that could not be connected to but had answered before; and, while no host has
    answered yet, those whose failure was reported by our own side (no route, no resolver).
    unknown: all others that could not be connected to.
    mute: those that had answered before and now accepted a connection without answering, as a
      firewall or a proxy without a network does; or that a proxy could not reach.
    """

    reached: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()

    @property
    def hosts(self) -> int:
        """The number of distinct hosts."""
        return len(self.reached | self.unknown | self.mute)


NONE: Final = OutageEvidence()


def after_failure(
    before: OutageEvidence, host: str, *, reached: bool, local: bool, connected: bool = False
) -> OutageEvidence:
    """The evidence after one more failed attempt; of an unknown host, only its first counts.

    reached: the host has answered before. local: the failure was reported by our own side.
    connected: a connection was made.
    """
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
    """How many new hosts must fail in a row, given how many have answered and how many have not."""
    if not hosts_reached:
        return UNKNOWN_MIN
    dead = (hosts_dead + 1) / (hosts_reached + hosts_dead + 2)
    return max(UNKNOWN_MIN, min(math.ceil(math.log(UNLIKELY) / math.log(dead)), UNKNOWN_MAX))


def is_outage(
    evidence: OutageEvidence, *, hosts_reached: int, hosts_dead: int, silent_s: float
) -> bool:
    """Whether these failures show that our own network is down.

    hosts_reached: the number of distinct hosts that have answered. Of two, both must fail; one
    alone
      is not enough evidence, and is retried by itself.
    hosts_dead: the number that failed at their first attempt before this evidence.
    silent_s: seconds since any host last answered.
    """
    enough = min(REACHED_MIN, max(hosts_reached, 2))
    if len(evidence.reached) >= enough:
        return True
    # Hosts can accept connections and still fail, even a few at a time: all must, or many.
    failing = len(evidence.reached | evidence.mute)
    if failing >= min(UNKNOWN_MIN, max(hosts_reached, REACHED_MIN)):
        return True
    if silent_s < SILENT_S_MIN:
        return False
    if failing >= min(UNKNOWN_MIN, max(hosts_reached, 2)):
        return True
    return len(evidence.reached | evidence.unknown) >= unknown_min(hosts_reached, hosts_dead)
