"""Arguments of embedded objects that stand for keys of the config."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from yarl import URL

from crawler import ConfigError, Crawler, Politeness, PoliteSession
from crawler.config import from_dict
from crawler.embedding.settings import seed_texts, settings
from policies import robots

UA = "examplebot/1.0 (+https://example.com/bot)"


def test_durations_and_dialects_are_given_as_in_the_config_or_as_constants() -> None:
    for made in (
        Crawler(delay="1m 30s", dialect=robots.GOOGLE, user_agent=UA),
        PoliteSession(delay="90s", dialect=[robots.GOOGLE], user_agent=UA),
        Politeness(delay=90, dialect=("google",), user_agent=UA),
    ):
        config = made._config
        assert config.politeness.delay == 90.0
        assert config.robots.dialect == ("google",)


@pytest.mark.parametrize("row", robots.DIALECTS.values(), ids=robots.DIALECTS)
def test_every_dialect_constant_is_its_name(row: robots.Dialect) -> None:
    for config in (
        settings(None, dialect=row),
        settings(None, dialect=["rfc9309", row]),
        settings({"robots": {"dialect": row}}),
        settings({"robots": {"dialect": [robots.RFC9309, row.name]}}),
    ):
        assert config.robots.dialect[-1] == row.name
    site = from_dict({"site": {"a.test": {"dialect": row}}}).site("a.test")
    assert site.robots.dialect == (row.name,)


def test_a_dialect_that_is_not_one_of_ours_is_refused() -> None:
    mine = robots.Dialect(**msgspec.structs.asdict(robots.SLURP))
    dialects: tuple[Any, ...] = (mine, ["google", mine])
    for given in dialects:
        with pytest.raises(ConfigError, match='"slurp" is a dialect of your own: give one of'):
            settings(None, dialect=given)


@pytest.mark.parametrize("delay", ["2 seconds", "", "-1s", float("nan"), True, -1])
def test_a_delay_that_is_none_is_refused_by_name(delay: float | str) -> None:
    with pytest.raises(ConfigError, match=r"arguments: politeness\.delay"):
        PoliteSession(delay=delay, user_agent=UA)


def test_seeds_are_strings_or_urls() -> None:
    url = URL("http://a.test/")
    assert seed_texts("http://a.test/") == seed_texts(url) == seed_texts([url]) == [str(url)]
    assert seed_texts(iter(["@seeds.txt", url])) == ["@seeds.txt", str(url)]
    for given, shown in ((None, "None"), (5, "type int"), (b"http://a.test/", "type bytes")):
        for seeds in (given, [given], [url, given, given]):
            with pytest.raises(ConfigError, match=f"{shown} is not a seed: expected a string"):
                Crawler(seeds)  # type: ignore[arg-type]
