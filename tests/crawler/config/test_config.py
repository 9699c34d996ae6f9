"""Reading a config: defaults, values, and all problems together with their lines."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from crawler.config import Config, ConfigError, SinkConfig, from_dict, load
from crawler.config.keys import SECTIONS, SINK, SITE_KEYS, SITE_SECTIONS
from crawler.config.reload import describe_changes
from policies.pacing import PacingRules, Per, Window
from policies.robots_state import RobotsRules, Unreachable
from policies.scope import Follow, ScopeRules
from storage.location import FileLocation
from tests.crawler.config.example import example

EXAMPLE = Path(__file__).parents[3] / "config.example.toml"


def problems(data: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        from_dict(data)
    return caught.value.problems


def problem(data: dict[str, object]) -> str:
    (only,) = problems(data)
    return only


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "crawl.toml"


def file_problems(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path)
    return [text.removeprefix(f"{path}:") for text in caught.value.problems]


# ---------------------------------------------------------------- defaults and the example


def test_an_empty_config_has_the_defaults() -> None:
    config = from_dict({})
    assert config.scope == ScopeRules()
    assert config.politeness == PacingRules()
    assert config.robots == RobotsRules()
    assert config.crawl.max_pages == math.inf
    assert config.crawl.patience_s == 600
    assert config.storage.location == FileLocation(Path("crawl.db"))
    assert config.warnings == ()


def test_the_example_is_made_from_the_keys() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text == example(), "python -m tests.crawler.config.example > config.example.toml"


def test_the_example_says_the_defaults() -> None:
    example, default = load(EXAMPLE), from_dict({}, base=EXAMPLE.parent)
    for section in SECTIONS:
        assert getattr(example, section) == getattr(default, section), section
    assert example.sinks == ()
    assert example.sites == ()


def test_the_example_has_every_key() -> None:
    given = load(EXAMPLE).given.values
    for section, keys in SECTIONS.items():
        assert set(given[section]) == {key.field for key in keys.values()}


def test_the_example_s_comments_hold_a_sink_and_a_site(written: Path) -> None:
    commented = EXAMPLE.read_text(encoding="utf-8").partition("# [[sink]]\n")[2]
    lines = [line.removeprefix("# ") for line in commented.splitlines()]
    sink_keys = [line for line in lines if " = " in line and "# mirror: " not in line][:-1]
    written.write_text("\n".join(["[[sink]]", *sink_keys, *lines[-2:]]), encoding="utf-8")
    config = load(written)
    assert config.site("www.example.org").politeness.delay == 5
    assert config.given.sinks is not None
    assert len(config.given.sinks[0]) == len(sink_keys)
    path = written.parent / "pages.jsonl"
    assert config.sinks == (SinkConfig(kind="jsonl", path=path, gzip=False),)


def test_a_warc_is_compressed_unless_its_name_says_otherwise() -> None:
    def sink(**keys: object) -> SinkConfig:
        return from_dict({"sink": [keys]}).sinks[0]

    assert sink(kind="warc", path="a.warc.gz").compresses
    assert not sink(kind="warc", path="a.warc").compresses
    assert sink(kind="warc", path="a.warc", gzip=True).compresses
    assert sink(kind="warc", path="a").max_file_bytes == 1e9
    assert sink(kind="jsonl", path="a.jsonl.gz").compresses
    assert sink(kind="jsonl", path="a", status=[200, "3xx"]).status == (200, 3)


def test_no_two_sections_of_a_site_table_share_a_key() -> None:
    assert len(SITE_KEYS) == sum(len(SECTIONS[section]) for section in SITE_SECTIONS)


# ---------------------------------------------------------------- what values mean


def test_values_become_the_types_of_the_rules() -> None:
    config = from_dict(
        {
            "scope": {"follow": "domain", "content_types": ["Text/HTML"], "max_pages_per_host": 5},
            "politeness": {"delay": "250ms", "per": "ip", "visit_window": "22:00-06:00"},
            "robots": {
                "dialect": ["slurp", "slurp"],
                "token": "examplebot",
                "unreachable": "closed",
            },
            "fetch": {"timeout": "1m", "max_body": "500KB", "headers": {"accept-language": "en"}},
            "network": {"allow": ["127.0.0.1", "::1"], "resolve": {"*.Test": "127.0.0.1"}},
            "crawl": {"patience": "1.5h", "max_depth": 0, "from": "me@example.com"},
            "daemon": {"listen": "[::1]:80"},
        }
    )
    assert config.scope.follow is Follow.DOMAIN
    assert config.scope.content_types == ("text/html",)
    assert config.scope.max_pages_per_host == 5
    assert config.politeness.delay == 0.25
    assert config.politeness.per is Per.IP
    assert config.politeness.visit_window == Window(22 * 3600, 6 * 3600)
    assert config.robots.dialect == ("slurp", "slurp")
    assert config.robots.token == ("examplebot",)
    assert config.robots.unreachable is Unreachable.CLOSED
    assert (config.fetch.timeout_s, config.fetch.max_body_bytes) == (60.0, 500_000)
    assert from_dict({"scope": {"max_url_bytes": "1KiB"}}).scope.max_url_bytes == 1024
    assert config.fetch.headers == {"Accept-Language": "en"}
    assert config.network.allow == ("127.0.0.1/32", "::1/128")
    assert config.network.resolve == {"*.test": "127.0.0.1"}
    assert (config.crawl.patience_s, config.crawl.max_depth) == (5400.0, 0)
    assert config.crawl.from_ == "me@example.com"
    assert config.daemon.listens_on == ("::1", 80)


def test_an_invalid_value_is_refused() -> None:
    for section, key, value, sentence in [
        ("crawl", "concurrency", 0, "must be at least 1, not 0"),
        ("crawl", "concurrency", True, "expected a whole number, got true or false"),
        ("crawl", "concurrency", 1.5, "must be a whole number, not 1.5"),
        ("crawl", "concurrency", math.inf, "must be finite"),
        ("crawl", "max_pages", -1, "must be at least 0, not -1"),
        ("crawl", "max_pages", 1.5, "must be a whole number or inf"),
        ("crawl", "max_pages", math.nan, "must be a number, not nan"),
        ("crawl", "patience", "ten", "a duration is seconds or a string such as"),
        ("crawl", "user_agent", "bot/1\r\nX: y", "control characters"),
        ("crawl", "user_agent", "bücher/1", "must be ASCII"),
        ("crawl", "user_agent", "(+https://example.com)", "must begin with the crawler's name"),
        ("crawl", "from", "me", "must be an e-mail address"),
        ("crawl", "seeds", "https://a.test/", "expected a list, got a string"),
        ("crawl", "seeds", ["a.test"], "the seed 'a.test' is not an absolute URL"),
        ("crawl", "seeds", ["@"], "must be followed by the name of a seed file"),
        (
            "scope",
            "follow",
            "hosts",
            'must be "host", "domain" or "any", not "hosts"; did you mean "host"?',
        ),
        ("scope", "exclude", ["/private/*"], "matches no URL"),
        ("scope", "exclude", [""], "an empty pattern matches no URL"),
        ("scope", "content_types", ["html"], 'must be a type such as "text/html"'),
        ("scope", "drop_params", ["a=b"], "must be a parameter name"),
        ("scope", "max_url_bytes", math.inf, "must be finite"),
        ("scope", "sitemaps", 1, "expected true or false, got a whole number"),
        ("politeness", "delay", -0.1, "must be at least 0, not -0.1"),
        ("politeness", "delay", math.nan, "must be a number, not nan"),
        ("politeness", "delay", math.inf, "must be finite"),
        ("politeness", "latency_factor", "2", "expected a number, got a string"),
        ("politeness", "per", "hosts", 'did you mean "host"?'),
        ("politeness", "visit_window", "22-6", "a window is written"),
        ("robots", "dialect", "gogle", 'must be "slurp"'),
        ("robots", "dialect", [], "must not be empty"),
        ("robots", "token", [""], "a token must not be empty"),
        ("robots", "unreachable", "shut", 'must be "open" or "closed"'),
        ("robots", "obey", False, "can be false only for a site you own"),
        ("robots", "crawl_delay", False, "can be false only for a site you own"),
        ("fetch", "timeout", 0, "must be more than 0"),
        ("fetch", "max_body", "10M", "a size is bytes or a string such as"),
        ("fetch", "max_body", 0, "must be at least 1"),
        ("fetch", "max_attempts", 0, "must be at least 1"),
        ("fetch", "headers", {"Host": "a"}, 'the header "Host" cannot be set here'),
        ("fetch", "headers", {"If-None-Match": "a"}, "cannot be set here"),
        ("fetch", "headers", {"A B": "a"}, "cannot be a header name"),
        ("fetch", "headers", {"X-A": "a\nb"}, "control characters"),
        ("fetch", "headers", {"X-A": 5}, "expected a string, got a whole number"),
        ("fetch", "headers", {"X-A": "1", "x-a": "2"}, "is given twice"),
        ("fetch", "proxy", "socks5://127.0.0.1", "must be an http(s) URL"),
        ("fetch", "proxy", "http://[::1", "must be an http(s) URL"),
        ("network", "allow", ["127.0.0.1/8"], 'did you mean "127.0.0.0/8"?'),
        ("network", "allow", ["home"], "must be an address or a range"),
        ("network", "resolve", {"a.test": "b.test"}, '"b.test" is not an IP address'),
        ("network", "resolve", {"a.test:80": "127.0.0.1"}, "names a port"),
        ("network", "resolve", {"10.0.0.1": "127.0.0.1"}, "only names are resolved"),
        ("scope", "sitemap_paths", ["sitemap.xml"], 'begins with a single "/"'),
        ("scope", "sitemap_paths", ["//b.test/sitemap.xml"], 'begins with a single "/"'),
        ("scope", "sitemap_paths", ["/\\b.test/sitemap.xml"], 'begins with a single "/"'),
        ("scope", "sitemap_paths", ["/"], "home page"),
        ("scope", "sitemap_paths", ["/a/..?x"], "home page"),
        ("network", "resolve", {"[::1]": "127.0.0.1"}, "only names are resolved"),
        ("storage", "url", "crawl.db", 'must be "sqlite:" and a path'),
        ("storage", "url", "sqlite:", "must name a file"),
        ("storage", "url", "sqlite::memory:", "must name a file"),
        ("storage", "url", "sqlite://host/crawl.db", "names a host"),
        ("storage", "file_mode", 600, "expected a string"),
        ("storage", "file_mode", "600 ", "must be permissions"),
        ("storage", "file_mode", "0400", "let the owner read and write"),
        ("storage", "file_mode", "0755", "must be permissions"),
        ("storage", "file_mode", "4600", "must be permissions"),
        ("daemon", "listen", "localhost", "must be ADDRESS:PORT"),
        ("daemon", "listen", "example.com:80", "is not an address to listen on"),
        ("daemon", "listen", "127.0.0.1:70000", "must be ADDRESS:PORT"),
    ]:
        text = problem({section: {key: value}})
        assert text.startswith(f"config: {section}.{key}: ")
        assert sentence in text


def test_a_daemon_beyond_loopback_needs_a_token() -> None:
    server = {"storage": {"url": "postgresql://db/crawl"}}
    said = problem({"daemon": {"listen": "0.0.0.0:80"}, **server})
    assert "daemon.token: must be set" in said
    assert from_dict({"daemon": {"listen": "0.0.0.0:80"}}).daemon.token == ""  # generated later
    assert from_dict({"daemon": {"listen": "0.0.0.0:80", "token": "x"}}).daemon.token == "x"


def test_every_invalid_element_is_reported() -> None:
    assert len(problems({"crawl": {"seeds": ["a.test", "https://a.test/", 5, "b.test"]}})) == 3


# ---------------------------------------------------------------- unknown names


def test_an_unknown_key_asks_did_you_mean() -> None:
    text = problem({"crawl": {"max_page": 5}})
    assert text == 'config: crawl.max_page: there is no such key; did you mean "max_pages"?'


def test_a_key_in_the_wrong_section_names_the_right_one() -> None:
    text = problem({"crawl": {"delay": 5}})
    assert text == "config: crawl.delay: there is no such key here; it belongs in [politeness]"


def test_an_unknown_section_asks_did_you_mean() -> None:
    text = problem({"politness": {"delay": 5}})
    assert text == 'config: politness: there is no such section; did you mean "politeness"?'


def test_a_key_outside_any_section_names_its_section() -> None:
    assert problem({"delay": 5}) == "config: delay: belongs in a section: [politeness]"


def test_a_section_is_a_table() -> None:
    assert "is a section: write [crawl]" in problem({"crawl": 5})


def test_sinks_are_checked() -> None:
    assert (
        problem({"sink": {"kind": "jsonl"}}) == "config: sink: is a list of sinks: write [[sink]]"
    )
    assert "sink.path: is missing" in problem({"sink": [{"kind": "jsonl"}]})
    assert 'must be "jsonl", "warc" or "mirror"' in problem(
        {"sink": [{"kind": "csv", "path": "a"}]}
    )
    for sink, sentence in (
        ({"size": 1}, "sink.size: there is no such key"),
        ({"includ": []}, 'there is no such key; did you mean "include"?'),
        ({"body": "none"}, "sink.body: is not a key of this kind of sink: it belongs to jsonl"),
        ({"status": [200, 700]}, "must be a status such as 200"),
        ({"max_file": "big"}, "a size is bytes or a string"),
        ({"include": ["/a"]}, "matches no URL"),
    ):
        assert sentence in problem({"sink": [{"kind": "warc", "path": "a", **sink}]})
    twice = [{"kind": "jsonl", "path": "a"}, {"kind": "warc", "path": "a"}]
    assert "is already the path of another sink" in problem({"sink": twice})


def test_the_file_of_a_sink_contains_what_its_name_says() -> None:
    for sink, sentence in [
        (
            {"kind": "jsonl", "path": "a.warc.gz"},
            "is named like warc, and the kind is jsonl: set k",
        ),
        (
            {"kind": "warc", "path": "a.NDJSON"},
            "is named like jsonl, and the kind is warc: set kin",
        ),
        ({"kind": "jsonl", "path": "a.parquet"}, "no sink writes that, or choose another name"),
        (
            {"kind": "jsonl", "path": "a.jsonl.gz", "gzip": False},
            'ends in ".gz", and gzip is false',
        ),
    ]:
        assert sentence in problem({"sink": [sink]})


def test_other_names_of_sinks_are_accepted() -> None:
    for kind, path in (("jsonl", "a.json"), ("warc", "a.warc"), ("mirror", "a.csv"), ("warc", "a")):
        from_dict({"sink": [{"kind": kind, "path": path}]})


# ---------------------------------------------------------------- files and lines


def test_all_problems_of_a_file_are_reported_with_their_lines(written: Path) -> None:
    found = file_problems(
        written,
        """\
