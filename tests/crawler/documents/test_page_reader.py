"""Which reader is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from crawler.config import ConfigError
from crawler.documents import page_reader
from crawler.version import __version__


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    page_reader.name.cache_clear()
    yield
    page_reader.name.cache_clear()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An installed extension of this version."""
    made = ModuleType("courtly_native")
    made.__dict__["VERSION"] = __version__
    monkeypatch.setitem(sys.modules, "courtly_native", made)
    monkeypatch.delenv(page_reader.VARIABLE, raising=False)
    return made


@pytest.mark.usefixtures("module")
def test_the_native_reader_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert page_reader.name() == "native"
    monkeypatch.setenv(page_reader.VARIABLE, "native")
    page_reader.name.cache_clear()
    assert page_reader.name() == "native"


@pytest.mark.usefixtures("module")
def test_the_variable_chooses_the_reader_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(page_reader.VARIABLE, "pure")
    assert page_reader.name() == "pure"


@pytest.mark.usefixtures("module")
def test_any_other_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(page_reader.VARIABLE, "rust")
    with pytest.raises(ConfigError, match='COURTLY_READER is "rust"; it must be'):
        page_reader.name()


def test_without_the_extension_pages_are_read_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "courtly_native", None)
    monkeypatch.delenv(page_reader.VARIABLE, raising=False)
    assert page_reader.name() == "pure"
    monkeypatch.setenv(page_reader.VARIABLE, "native")
    page_reader.name.cache_clear()
    with pytest.raises(ConfigError, match="courtly-native is not installed"):
        page_reader.name()


def test_an_extension_of_another_version_is_not_used(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    module.__dict__["VERSION"] = "0.0.1"
    assert page_reader.name() == "pure"
    monkeypatch.setenv(page_reader.VARIABLE, "native")
    page_reader.name.cache_clear()
    with pytest.raises(ConfigError, match=r"courtly-native 0\.0\.1 is not of this version"):
        page_reader.name()
