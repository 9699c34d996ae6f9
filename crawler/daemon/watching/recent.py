"""What happened lately, for the page: each host's contacts with the rest they had to be followed
by, and its latest errors. Bounded, and lost at a restart; what must last is in the store.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from crawler.observer import Contacted
from policies.holds import Hold
from storage.columns import CONTACTS_KEPT
from storage.store import Outcome

HOSTS_MAX: Final = 1_000  # of 50 contacts each: some 2 MB
ERRORS_PER_HOST: Final = 10
STARTS_ALIKE_S: Final = 0.005  # the store's clock and ours differ by rounding


class Floor(Struct, frozen=True, kw_only=True):
    """The rest that one contact had to be followed by. Unix seconds, seconds."""

    start_at: float
    rest_s: float
    source: str  # in words
    late_s: float


class Trouble(Struct, frozen=True, kw_only=True):
    """A contact that failed, or was refused."""

    at: float
    url: str
    kind: str
    status: int | None
    what: str  # "timeout: no answer within 30 s", or "" where the status says it


class _Host:
    """The latest of one host, without an object for each contact: 1.6 KB of fifty, and not 8."""

    __slots__ = ("_numbers", "_sources", "troubles")

    def __init__(self) -> None:
        self._numbers = array("d")  # three of each contact
        self._sources: list[str] = []
        self.troubles: deque[Trouble] | None = None  # most hosts give none

    def add(self, start_at: float, rest_s: float, late_s: float, source: str) -> None:
        if len(self._sources) == CONTACTS_KEPT:
            del self._numbers[:3], self._sources[0]
        self._numbers.extend((start_at, rest_s, late_s))
        self._sources.append(source)

    def floors(self) -> tuple[Floor, ...]:
        numbers = iter(self._numbers)
        return tuple(
            Floor(start_at=start_at, rest_s=rest_s, source=source, late_s=late_s)
            for start_at, rest_s, late_s, source in zip(
                numbers, numbers, numbers, self._sources, strict=True
            )
        )


class Recent:
    """An observer that remembers the hosts contacted last."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, _Host] = OrderedDict()

    def contacted(self, seen: Contacted) -> None:
        host = self._hosts.get(seen.slot)
        if host is None:
            host = self._hosts[seen.slot] = _Host()
            if len(self._hosts) > HOSTS_MAX:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(seen.slot)
        host.add(seen.started_at, seen.next_in_s, seen.late_s, seen.rest_source)
        if seen.error is not None or seen.status == 429 or (seen.status or 0) >= 500:
            what = "" if seen.error is None else f"{seen.error.value}: {seen.sentence}"
            if host.troubles is None:
                host.troubles = deque(maxlen=ERRORS_PER_HOST)
            host.troubles.append(
                Trouble(
                    at=seen.started_at,
                    url=seen.url,
                    kind=seen.kind,
                    status=seen.status,
                    what=what,
                )
            )

    def settled(self, url: str, outcome: Outcome) -> None:
        """Nothing of it is shown: the store has it."""

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        """Nothing of it is shown: the store has it."""

    def committed(self, elapsed_s: float, outcomes: int, links: int) -> None:
        """Nothing of it is shown."""

    def hold_began(self, hold: Hold) -> None:
        """The status shows it."""

    def hold_ended(self, hold: Hold, elapsed_s: float) -> None:
        """The status shows it."""

    def floors(self, host: str) -> Sequence[Floor]:
        """Of the host's latest contacts in this run, oldest first."""
        found = self._hosts.get(host)
        return () if found is None else found.floors()

    def troubles(self, host: str) -> Sequence[Trouble]:
        """The host's latest errors in this run, newest first."""
        found = self._hosts.get(host)
        return () if found is None or not found.troubles else tuple(reversed(found.troubles))
