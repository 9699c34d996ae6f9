"""Which reader is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from crawler.documents import reader
from crawler.version import __version__


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reader.name.cache_clear()
    yield
    reader.name.cache_clear()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An installed extension of this version."""
    made = ModuleType("courtly_native")
    made.__dict__["VERSION"] = __version__
    monkeypatch.setitem(sys.modules, "courtly_native", made)
    monkeypatch.delenv(reader.VARIABLE, raising=False)
    return made


@pytest.mark.usefixtures("module")
def test_the_native_reader_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reader.name() == "native"
    monkeypatch.setenv(reader.VARIABLE, "native")
    reader.name.cache_clear()
    assert reader.name() == "native"


@pytest.mark.usefixtures("module")
def test_the_variable_chooses_the_reader_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reader.VARIABLE, "pure")
    assert reader.name() == "pure"


@pytest.mark.usefixtures("module")
def test_any_other_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reader.VARIABLE, "rust")
    with pytest.raises(reader.ReaderError, match='COURTLY_READER is "rust"; it must be'):
        reader.name()


def test_without_the_extension_pages_are_read_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "courtly_native", None)
    monkeypatch.delenv(reader.VARIABLE, raising=False)
    assert reader.name() == "pure"
    monkeypatch.setenv(reader.VARIABLE, "native")
    reader.name.cache_clear()
    with pytest.raises(reader.ReaderError, match="courtly-native is not installed"):
        reader.name()


def test_an_extension_of_another_version_is_not_used(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.__dict__["VERSION"] = "0.0.1"
    assert reader.name() == "pure"
    monkeypatch.setenv(reader.VARIABLE, "native")
    reader.name.cache_clear()
    with pytest.raises(reader.ReaderError, match=r"courtly-native 0\.0\.1 is not of this version"):
        reader.name()
