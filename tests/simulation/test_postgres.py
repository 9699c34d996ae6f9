"""Whole crawls by workers on a PostgreSQL server, drawn from numbers; see docs/simulation.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer
from tests.simulation import postgres
from tests.simulation.__main__ import report
from tests.simulation.postgres_scenario import draw
from tests.simulation.running import simulate
from tests.simulation.shrinking import failure_of
from tests.simulation.trace import trace_of

# A command and a cut; steps of the clock; kills; a database that goes back; freezing; two workers
# of which one is replaced.
SEEDS = (1, 10, 12, 20, 22, 31)


@pytest.fixture(autouse=True)
def _server(postgres_server: PostgresServer) -> None:
    postgres.use(postgres_server)


@pytest.fixture(scope="module")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    yield request.getfixturevalue("postgres")
    postgres.use(None)


@pytest.mark.parametrize("seed", SEEDS)
def test_promises_are_kept(seed: int) -> None:
    if failure_of(draw(seed)):
        pytest.fail(report(seed, draw), pytrace=False)


def test_one_seed_replays_exactly() -> None:
    assert trace_of(simulate(draw(22))) == trace_of(simulate(draw(22)))
