"""Which hosts a command is for, and what it sets. For a running crawl and for one at rest."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from msgspec import Struct

from storage.paging import ROWS_MAX
from storage.read_records import HostsHeld
from storage.reader import Reader

ALL_HOSTS: Final = "*"


class HostSetting(Struct, frozen=True, kw_only=True):
    """What a command sets, as `Store.set_controls`: None leaves a setting unchanged."""

    paused: bool | None = None
    slow_s: float | None = None
    clear_slow: bool = False


PAUSED: Final = HostSetting(paused=True)
RESUMED: Final = HostSetting(paused=False, clear_slow=True)


class HostSelection(Struct, frozen=True, kw_only=True):
    """Known hosts that fulfil all conditions. pattern: as in `[site."…"]` (a result of
    `read_pattern`). search: part of a name. state: of `storage.paging.HostFilter`. reason: what
    holds their queued URLs, a `QueueReason`."""

    pattern: str = ALL_HOSTS
    search: str = ""
    state: str = "all"
    reason: str = ""

    def __str__(self) -> str:
        """The conditions in words."""
        conditions = [] if self.pattern == ALL_HOSTS else [f'matching "{self.pattern}"']
        conditions += [f'containing "{self.search}"'] if self.search else []
        conditions += [f"in the state {self.state}"] if self.state != "all" else []
        conditions += [f"held by {self.reason}"] if self.reason else []
        return f"hosts {' and '.join(conditions)}" if conditions else "all hosts"


async def selected(
    reader: Reader, selection: HostSelection, *, now_s: float, held: HostsHeld | None = None
) -> AsyncGenerator[Sequence[str], None]:
    """The names of the selected hosts, in order, in pieces of at most ROWS_MAX. Hosts may be
    changed meanwhile. held: the hosts of its `reason`. Raises StoreError."""
    pattern = "" if selection.pattern == ALL_HOSTS else selection.pattern
    after: str | None = ""
    while after is not None:
        page = await reader.hosts_page(
            search=selection.search,
            pattern=pattern,
            state=selection.state,
            held=held,
            limit=ROWS_MAX,
            after=after,
            now_s=now_s,
        )
        if page.rows:
            yield [str(row["host"]) for row in page.rows]
        after = page.after
