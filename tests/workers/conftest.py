"""Crews of workers on a database of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from tests.workers.crew import Crew, Web

NewCrew = Callable[..., Crew]


@pytest.fixture
async def new_crew(tmp_path: Path, postgres_url: str) -> AsyncIterator[NewCrew]:
    """Make a crew for a web; the keyword arguments are sections of its config."""
    crews: list[Crew] = []

    def make(web: Web, *, url: str = postgres_url, **sections: Mapping[str, object]) -> Crew:
        crew = Crew(tmp_path, web, url, **sections)
        crews.append(crew)
        return crew

    yield make
    for crew in crews:
        await crew.close()
