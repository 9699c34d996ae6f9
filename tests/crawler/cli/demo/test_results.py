"""The commands that the demo suggests."""

from __future__ import annotations

import pytest

from crawler.cli.demo.results import command_name


@pytest.mark.parametrize(
    ("called", "found", "shown"),
    [
        (".venv/bin/courtly", None, ".venv/bin/courtly"),
        ("my env/bin/courtly", None, "'my env/bin/courtly'"),
        (".venv/bin/courtly", "/usr/bin/courtly", "courtly"),
        ("crawler/cli/__main__.py", None, "courtly"),
    ],
)
def test_the_suggested_command_can_be_run(
    called: str, found: str | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [called, "demo"])
    monkeypatch.setattr("shutil.which", lambda name: found)
    assert command_name() == shown
