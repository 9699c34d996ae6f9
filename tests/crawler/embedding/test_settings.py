"""Arguments of embedded objects that stand for keys of the config."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from yarl import URL

from crawler import ConfigError, Crawler, Politeness, PoliteSession, embedding
from crawler.config import from_dict
from crawler.config.keys import SECTIONS
from crawler.embedding.settings import (
    KEYS,
    CrawlOptions,
    Setup,
    seed_texts,
    settings,
    setup_of,
)
from policies import robots

UA = "examplebot/1.0 (+https://example.com/bot)"


def keywords_of(call: Any) -> dict[str, inspect.Parameter]:
    found = inspect.signature(call).parameters
    return {name: one for name, one in found.items() if one.kind is one.KEYWORD_ONLY}


def test_the_keywords_of_sessions_and_crawls_are_those_of_a_setup() -> None:
    """Each is declared in one place, with its type; the public methods repeat it for editors."""
    assert set(keywords_of(setup_of)) == {one.name for one in fields(Setup)}
    assert get_type_hints(CrawlOptions).keys() == KEYS.keys()
    assert all(key in SECTIONS[section] for section, key in KEYS.values())
    shared = {name: one.annotation for name, one in keywords_of(setup_of).items()}
    shared |= {name: one.__forward_arg__ for name, one in CrawlOptions.__annotations__.items()}
    for kind, own in (
        (PoliteSession, {"cache", "via", "token", "share"}),
        (Politeness, set()),
        (Crawler, {"sinks", "links"}),
    ):
        keywords = keywords_of(kind)
        assert own <= keywords.keys()
        for name in keywords.keys() - own:
            assert keywords[name].annotation == shared[name], (kind, name)
    session = set(keywords_of(setup_of)) | {"user_agent", "delay", "allow", "dialect"}
    assert session <= keywords_of(PoliteSession).keys()
    assert session - {"fetcher"} == keywords_of(Politeness).keys()
    assert session <= keywords_of(Crawler).keys() | KEYS.keys()


def test_only_public_methods_repeat_the_arguments_of_a_caller() -> None:
    """Elsewhere they are passed on together: no other signature is longer than eight."""
    long = set()
    for path in Path(embedding.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([one for one in given if one.arg != "self"]) > 8:
                    long.add((path.stem, node.name))
    assert long == {("session", "__init__"), ("session", "fetch")}


def test_an_unknown_keyword_is_refused() -> None:
    kinds: tuple[Any, ...] = (Crawler, PoliteSession, Politeness)
    for kind in kinds:
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'dealy'"):
            kind(dealy=1)


def test_an_empty_dialect_is_no_default() -> None:
    with pytest.raises(ConfigError, match="dialect"):
        settings(None, dialect="")
    assert settings(None, dialect=(), allow=[], delay=None) == settings(None)


def test_durations_and_dialects_are_given_as_in_the_config_or_as_constants() -> None:
    for made in (
        Crawler(delay="1m 30s", dialect=robots.GOOGLE, user_agent=UA),
        PoliteSession(delay="90s", dialect=[robots.GOOGLE], user_agent=UA),
        Politeness(delay=90, dialect=("google",), user_agent=UA),
    ):
        config = made._setup.config
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
