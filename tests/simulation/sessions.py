"""A `PoliteSession` of its own beside the crawl: callers without a crawl, on a store in memory."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

from crawler.embedding.caller_gate import gate_of
from crawler.embedding.request_arguments import read_arguments
from crawler.embedding.session_requests import LocalRequests
from crawler.errors import CourtlyError
from crawler.processing.context import crawl_context
from crawler.scheduling.caller_session import CallerSession
from crawler.scheduling.robots_identity import session_name
from policies.holds import FaultOwner
from policies.retries import FailureCode
from storage.sqlite import memory_store
from tests.simulation.history import Done, History
from tests.simulation.web import Contact, SiteFetcher

if TYPE_CHECKING:
    from tests.simulation.running import Simulation

SESSION: int = 0  # the number of the worker, in the log


async def fetch_alone(world: Simulation, url: str, done: Done) -> None:
    """Fetch a URL through a session of its own, of a host that no crawl contacts."""
    clock = world.clock
    store = memory_store(wall=clock.wall, monotonic=clock.monotonic)
    store._calls._sleep_until = clock.sleep_until
    session = await store.open_session(session_name(world.config))
    context = crawl_context(
        world.config, store=store, session=session, clock=clock, faults=FaultOwner.CALLER
    )
    try:
        async with CallerSession(context, SiteFetcher(world.web, SESSION, clock)) as loop:
            response = await LocalRequests(gate_of(loop)).fetch(read_arguments(url))
            done.result = response.status
    except CourtlyError as error:
        done.error = type(error).__name__
    finally:
        await store.close()


def sessions(history: History) -> list[str]:
    """A session gives up a host after `max_attempts` attempts to connect to it, and not before."""
    most = history.configs[0][2].fetch.max_attempts
    tries: dict[str, list[Contact]] = defaultdict(list)
    for contact in history.contacts:
        if contact.worker == SESSION:
            tries[contact.host].append(contact)
    problems = []
    for run in history.runs:
        for done in run.done:
            if done.verb != "session" or done.to_s >= run.to_s:
                continue
            failed = list(itertools.takewhile(_is_unconnected, tries[done.host]))
            answered = len(failed) < len(tries[done.host])
            if len(failed) > most or (done.error and not answered and len(failed) < most):
                problems.append(
                    f"a session tried {len(failed)} times to connect, of {most}: {done.host} "
                    f"{done.error}"
                )
    return problems


def _is_unconnected(contact: Contact) -> bool:
    return contact.failure is FailureCode.CONNECT
