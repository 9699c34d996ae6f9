"""A history as text, to be read and to be compared."""

from __future__ import annotations

import json
from dataclasses import asdict

from tests.simulation.history import History

# Columns that name the process or are made up anew in each run.
UNSTEADY = frozenset({"id", "source_id", "target_id", "session", "epoch"})


def trace_of(history: History) -> str:
    """Everything that must be the same whenever the same scenario is run."""
    lines = [str(contact) for contact in history.contacts]
    for run in history.runs:
        lines.append(
            f"run {run.number}: {run.from_s:.3f} – {run.to_s:.3f} {run.end}, {run.calls} calls"
        )
        lines += [f"  {done.from_s:.3f} {done.verb} {done.host} {done.error}" for done in run.done]
    for view, rows in history.rows.items():
        lines += [
            f"{view}: {line}"
            for line in sorted(
                json.dumps({k: v for k, v in row.items() if k not in UNSTEADY}, default=str)
                for row in rows
            )
        ]
    lines += [f"sink: {entry.verb} {entry.url} {entry.at_s:.3f}" for entry in history.sink]
    lines += [*history.errors, *history.sound]
    return "\n".join(lines) + "\n"


def shown(history: History) -> str:
    """The scenario and what happened, in their order, for people."""
    scenario = history.scenario
    lines = [
        (
            f"seed {scenario.seed}: {scenario.engine}, {scenario.workers} worker(s), order "
            f"{scenario.order}, store {scenario.slow_store_s:g} s, sinks {scenario.sinks}"
        ),
        f"config {json.dumps(scenario.sections)}",
        f"seeds {' '.join(scenario.seeds)}",
    ]
    for host in scenario.hosts.values():
        lines.append(f"{host.name} at {host.address}, {host.latency_s:g} s, dead {host.dead}")
        lines += [f"  robots.txt from {at:g} s: {_short(plan)}" for at, plan in host.robots]
        lines += [f"  {path}: {_short(page)}" for path, page in host.pages.items()]
    events = [(contact.start_s, str(contact)) for contact in history.contacts]
    for run in history.runs:
        events.append((run.from_s, f"=== run {run.number} begins"))
        events.append((run.to_s, f"=== run {run.number} ends: {run.end} {run.waiting or ''}"))
        events += [
            (done.from_s, f"--- {done.verb} {done.host} {done.value} {done.error}")
            for done in run.done
        ]
    lines += [f"{at_s:12.3f} {text}" for at_s, text in sorted(events)]
    for view in ("queued", "blocked", "failed", "visited"):
        lines += [f"{view}: {row['url']}" for row in history.rows.get(view, ())]
    return "\n".join(lines) + "\n"


def _short(plan: object) -> str:
    """Only what is not as usual."""
    usual = asdict(type(plan)())  # type: ignore[call-overload]
    return json.dumps(
        {key: value for key, value in asdict(plan).items() if value != usual[key]}  # type: ignore[call-overload]
    )
