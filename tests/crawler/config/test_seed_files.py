"""Seeds and seed files; a contact is required beyond loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.config import (
    ConfigError,
    check_identity,
    from_dict,
    load,
    product_token,
    seeds_of,
)
from crawler.config.user_agent import token_warnings

CONTACT = "examplebot/1.0 (+https://example.com/bot)"


# ---------------------------------------------------------------- seeds


def test_seeds_of_the_config_and_the_command_line_add_up_once_each() -> None:
    config = from_dict({"crawl": {"seeds": ["https://A.test", "https://b.test/"]}})
    assert seeds_of(config, ["https://b.test/", "https://c.test/#x"]) == [
        "https://a.test/",
        "https://b.test/",
        "https://c.test/",
    ]


def test_a_file_of_seeds_has_comments_and_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_bytes(
        b"\xef\xbb\xbf# ours\r\nhttps://a.test/\r\n\r\n  https://b.test/ \n"
    )
    (tmp_path / "crawl.toml").write_text('crawl.seeds = ["@seeds.txt"]')
    assert seeds_of(load(tmp_path / "crawl.toml")) == ["https://a.test/", "https://b.test/"]


def test_a_file_on_the_command_line_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("seeds.txt").write_text("https://a.test/\n")
    assert seeds_of(from_dict({}, base=tmp_path / "elsewhere"), ["@seeds.txt"]) == [
        "https://a.test/"
    ]


def test_a_bad_line_is_named_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("https://a.test/\n\nexample.com\nftp://a.test/\n")
    with pytest.raises(ConfigError) as caught:
        seeds_of(from_dict({}), [f"@{path}", "b.test"])
    first, second, third = caught.value.problems
    assert first.startswith(
        f"{path}:3: the seed 'example.com' is not an absolute URL; did you mean https://"
    )
    assert second.startswith(f"{path}:4: the seed 'ftp://a.test/' is not an http or https URL")
    assert third.startswith("the seed 'b.test'")


def test_problems_of_one_seed_file_are_limited(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("nonsense\n" * 500)
    with pytest.raises(ConfigError) as caught:
        seeds_of(from_dict({}), [f"@{path}"])
    assert len(caught.value.problems) == 21
    assert "480 more lines" in caught.value.problems[-1]


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"https://a.test/\xe4\n")
    for name, sentence in (
        ("none", "no such file"),
        (".", "cannot be read"),
        ("latin", "UTF-8"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            seeds_of(from_dict({}), [f"@{tmp_path / name}"])


# ---------------------------------------------------------------- identity


def test_loopback_needs_no_contact() -> None:
    for seed in [
        "http://localhost/", "http://localhost:8080/", "http://127.0.0.1/", "http://127.8.0.1/",
        "http://[::1]:80/", "http://a.test/", "http://test/", "http://six.example/",
    ]:  # fmt: skip
        config = from_dict({"network": {"resolve": {"*.test": "127.0.0.1", "six.example": "::1"}}})
        check_identity(config, [seed])


@pytest.mark.parametrize(
    "seed",
    ["https://example.com/", "http://10.0.0.1/", "http://b.test/", "http://localhost.example/"],
)
@pytest.mark.parametrize("user_agent", ["", "examplebot/1.0"])
def test_beyond_loopback_a_contact_is_needed(seed: str, user_agent: str) -> None:
    config = from_dict(
        {
            "crawl": {"user_agent": user_agent},
            "network": {"resolve": {"*.test": "127.0.0.1", "b.test": "10.0.0.1"}},
        }
    )
    with pytest.raises(ConfigError) as caught:
        check_identity(config, ["http://localhost/", seed])
    (sentence,) = caught.value.problems
    assert seed in sentence
    for word in ("crawl.user_agent", "--user-agent", CONTACT):
        assert word in sentence


@pytest.mark.parametrize(
    "url",
    ["http://93.184.216.34/", "http://[2606:2800::1]/", "http://a.proxied/"],
)
def test_what_resolve_does_not_decide_needs_a_contact(url: str) -> None:
    """Addresses are never resolved, and a proxy resolves names itself."""
    config = from_dict(
        {
            "network": {"resolve": {"*": "127.0.0.9"}},
            "site": {"*.proxied": {"proxy": "http://127.0.0.1:3128"}},
        }
    )
    check_identity(config, ["http://any.example/", "http://localhost/"])
    with pytest.raises(ConfigError, match=r"crawl\.user_agent"):
        check_identity(config, [url])


def test_a_url_or_an_e_mail_is_a_contact() -> None:
    for user_agent in [CONTACT, "examplebot/1.0 (bot@example.com)"]:
        check_identity(from_dict({"crawl": {"user_agent": user_agent}}), ["https://example.com/"])


def test_an_empty_user_agent_is_sent_as_our_own() -> None:
    config = from_dict({})
    assert config.user_agent_sent.startswith("courtly/")
    assert config.token("a.test") == ("courtly",)


def test_the_product_token() -> None:
    for user_agent, token in [
        (CONTACT, "examplebot"),
        ("examplebot", "examplebot"),
        ("examplebot (+https://example.com)", "examplebot"),
        ("Mozilla/5.0 (compatible; examplebot/1.0; +https://example.com)", "examplebot"),
        ("Mozilla/5.0 (X11; Linux)", "Mozilla"),
        ("", ""),
    ]:
        assert product_token(user_agent) == token


# ---------------------------------------------------------------- warnings


def test_odd_product_tokens_are_warned_about() -> None:
    for token, words in [
        ("mbot", "fewer than 5 letters"),
        ("Google", 'contained in "'),
        ("my2bot", "characters other than letters"),
    ]:
        assert any(words in text for text in token_warnings(token))
        config = from_dict({"crawl": {"user_agent": f"{token}/1.0 (+https://example.com)"}})
        assert any(words in text for text in config.warnings)
        config = from_dict({"site": {"a.test": {"token": token}}})
        assert config.warnings[0].startswith('config: site."a.test".token: '), (token, words)


def test_an_ordinary_token_is_not_warned_about() -> None:
    assert token_warnings("examplebot") == ()
    assert (
        from_dict({"crawl": {"user_agent": CONTACT}, "robots": {"token": "example-bot"}}).warnings
        == ()
    )


def test_a_device_is_not_a_seed_file() -> None:
    """It never ends a line."""
    with pytest.raises(ConfigError, match="too long for a URL"):
        seeds_of(from_dict({}), ["@/dev/zero"])
