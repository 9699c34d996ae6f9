"""Pause, slow and resume hosts: one, several by name, or all that match."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Final

from crawler.clock import Clock
from crawler.config.host_patterns import read_pattern
from crawler.daemon.api.host_names import stored_name
from crawler.daemon.api.pending_commands import in_time
from crawler.daemon.monitoring.event_stream import EventStream
from crawler.daemon.problem import invalid
from crawler.daemon.responses import Controlled, from_row
from crawler.explain.explanation import host_named
from crawler.orders import HOSTS_AT_ONCE, SLOW_S_MAX
from crawler.steering.control import Control
from crawler.steering.host_selection import (
    ALL_HOSTS,
    PAUSED,
    RESUMED,
    HostSelection,
    HostSetting,
    selected,
)
from crawler.steering.queue_holds import QueueReason
from storage.paging import ROWS_MAX, HostFilter
from storage.reader import Reader

NAMES_SHOWN: Final = 20  # of the hosts in a response and in the log


class HostCommand(enum.StrEnum):
    """What is done to hosts."""

    PAUSE = "pause"
    RESUME = "resume"
    SLOW = "slow"


class HostSteering:
    """The commands about hosts of one running crawl."""

    def __init__(
        self, control: Control, reader: Reader, *, clock: Clock, stream: EventStream
    ) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._stream = stream

    async def steer(
        self,
        command: HostCommand,
        *,
        hosts: Sequence[str] = (),
        selection: HostSelection | None = None,
        delay_s: float | None = None,
        dry_run: bool = False,
    ) -> Controlled:
        """Pause, slow (with `delay_s`) or resume the named hosts, or the selected ones, and return
        how many. Durable, and in effect immediately. If a name is unknown, nothing changes. Hosts
        that are discovered later do not count. dry_run: change nothing. Raises Problem."""
        setting = _setting(command, delay_s)
        if (selection is None) is (not hosts):
            raise invalid("host", "name one host, several hosts, or conditions such as a pattern")
        known = await self._known(hosts) if selection is None else ()
        pieces = _once(known) if selection is None else self._selected(selection)
        count, names = 0, list[str]()
        complete = False
        try:
            async with aclosing(pieces) as found:
                async for piece in found:
                    names += piece[: NAMES_SHOWN - len(names)]
                    count += len(piece) if dry_run else await self._steer(piece, setting)
            complete = True
        finally:
            if (count or complete) and not dry_run:
                self._announce(command, count, names, selection, delay_s, complete=complete)
        single = await self._reader.host(names[0]) if len(known) == 1 else None
        return from_row(Controlled, single or {}, hosts=count, names=names, dry_run=dry_run)

    async def _steer(self, hosts: Sequence[str], setting: HostSetting) -> int:
        """Steer some hosts, and stop between batches if the database makes them wait."""
        done = 0
        for at in range(0, len(hosts), HOSTS_AT_ONCE):
            batch = hosts[at : at + HOSTS_AT_ONCE]
            done += await in_time(self._control, self._control.steer_hosts(batch, setting))
        return done

    def _selected(self, selection: HostSelection) -> AsyncGenerator[Sequence[str], None]:
        held = self._control.hosts_held(QueueReason(selection.reason)) if selection.reason else None
        return selected(self._reader, selection, now_s=self._clock.wall(), held=held)

    async def _known(self, hosts: Sequence[str]) -> Sequence[str]:
        """The names by which the store has hosts. Raises Problem."""
        if len(hosts) > ROWS_MAX:
            raise invalid("hosts", f"at most {ROWS_MAX:,} in one request; use a pattern", 413)
        found = dict[str, None]()
        for text in hosts:
            found[await stored_name(self._reader, text)] = None
        return list(found)

    def _announce(
        self,
        command: HostCommand,
        count: int,
        names: Sequence[str],
        selection: HostSelection | None,
        delay_s: float | None,
        *,
        complete: bool,
    ) -> None:
        """One event for the whole command."""
        values: dict[str, object] = {} if delay_s is None else {"delay_s": delay_s}
        if selection is None and len(names) == 1:
            self._stream.change(f"host_{command}", host=names[0], **values)
            return
        values |= {"hosts": count, "names": names}
        if selection is not None:
            values["selection"] = str(selection)
        if not complete:
            values["complete"] = False
        self._stream.change(f"host_{command}", **values)


def selection_of(
    *, pattern: str = "", search: str = "", state: str = "", reason: str = ""
) -> HostSelection | None:
    """The selection by the conditions of a request; None if there is none. Raises Problem."""
    if not (pattern or search or state or reason):
        return None
    check_reason(reason)
    if state and state not in tuple(HostFilter):
        raise invalid("state", f"must be one of {', '.join(HostFilter)}")
    if not (pattern or search or reason) and state == HostFilter.ALL:
        raise invalid("state", 'is no condition; for all hosts, use the pattern "*"')
    return HostSelection(
        pattern=pattern_of(pattern) or ALL_HOSTS,
        search=part_of_name(search).lower(),
        state=state or HostFilter.ALL,
        reason=reason,
    )


def check_reason(reason: str) -> None:
    """Raises Problem unless it is "" or a QueueReason."""
    if reason and reason not in tuple(QueueReason):
        raise invalid("reason", f"must be one of {', '.join(QueueReason)}")


def pattern_of(text: str) -> str:
    """A host pattern in canonical form; "" for none. Raises Problem."""
    try:
        return read_pattern(text) if text else ""
    except ValueError as error:
        raise invalid("pattern", str(error)) from None


def part_of_name(search: str) -> str:
    """What to search for in stored names, which are ASCII: whole labels can be converted."""
    if not search.isascii():
        with suppress(ValueError):
            return host_named(search)
    return search


def _setting(command: HostCommand, delay_s: float | None) -> HostSetting:
    if command is not HostCommand.SLOW:
        return PAUSED if command is HostCommand.PAUSE else RESUMED
    if delay_s is None or not 0 <= delay_s <= SLOW_S_MAX:  # false for NaN, too
        raise invalid("delay_s", f"must be 0 to {SLOW_S_MAX:,.0f} seconds")
    return HostSetting(slow_s=delay_s)


async def _once(names: Sequence[str]) -> AsyncGenerator[Sequence[str], None]:
    yield names
