"""[site."…"] tables: the hosts that they cover, and their precedence."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.config import ConfigError, from_dict
from crawler.config.host_patterns import matches, read_pattern
from policies.url import canonical, host_of


def test_the_hosts_of_a_pattern() -> None:
    for pattern, host, covered in [
        ("example.org", "example.org", True),
        ("example.org", "www.example.org", False),
        ("*.example.org", "example.org", True),
        ("*.example.org", "www.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "notexample.org", False),
        ("*.example.org", "example.org.evil.test", False),
        ("shop-*.example.org", "shop-1.example.org", True),
        ("shop-*.example.org", "example.org", False),
        ("*", "anything.test", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
    ]:
        assert matches(read_pattern(pattern), host) is covered


def test_patterns_become_canonical_names() -> None:
    for text, pattern in [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("*.Bücher.example", "*.xn--bcher-kva.example"),
        ("[::1]", "::1"),
        ("0:0::1", "::1"),
    ]:
        assert read_pattern(text) == pattern


@pytest.mark.parametrize(
    "text",
    ["", " ", "https://a.test", "a.test/x", "a.test:80", "a b.test", "*.a b", "a.test:", "a@b.test",
     "a.test?b", "a.test#b", "a\\b.test", "a\tb.test", "a%2eb.test", "fe80::1%eth0"],
)  # fmt: skip
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"host name|port"):
        read_pattern(text)


@given(st.ip_addresses() | st.integers(0, 2**32 - 1).map(lambda n: IPv6Address(0xFFFF << 32 | n)))
def test_addresses_are_written_as_urls_have_them(address: IPv4Address | IPv6Address) -> None:
    for text in (str(address), address.exploded):
        url = canonical(f"http://[{text}]/" if address.version == 6 else f"http://{text}/")
        assert url is not None
        assert read_pattern(text) == host_of(url)


@given(
    st.text(max_size=20) | st.text("ab.*-@?#%\\[]\t:1", max_size=9), st.text("ab.*-", max_size=12)
)
def test_any_text_is_a_pattern_or_refused(text: str, host: str) -> None:
    try:
        pattern = read_pattern(text)
    except ValueError:
        return
    assert read_pattern(pattern) == pattern
    matches(pattern, host)


def test_the_most_specific_pattern_wins_key_by_key() -> None:
    """Independently of their order in the file."""
    config = from_dict(
        {
            "politeness": {"delay": 1, "latency_factor": 3},
            "site": {
                "www.example.org": {"delay": 4},
                "*": {"delay": 2, "timeout": 7},
                "*.example.org": {"delay": 3, "max_body": "1KB", "follow": "any"},
            },
        }
    )
    www, apex, other = map(config.site, ("www.example.org", "example.org", "a.test"))
    assert (www.politeness.delay, apex.politeness.delay, other.politeness.delay) == (4, 3, 2)
    assert www.politeness.latency_factor == 3
    assert (www.fetch.max_body_bytes, www.fetch.timeout_s) == (1000, 7)
    assert www.scope.follow == "any"
    assert other.fetch.max_body_bytes == 10_000_000


def test_hosts_under_the_same_tables_share_their_rules() -> None:
    config = from_dict({"site": {"*.example.org": {"delay": 3}}})
    assert config.site("a.example.org") is config.site("b.example.org")
    assert config.site("a.test") is config.site("b.test")


def test_a_trailing_dot_names_the_same_site() -> None:
    config = from_dict({"site": {"example.org": {"delay": 3}}})
    assert config.site("example.org.").politeness.delay == 3


def test_robots_txt_can_be_ignored_for_a_site_you_own() -> None:
    config = from_dict({"site": {"*.example.org": {"obey": False, "crawl_delay": False}}})
    assert config.site("example.org").robots.obey is False
    assert config.site("a.test").robots.obey is True


@pytest.mark.parametrize("pattern", ["*", "*.*"])
def test_robots_txt_cannot_be_ignored_for_all_hosts(pattern: str) -> None:
    with pytest.raises(ConfigError, match="only for a site you own, not for all hosts"):
        from_dict({"site": {pattern: {"obey": False}}})


def test_keys_of_the_whole_crawl_are_refused_in_a_site() -> None:
    with pytest.raises(ConfigError, match=r"max_pages: there is no such key; did you mean"):
        from_dict({"site": {"a.test": {"max_pages": 5}}})
    with pytest.raises(ConfigError, match="cannot be set for a single site"):
        from_dict({"site": {"a.test": {"patience": 5}}})


def test_a_name_without_quotes_is_explained() -> None:
    with pytest.raises(ConfigError, match="the name of a site must be quoted"):
        from_dict({"site": {"example": {"org": {"delay": 5}}}})


@pytest.mark.parametrize("section", ["revisit", "politeness", "fetch"])
def test_a_section_inside_a_site_is_explained(section: str) -> None:
    with pytest.raises(ConfigError, match="they need no section there"):
        from_dict({"site": {"a.test": {section: {"delay": 5}}}})


def test_the_token_of_a_host() -> None:
    config = from_dict(
        {
            "crawl": {"user_agent": "examplebot/1.0 (+https://example.com/bot)"},
            "site": {"a.test": {"token": ["alphabot", "examplebot"]}},
        }
    )
    assert config.token("b.test") == ("examplebot",)
    assert config.token("a.test") == ("alphabot", "examplebot")
