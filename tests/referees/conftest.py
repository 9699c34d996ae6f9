"""External data, located by environment variables; README.md describes each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Data = Callable[[str], list[Path]]


@pytest.fixture
def data() -> Data:
    """`data("REFEREE_PAGES")` is the list of paths in that variable, separated as in PATH. The test
    is skipped if the variable is not set, and fails if a path does not exist."""

    def paths(variable: str) -> list[Path]:
        value = os.environ.get(variable)
        if not value:
            pytest.skip(f"{variable} is not set")
        found = [Path(path) for path in value.split(os.pathsep)]
        for path in found:
            assert path.exists(), f"{variable}: no such file or folder: {path}"
        return found

    return paths
