"""The verbs of a shared store, where there is one worker only: nothing is renewed or published."""

from __future__ import annotations

from math import inf

from storage.engine import operator_work
from storage.engine.writer import Writer
from storage.store import Order, Pulse, WorkerStatus


def pulse(writer: Writer, session: int, status: WorkerStatus) -> Pulse:
    return Pulse(lease_s=inf, paused=operator_work.paused(writer))


def publish(writer: Writer, session: int, order: Order) -> None:
    """Nothing: nobody else would receive it."""
