"""No output shows a secret, however a config is written."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from crawler.config import Config, ConfigError, from_dict
from crawler.config.keys import SECTIONS
from crawler.config.reload import defer_restarts, describe_changes
from crawler.config.secrets import redact
from crawler.daemon.api.settings_list import effective_settings

MARK = "hunter2"
PROXIES = (
    "http://user:{}@proxy.test:3128",
    "http://user:a@{}@proxy.test:3128",
    "http://user:a {}@proxy.test:3128",
    "http://user:{} b@c@proxy.test:3128",
    "http://user:{}/x@proxy.test",
    "http://user:a/{}@proxy.test",
    "http://user:12/{}@proxy.test",
    "http://user:?{}@proxy.test",
    "http://user:1#{}@proxy.test",
    "http://{}%40proxy.test:3128",
    "http://user:{}%40proxy.test:3128",
    "HTTP://{}@proxy.test",
    "http:user:{}@proxy.test",
    "user:{}@proxy.test:3128",
    "user:{}",
    "http://user:{}",
    "http://user:{}@",
    "socks5://user:{}@proxy.test",
    "http:///{}@x",
    'http://us"er:{}@proxy.test',
    "http://user:\uff20{}\uff20proxy.test",
)


def everything_shown(made: Mapping[str, object]) -> str:
    """Everything that is shown of a config, or of its problems."""
    try:
        config = from_dict(made)
    except ConfigError as error:
        return str(error)
    old = from_dict({})
    said: list[object] = [
        config,
        effective_settings(config, None),
        effective_settings(config, "a.test"),
    ]
    said += [describe_changes(old, config, ["a.test"]), describe_changes(config, old, ["a.test"])]
    new, waits = defer_restarts(config, old)
    said += [new, waits, config.warnings]
    return "\n".join(map(str, said))


def test_a_proxy_s_password() -> None:
    for proxy in PROXIES:
        value = proxy.format(MARK)
        for made in (
            {"fetch": {"proxy": value}},
            {"site": {"a.test": {"proxy": value}}},
            {"fetch": {"proxy": [value]}},
        ):
            assert MARK not in everything_shown(made), made


@given(st.text("ab@:/ %?#\"'[]", max_size=8), st.text("ab@:/ %?#\"'[]", max_size=8))
def test_a_proxy_s_password_whatever_is_around_it(before: str, after: str) -> None:
    shown = everything_shown({"fetch": {"proxy": f"http://me:{before}{MARK}{after}@proxy.test:1"}})
    assert MARK not in shown


def test_secrets_in_every_place_that_has_them() -> None:
    for name in ["credentials", "headers", "proxy"]:
        for value in [
            MARK,
            [MARK],
            {"X-Api-Key": MARK},
            {"Authorization": f"Bearer {MARK}"},
            {"Cookie": f"sid={MARK}"},
            {"X-Y": [MARK]},
            {"X-Y": f"a\n{MARK}"},
            {"http://a.test": MARK},
            {"http://a.test": f"Bearer {MARK}"},
            {f"http://me:{MARK}@a.test": "env:NAME"},
            {f"http://me:a@{MARK}@a.test/": "env:NAME"},
        ]:
            for made in ({"fetch": {name: value}}, {"site": {"a.test": {name: value}}}):
                assert MARK not in everything_shown(made), made


def test_the_token() -> None:
    for value in [MARK, [MARK], {"x": MARK}, f"{MARK}\n", f"  {MARK} ü"]:
        assert MARK not in everything_shown({"daemon": {"token": value}})


def test_urls_with_a_password_in_every_key() -> None:
    url = f"http://me:{MARK}@a.test/"
    for section, keys in SECTIONS.items():
        for name in keys:
            if name in ("ca_file", "log", "tls_certificate", "tls_key"):
                continue  # paths of files: shown as they are
            for value in (url, [url], {url: url}, f"postgresql://me:{MARK}@db/x"):
                assert MARK not in settings_or_problem({section: {name: value}}), (section, name)


def settings_or_problem(made: Mapping[str, object]) -> str:
    try:
        return str(effective_settings(from_dict(made), None))
    except ConfigError as error:
        return str(error)


def test_the_rest_of_a_proxy_url_is_shown() -> None:
    config: Config = from_dict({"fetch": {"proxy": f"http://me:{MARK}@proxy.test:3128"}})
    (shown,) = [one.value for one in effective_settings(config, None) if one.key == "fetch.proxy"]
    assert shown == "http://…@proxy.test:3128"
    assert redact("wrong: Authorization: Bearer abc.def") == ("wrong: Authorization: Bearer …")