[crawl]
concurrency = 0
seeds = [
  "https://a.test/",
  # a comment, "with quotes"
  "a.test",
]
politeness.delay = 3
[robots]
dialect = ["slurp",
           "surlp"]
[fetch]
headers = { "X-A" = "1", Host = "a" }
[site."*.example.org"]
delay = -1
[[sink]]
kind = "jsonl"
path = "a"
[[sink]]
kind = "json"
path = "b"
""",
    )
    assert [text.partition(": ")[0] for text in found] == ["2", "6", "8", "11", "13", "15", "20"]
    assert found[2] == "8: crawl.politeness: there is no such key"
    assert found[5].startswith('15: site."*.example.org".delay: must be at least 0')


def test_dotted_keys_at_the_root_are_sections(written: Path) -> None:
    written.write_text('politeness.delay = 3\nsite."a.test".delay = 4\n', encoding="utf-8")
    config = load(written)
    assert config.politeness.delay == 3
    assert config.site("a.test").politeness.delay == 4


def test_a_syntax_error_has_its_line(written: Path) -> None:
    (text,) = file_problems(written, "[crawl]\nconcurrency = \n")
    assert text.startswith("2: is not TOML: ")


def test_a_syntax_error_at_the_end_has_its_line(written: Path) -> None:
    (text,) = file_problems(written, "[crawl]\nseeds = [\n")
    assert text.startswith("2: is not TOML: ")


def test_a_number_longer_than_python_reads_is_refused(written: Path) -> None:
    written.write_text(f"[fetch]\ntimeout = {'9' * 5_000}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not TOML"):
        load(written)


def test_a_file_nested_without_end_is_refused(written: Path) -> None:
    written.write_text("a = " + "[" * 50_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        load(written)


def test_a_byte_order_mark_and_crlf_are_understood(written: Path) -> None:
    written.write_bytes(b"\xef\xbb\xbf[crawl]\r\nconcurrency = 5\r\n")
    assert load(written).crawl.concurrency == 5


def test_a_file_in_another_encoding_is_refused_with_its_line(written: Path) -> None:
    written.write_bytes(b'[crawl]\nuser_agent = "\xe4"\n')
    with pytest.raises(ConfigError, match=r"crawl\.toml:2: is not UTF-8"):
        load(written)


def test_a_missing_file_or_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path)


def test_paths_are_relative_to_the_file(written: Path) -> None:
    written.write_text('crawl.seeds = ["@seeds.txt"]\nstorage.url = "sqlite:db/a.db"\n')
    config = load(written)
    assert config.crawl.seeds == (f"@{written.parent / 'seeds.txt'}",)
    assert config.storage.location == FileLocation(written.parent / "db/a.db")


def test_the_default_database_is_next_to_the_file(written: Path) -> None:
    written.write_text("")
    assert load(written).storage.location == FileLocation(written.parent / "crawl.db")


@pytest.mark.parametrize("url", ["sqlite:/a/b.db", "sqlite:///a/b.db", "SQLite:/a/b.db"])
def test_an_absolute_database_path_stays(url: str, tmp_path: Path) -> None:
    config = from_dict({"storage": {"url": url}}, base=tmp_path)
    assert config.storage.location == FileLocation(Path("/a/b.db"))


# ---------------------------------------------------------------- overriding


def test_an_override_wins_key_by_key(written: Path) -> None:
    written.write_text(
        'crawl.concurrency = 5\npoliteness.delay = 3\nstorage.url = "sqlite:a.db"\n'
        '[site."a.test"]\ndelay = 9\n[site."b.test"]\ndelay = 9\n'
    )
    under = load(written)
    config = under.override(
        {"crawl": {"max_pages": 7}, "politeness": {"delay": 0}, "site": {"a.test": {"obey": False}}}
    )
    assert (config.crawl.concurrency, config.crawl.max_pages) == (5, 7)
    assert config.politeness.delay == 0
    assert config.storage.location == FileLocation(written.parent / "a.db")
    assert config.site("a.test").politeness.delay == 9
    assert config.site("a.test").robots.obey is False
    assert config.site("b.test").robots.obey is True
    assert under.politeness.delay == 3


def test_the_paths_of_an_override_start_where_it_says(written: Path, tmp_path: Path) -> None:
    written.write_text('storage.url = "sqlite:a.db"\n')
    config = load(written).override({"storage": {"url": "sqlite:b.db"}}, base=tmp_path / "x")
    assert config.storage.location == FileLocation(tmp_path / "x/b.db")


def test_a_problem_of_an_override_names_its_source() -> None:
    with pytest.raises(ConfigError, match=r"--delay: politeness\.delay: must be at least 0"):
        from_dict({}).override({"politeness": {"delay": -1}}, where="--delay")


def test_enums_and_tuples_are_accepted() -> None:
    config = from_dict(
        {"scope": {"follow": Follow.ANY, "include": ("*",)}, "politeness": {"delay": 2}}
    )
    assert config.scope.follow is Follow.ANY
    assert isinstance(config, Config)


def test_a_minimum_interval_beyond_the_maximum_is_warned_about() -> None:
    (warning,) = from_dict({"revisit": {"min_interval": "9d", "max_interval": "1d"}}).warnings
    assert warning.endswith(
        "revisit.min_interval: is longer than max_interval, which therefore has no effect"
    )
    assert from_dict({"revisit": {"min_interval": "1d", "max_interval": "1d"}}).warnings == ()


def test_permissions_of_new_files() -> None:
    assert from_dict({}).storage.mode == 0o600
    assert from_dict({"storage": {"file_mode": "640"}}).storage.mode == 0o640


_WORDS = [
    "",
    "10m",
    "5MB",
    "*",
    "@",
    "@x",
    "env:A",
    "file:",
    "https://a.test/",
    "sqlite:///a",
    "2xx",
]
_TEXT = st.sampled_from(_WORDS) | st.text(max_size=8)
_HUGE = st.integers(62, 2_000).map(lambda bits: 1 << bits)
_SCALAR = st.none() | st.booleans() | st.integers() | _HUGE | st.floats() | st.dates() | _TEXT
_VALUE = _SCALAR | st.lists(_SCALAR, max_size=3) | st.dictionaries(_TEXT, _SCALAR, max_size=3)
_KEY = st.sampled_from([(section, name) for section in SECTIONS for name in SECTIONS[section]])


@given(_KEY, _VALUE, st.booleans())
def test_any_value_of_any_key_is_read_or_refused_with_its_name(
    key: tuple[str, str], value: object, for_site: bool
) -> None:
    section, name = key
    for_site = for_site and section in SITE_SECTIONS
    table = 'site."a.test"' if for_site else section
    data: dict[str, object] = {name: value}
    try:
        config = from_dict({"site": {"a.test": data}} if for_site else {section: data})
    except ConfigError as error:
        problems = [one for one in error.problems if f"config: {table}.{name}" not in one]
    else:
        problems = [one for one in describe_changes(from_dict({}), config) if name not in one]
    assert problems == []


@given(_KEY, _VALUE)
def test_a_site_takes_what_its_section_takes(key: tuple[str, str], value: object) -> None:
    section, name = key
    assume(
        section in SITE_SECTIONS and value is not False and name not in ("credentials", "headers")
    )
    field = SITE_KEYS[name].field

    def read(data: dict[str, object]) -> object:
        try:
            return getattr(getattr(from_dict(data).site("a.test"), section), field)
        except ConfigError as error:
            return [one.partition(f"{name}: ")[2] for one in error.problems]

    assert read({section: {name: value}}) == read({"site": {"a.test": {name: value}}})


@given(st.sampled_from(sorted(SINK)), st.sampled_from(SINK["kind"].choices), _VALUE)
def test_any_value_of_any_sink_key_is_read_or_refused_with_its_name(
    name: str, kind: str, value: object
) -> None:
    problems: list[str] = []
    try:
        (sink,) = from_dict({"sink": [{"kind": kind, "path": "x", name: value}]}).sinks
        assert sink.compresses in (True, False)
    except ConfigError as error:
        problems += error.problems
    assert [one for one in problems if f"config: sink.{name}: " not in one] == []
