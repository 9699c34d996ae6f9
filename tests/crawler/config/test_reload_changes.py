"""Comparing a config that is read again with the one in force."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crawler.config import from_dict
from crawler.config.keys import SECTIONS, SITE_SECTIONS
from crawler.config.reload import defer_restarts, describe_changes, same_pacing, same_robots_rules


def test_a_change_is_described_with_its_table_and_unit() -> None:
    old: Any
    new: Any
    for old, new, words in [
        ({}, {"crawl": {"max_pages": 500}}, "[crawl] max_pages: no limit to 500"),
        ({}, {"crawl": {"patience": "1h"}}, "[crawl] patience: 600 s to 3600 s"),
        ({}, {"politeness": {"delay": "250ms"}}, "[politeness] delay: 1 s to 0.25 s"),
        (
            {},
            {"politeness": {"visit_window": "22:00-06:30"}},
            "[politeness] visit_window: none to 22:00-06:30",
        ),
        ({}, {"scope": {"follow": "any"}}, "[scope] follow: host to any"),
        (
            {"scope": {"exclude": ["*.a", "*.b"]}},
            {"scope": {"exclude": ["*.b", "*.c", "*.d", "*.e", "*.f"]}},
            '[scope] exclude: +4 patterns, -1 pattern ("*.a")',
        ),
        ({}, {"scope": {"sitemaps": False}}, "[scope] sitemaps: true to false"),
        (
            {},
            {"fetch": {"max_body": "1MB"}},
            "[fetch] max_body: 10,000,000 bytes to 1,000,000 bytes",
        ),
        ({}, {"network": {"allow": ["10.0.0.0/8"]}}, '[network] allow: +1 entry ("10.0.0.0/8")'),
        (
            {"network": {"resolve": {"a.test": "127.0.0.1", "b.test": "127.0.0.1"}}},
            {"network": {"resolve": {"a.test": "127.0.0.2", "c.test": "127.0.0.1"}}},
            '[network] resolve: +1 entry ("c.test"), -1 entry ("b.test"), 1 changed',
        ),
        ({}, {"robots": {"dialect": ["bing", "google"]}}, '"slurp" to "bing", "google"'),
        ({}, {"site": {"a.test": {"delay": 5}}}, '[site."a.test"] delay: as everywhere to 5 s'),
    ]:
        (said,) = describe_changes(from_dict(old), from_dict(new))
        assert words in said


def test_hosts_are_counted_by_what_changes_for_them():
    old = from_dict({"site": {"b.test": {"delay": 2}}})
    new = from_dict({"politeness": {"delay": 4}, "site": {"b.test": {"delay": 9}}})
    hosts = [*(f"h{n}.test" for n in range(312)), "b.test"]
    assert describe_changes(old, new, hosts) == (
        "312 hosts: delay 1 s to 4 s",
        "1 host: delay 2 s to 9 s",
    )


def test_hosts_whose_site_table_overrides_the_key_are_not_counted():
    old = from_dict({"site": {"b.test": {"delay": 9}}})
    new = from_dict({"politeness": {"delay": 4}, "site": {"b.test": {"delay": 9}}})
    assert describe_changes(old, new, ["a.test", "b.test"]) == ("1 host: delay 1 s to 4 s",)


def test_secrets_are_never_shown():
    old = from_dict({"fetch": {"headers": {"Cookie2": "hush"}}})
    new = from_dict(
        {
            "fetch": {
                "headers": {"X-Secret": "hush2"},
                "proxy": "http://user:hush@proxy.test:1/",
                "credentials": {"https://a.test": "env:HUSH"},
            },
            "daemon": {"token": "hush-hush-hush"},
            "site": {"b.test": {"headers": {"X-Other": "hush"}}},
        }
    )
    said = " ".join(describe_changes(old, new))
    assert "hush" not in said.lower()
    assert "[fetch] headers: changed" in said
    assert '[site."b.test"] headers: changed' in said


def test_equal_configs_have_no_changes():
    data = {"politeness": {"delay": 3}, "site": {"a.test": {"delay": 4}}}
    assert describe_changes(from_dict(data), from_dict(data), ["a.test"]) == ()


def test_keys_that_need_a_restart_keep_their_old_values(tmp_path):
    old = from_dict(
        {"storage": {"url": "sqlite:old.db"}, "site": {"a.test": {"per": "domain"}}},
        base=tmp_path / "old",
    )
    new = from_dict(
        {
            "storage": {"url": "sqlite:new.db"},
            "politeness": {"per": "ip", "delay": 3},
            "scope": {"max_queries_per_path": 5},
            "site": {"b.test": {"delay": 5, "per": "ip"}},
            "sink": [{"kind": "jsonl", "path": "x.jsonl"}],
        },
        base=tmp_path / "new",
    )
    kept, restart = defer_restarts(new, old)
    assert kept.storage == old.storage
    assert (kept.politeness.per, kept.politeness.delay) == ("host", 3)
    assert kept.site("a.test").politeness.per == "domain"
    assert (kept.site("b.test").politeness.per, kept.site("b.test").politeness.delay) == ("host", 5)
    assert kept.scope.max_queries_per_path == old.scope.max_queries_per_path
    assert kept.sinks == old.sinks == ()
    assert [line.partition(":")[0] for line in restart] == [
        "[scope] max_queries_per_path", "[politeness] per", "[storage] url",
        '[site."a.test"] per', '[site."b.test"] per', "[[sink]]",
    ]  # fmt: skip
    assert defer_restarts(kept, old) == (kept, ())


def test_a_deferred_key_of_a_site_keeps_its_place():
    old = from_dict({"site": {"A.Test.": {"per": "domain"}}}, where="old.toml")
    new = from_dict({"site": {"a.TEST": {"per": "ip"}}}, where="new.toml")
    kept, restart = defer_restarts(new, old)
    assert restart == ('[site."a.test"] per: domain to ip',)
    assert kept.site("a.test").politeness.per == "domain"
    assert kept.given.places == {"site.a.test.per": "old.toml"}


def test_changes_of_pacing_and_of_robots_rules_are_distinguished():
    base = from_dict({})
    slower = from_dict({"politeness": {"delay": 2}})
    other = from_dict({"robots": {"dialect": "bing"}})
    site = from_dict({"site": {"a.test": {"obey": False}}})
    scope = from_dict({"scope": {"follow": "any"}, "crawl": {"max_pages": math.inf}})
    named = from_dict({"crawl": {"user_agent": "otherbot/1.0"}})
    assert [same_pacing(base, one) for one in (slower, other, site, scope)] == [
        False, False, False, True,
    ]  # fmt: skip
    assert [same_robots_rules(base, one) for one in (slower, other, site, scope, named)] == [
        True, False, False, True, False,
    ]  # fmt: skip


def test_limits_on_disk_space_change_without_a_restart():
    old = from_dict({})
    new = from_dict({"storage": {"max_size": "5GB", "min_free": "1GB"}})
    kept, restart = defer_restarts(new, old)
    assert restart == ()
    assert (kept.storage.max_size_bytes, kept.storage.min_free_bytes) == (5e9, 1e9)


_TABLE = st.fixed_dictionaries(
    {},
    optional={
        "per": st.sampled_from(["host", "domain", "ip"]),
        "delay": st.sampled_from([1, 2, "5m"]),
        "max_queries_per_path": st.sampled_from([5, 1_000]),
        "exclude": st.sampled_from([[], ["*.pdf"], ["*.pdf", "*.zip"]]),
        "headers": st.sampled_from([{}, {"X-A": "hush"}]),
    },
)
_CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "politeness": st.sampled_from([{}, {"per": "host"}, {"per": "ip", "delay": 3}]),
        "storage": st.sampled_from([{}, {"links": True}, {"url": "sqlite:x.db", "min_free": 5}]),
        "daemon": st.sampled_from([{}, {"token": "hush"}, {"listen": "[::1]:0"}]),
        "site": st.dictionaries(st.sampled_from(["a.test", "A.test", "*.test", "b.test"]), _TABLE),
        "sink": st.sampled_from([[], [{"kind": "warc", "path": "x"}]]),
    },
)


@given(_CONFIG, _CONFIG)
def test_keys_that_need_a_restart_never_change(old_data, new_data):
    old, new = from_dict(old_data), from_dict(new_data)
    kept, described = defer_restarts(new, old)
    for section, keys in SECTIONS.items():
        hosts = ("a.test", "b.test", "c.test") if section in SITE_SECTIONS else ()
        for key in keys.values():
            right = old if key.restart else new
            pairs = [(kept, right), *((kept.site(host), right.site(host)) for host in hosts)]
            for one, other in pairs:
                values = [getattr(getattr(each, section), key.field) for each in (one, other)]
                assert values[0] == values[1], (section, key.field)
    assert (kept.sinks, kept.storage.location) == (old.sinks, old.storage.location)
    assert defer_restarts(kept, old) == (kept, ())
    assert "hush" not in str((described, describe_changes(old, new, ["a.test", "b.test"])))
