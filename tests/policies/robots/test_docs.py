"""docs/robots.md names every dialect, and says of everything that is ours that it is."""

from __future__ import annotations

from pathlib import Path

from policies import robots
from tests.tables import each

TEXT = " ".join((Path(__file__).parents[3] / "docs" / "robots.md").read_text("utf-8").split())


@each("name", robots.DIALECTS)
def test_what_is_ours_stands_in_the_docs(name: str) -> None:
    row = robots.DIALECTS[name]
    assert f"**{name}**" in TEXT
    for aspect, text in row.ours.items():
        assert f"{aspect.value}: {text}" in TEXT
