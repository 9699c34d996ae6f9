"""Recent contacts of each host with the delay required after them, and its recent errors, for the
web page. Bounded, and lost at a restart; what must last is in the store."""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from crawler.clock import Clock
from crawler.observer import Contacted, Observer
from policies.retries import is_address_refused
from storage.columns import CONTACTS_KEPT

HOSTS_MAX: Final = 1_000  # of 50 contacts each: some 2 MB
ERRORS_PER_HOST: Final = 10
STARTS_ALIKE_S: Final = 0.005  # the store's clock and ours differ by rounding


class RequiredDelay(Struct, frozen=True, kw_only=True):
    """The delay required after one contact. Unix seconds, seconds."""

    start_at: float  # of the contact
    rest_s: float
    source: str  # in words
    late_s: float


class RecentError(Struct, frozen=True, kw_only=True):
    """A contact that failed, or was answered with 429 or 5xx; or an origin at an address that the
    config does not allow, which was not contacted."""

    at: float
    url: str
    kind: str
    status: int | None
    what: str  # "timeout: no answer within 30 s"; "" where the status explains it


class _HostHistory:
    """The latest contacts of one host, in arrays: 1.6 KB, not 8 KB with an object for each."""

    __slots__ = ("_numbers", "_sources", "errors")

    def __init__(self) -> None:
        self._numbers = array("d")  # three of each contact
        self._sources: list[str] = []
        self.errors: deque[RecentError] | None = None  # most hosts have none

    def add(self, seen: Contacted) -> None:
        if len(self._sources) == CONTACTS_KEPT:
            del self._numbers[:3], self._sources[0]
        self._numbers.extend((seen.started_at, seen.next_in_s, seen.late_s))
        self._sources.append(seen.rest_source)

    def add_error(self, error: RecentError) -> None:
        if self.errors is None:
            self.errors = deque(maxlen=ERRORS_PER_HOST)
        self.errors.append(error)

    def delays(self) -> tuple[RequiredDelay, ...]:
        numbers = iter(self._numbers)
        return tuple(
            RequiredDelay(start_at=start_at, rest_s=rest_s, source=source, late_s=late_s)
            for start_at, rest_s, late_s, source in zip(
                numbers, numbers, numbers, self._sources, strict=True
            )
        )


class RecentContacts(Observer):
    """Keeps the recent contacts of the hosts contacted last."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hosts: OrderedDict[str, _HostHistory] = OrderedDict()

    def contacted(self, seen: Contacted) -> None:
        host = self._host(seen.slot)
        host.add(seen)
        if seen.error is not None or seen.status == 429 or (seen.status or 0) >= 500:
            what = "" if seen.error is None else f"{seen.error.value}: {seen.sentence}"
            host.add_error(
                RecentError(
                    at=seen.started_at,
                    url=seen.url,
                    kind=seen.kind,
                    status=seen.status,
                    what=what,
                )
            )

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        if is_address_refused(error):  # the others were contacted
            at = self._clock.wall()
            refused = RecentError(at=at, url=f"{origin}/", kind="", status=None, what=error)
            self._host(slot).add_error(refused)

    def _host(self, slot: str) -> _HostHistory:
        host = self._hosts.get(slot)
        if host is None:
            host = self._hosts[slot] = _HostHistory()
            if len(self._hosts) > HOSTS_MAX:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(slot)
        return host

    def delays(self, host: str) -> Sequence[RequiredDelay]:
        """Return the delays before the host's latest contacts in this run, oldest first."""
        found = self._hosts.get(host)
        return () if found is None else found.delays()

    def errors(self, host: str) -> Sequence[RecentError]:
        """The host's latest errors in this run, newest first."""
        found = self._hosts.get(host)
        return () if found is None or not found.errors else tuple(reversed(found.errors))
