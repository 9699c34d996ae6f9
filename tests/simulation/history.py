"""What a simulation came to: all that the oracles judge by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crawler.config import Config
from storage.store import Row
from tests.simulation.scenario import Scenario
from tests.simulation.web import ALWAYS, Contact


@dataclass(slots=True, kw_only=True)
class Done:
    """A deed that was done. Between its beginning and its end, either state may be in force."""

    verb: str
    host: str
    value: Any
    from_s: float
    to_s: float = ALWAYS
    error: str = ""
    result: Any = None
    begun: int = 0  # contacts that had begun before it


@dataclass(slots=True, kw_only=True)
class RunRecord:
    """One run. Times are monotonic seconds."""

    number: int
    from_s: float
    to_s: float = ALWAYS
    end: str = "itself"  # how it ended: "itself", "stop", "cancel", "kill"
    done: list[Done] = field(default_factory=list)
    calls: int = 0  # of the store
    elapsed_s: float = 0.0
    hosts_max: int = 0  # most in memory at a time
    waiting: dict[str, str] = field(default_factory=dict)  # hosts with URLs left, and why
    killed: dict[int, float] = field(default_factory=dict)  # workers, and when
    error: str = ""


@dataclass(slots=True, kw_only=True)
class SinkEntry:
    """What a sink was given. Only what was flushed is there after a kill."""

    verb: str  # "put" or "withdraw"
    url: str
    at_s: float
    status: int = 0
    indexable: bool = True
    flushed: bool = False


@dataclass(slots=True, kw_only=True)
class History:
    scenario: Scenario
    began_s: float = 0.0
    wall_from_s: float = 0.0  # Unix seconds at the monotonic time 0, at first
    contacts: list[Contact] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    configs: list[tuple[float, float, Config]] = field(default_factory=list)  # from, surely from
    rows: dict[str, list[Row]] = field(default_factory=dict)
    explained: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sink: list[SinkEntry] = field(default_factory=list)
    sound: list[str] = field(default_factory=list)  # what the check of the database found
    steps: list[tuple[float, float]] = field(default_factory=list)  # of the wall clock: when, by
    slept: list[tuple[float, float]] = field(default_factory=list)  # the machine: when, how long
    faults: list[tuple[float, float]] = field(default_factory=list)  # of the store: from, to
    errors: list[str] = field(default_factory=list)  # what nobody would have heard
    warnings: list[str] = field(default_factory=list)  # what the program logged for operators

    def of_run(self, run: RunRecord) -> list[Contact]:
        return [one for one in self.contacts if run.from_s <= one.start_s <= run.to_s]

    @property
    def last(self) -> RunRecord:
        return self.runs[-1]
