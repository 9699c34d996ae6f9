"""The keys that say where the database is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawler.config import Config, ConfigError, from_dict, load
from crawler.config.reload import defer_restarts, describe_changes
from crawler.daemon.api.settings_list import effective_settings
from storage.location import FileLocation, ServerLocation

URL = "postgresql://me@db.test/crawl"
MARK = "hunter2"


def config(**storage: object) -> Config:
    return from_dict({"storage": storage})


def test_a_server() -> None:
    made = config(url=URL, password="env:SECRET", lease="30s")
    assert made.storage.location == ServerLocation(
        user="me", hosts=(("db.test", 5432),), database="crawl", password="env:SECRET"
    )
    assert made.storage.lease_s == 30
    assert config(url=URL).storage.lease_s == 15
    assert made.warnings == ()


def test_a_password_file_is_relative_to_the_config(tmp_path: Path) -> None:
    written = tmp_path / "crawl.toml"
    written.write_text(f'storage.url = "{URL}"\nstorage.password = "file:secret"\n')
    location = load(written).storage.location
    assert isinstance(location, ServerLocation)
    assert location.password == f"file:{tmp_path / 'secret'}"


def test_the_password_stays_with_another_database() -> None:
    made = config(url="sqlite:x.db", password="env:SECRET")
    location = made.override({"storage": {"url": URL}}, where="--db").storage.location
    assert isinstance(location, ServerLocation)
    assert location.password == "env:SECRET"
    back = made.override({"storage": {"url": "sqlite:y.db"}}, where="--db")
    assert back.storage.location == FileLocation(Path("y.db"))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("url", f"postgresql://me:{MARK}@db.test/crawl", "must not contain a password"),
        ("url", f"postgresql://me@db.test/crawl?password={MARK}", "must not contain a password"),
        ("url", "postgresql://db.test", "must name one database"),
        ("url", "mysql://db.test/crawl", 'must be "sqlite:" and a path, as in "sqlite:crawl.db"'),
        ("url", "crawl.db", 'must be "sqlite:" and a path, as in "sqlite:crawl.db"'),
        ("password", MARK, 'must be "env:NAME" or "file:PATH", not the password itself'),
        ("password", f"env:{MARK} x", 'must be "env:NAME" or "file:PATH"'),
        ("lease", "4s", "must be at least 5, not 4"),
        ("lease", "6m", "must be at most 300, not 360"),
        ("lease", float("inf"), "must be finite"),
    ],
)
def test_what_is_refused(key: str, value: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        config(**{key: value})
    assert f"config: storage.{key}: {sentence}" in str(refused.value)
    assert MARK not in str(refused.value)


def test_keys_without_effect_are_warned_of() -> None:
    storage: Any
    for storage, warned in [
        ({"lease": 30}, "storage.lease: has no effect with SQLite"),
        ({"password": "env:A"}, "storage.password: has no effect with SQLite"),
        ({"url": URL, "max_size": "1GB"}, "storage.max_size: has no effect with PostgreSQL and"),
        ({"url": URL, "min_free": "1GB"}, "storage.min_free: has no effect with PostgreSQL and"),
    ]:
        (warning,) = config(**storage).warnings
        assert warning.startswith(f"config: {warned}")


def test_sinks_are_on_a_disk_of_this_machine() -> None:
    sink = {"kind": "jsonl", "path": "pages.jsonl"}
    made = from_dict({"storage": {"url": URL, "max_size": "1GB"}, "sink": [sink]})
    assert made.warnings == ()


def test_a_reload_keeps_the_database() -> None:
    old, new = config(), config(url=URL, password="env:A", lease=20)
    kept, described = defer_restarts(new, old)
    assert kept.storage == old.storage
    assert described == (
        f'[storage] url: "sqlite:crawl.db" to "{URL.replace("me@", "…@")}"',
        "[storage] password: changed",
        "[storage] lease: 15 s to 20 s",
    )
    assert describe_changes(new, new) == ()


def test_the_settings_show_where_the_password_is() -> None:
    shown = {one.key: one.value for one in effective_settings(config(url=URL), None)}
    assert shown["storage.url"] == "postgresql://…@db.test/crawl"
    shown = {one.key: one.value for one in effective_settings(config(password="env:A"), None)}
    assert shown["storage.password"] == "env:A"
