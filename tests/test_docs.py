"""The documents tell the truth where a machine can see it: files, tests, links, keys, views."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.config import from_dict
from storage.rows import VIEWS

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *DOCS]
PACKAGES = ("policies", "storage", "crawler")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return ARCHITECTURE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def modules() -> Iterator[str]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*")):
            if file.suffix in (".py", ".sql"):
                yield file.relative_to(ROOT).as_posix()


def rooms() -> set[str]:
    """The files of the map, each under the package, or room of one, in whose table it stands."""
    found = set()
    room = ""
    for line in section("Map of rooms").splitlines():
        if heading := re.match(r"####? `([^`]+)`", line):
            room = heading[1]
        elif line.startswith("| "):
            for name in re.findall(r"`([^`]+)`", line.partition(" | ")[0]):
                found.add(f"{room}/{name}")
    return found


def test_every_file_has_its_place_in_the_map_and_every_place_its_file() -> None:
    known = rooms()
    assert len(known) > 100
    assert [name for name in modules() if name not in known] == []
    assert [name for name in known if not (ROOT / name).exists()] == []


def test_the_tests_stand_in_rooms_as_what_they_test_does() -> None:
    for package in PACKAGES:
        for file in (ROOT / "tests" / package).rglob("test_*.py"):
            room = file.parent.relative_to(ROOT / "tests")
            # What every store must pass has a room of its own.
            assert (ROOT / room).is_dir() or room == Path("storage/contract"), file


def test_the_tests_that_hold_the_laws_are_there() -> None:
    tests = ROOT / "tests"
    defined = {
        name
        for file in tests.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    }
    laws = section("Laws")
    names = re.findall(r"`(test_\w+)(…?)`", laws)
    assert len(names) > 80
    for name, more in names:
        assert name in defined or (more and any(one.startswith(name) for one in defined)), name
    for path in re.findall(r"`([\w/]+/(?:\w+\.py)?)`", laws):
        assert (tests / path).exists() or (ROOT / path).exists(), path


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#]+)", readme))
    assert [page.name for page in DOCS if f"docs/{page.name}" not in linked] == []
    assert {"ARCHITECTURE.md", "CHANGELOG.md", "config.example.toml"} <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_configs_that_are_shown_are_configs(page: Path) -> None:
    for block in re.findall(
        r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        from_dict(tomllib.loads(block))


def test_every_view_and_column_is_described() -> None:
    text = (ROOT / "docs" / "database.md").read_text(encoding="utf-8")
    for view, columns in VIEWS.items():
        told = text.partition(f"\n## {view}\n")[2].partition("\n## ")[0]
        assert told, view
        assert [name for name in columns if f"`{name}`" not in told] == [], view
