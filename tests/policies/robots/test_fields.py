"""What a file says beside rules: rates, hours, sitemaps, parameters, signals of use."""

from __future__ import annotations

from policies import robots
from policies.pacing import Window
from policies.robots.fields import clean_param, content_usage, number, request_rate, visit_window
from tests.tables import each


@each(
    ("text", "value"),
    [
        ("10", 10.0), ("0", 0.0), ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("10s", 10.0),
        ("10 seconds", 10.0), ("1.2.3", 1.2), ("-1", None), ("", None), ("s10", None), (".", None),
        ("nan", None), ("inf", None), ("9" * 400, None), ("9" * 308, 1e12), ("²", None),
            ("10,5", 10.0),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float | None) -> None:
    assert number(text) == value


@each(
    ("text", "seconds"),
    [
        ("1/5", 5.0), ("1/5s", 5.0), ("1/10m", 600.0), ("2/1h", 1800.0), ("1/1d", 86_400.0),
        ("1/10m 0600-0845", 600.0), ("1/5x", None), ("0/5", None), ("1/0", None), ("1", None),
        ("", None), ("1/5 at noon", None), ("x/y", None), ("-1/5", None),
    ],
)  # fmt: skip
def test_request_rates(text: str, seconds: float | None) -> None:
    found = request_rate(text, 1)
    assert (found.seconds_per_page if found else None) == seconds


def test_visit_windows() -> None:
    assert visit_window("0600-0845") == Window(21_600, 31_500)
    assert visit_window("2200-0600") == Window(79_200, 21_600)
    assert visit_window("noon") is None
    assert visit_window("9999-0000") is None
    assert visit_window("0" * 1_000) is None


def test_request_rate_and_visit_time_belong_to_the_group() -> None:
    file = robots.parse(
        b"User-agent: otherbot\nRequest-rate: 1/60\nVisit-time: 0100-0200\nDisallow:\n\n"
        b"User-agent: *\nRequest-rate: 1/5\nRequest-rate: 1/10 0600-0845\n"
        b"Visit-time: 2200-0600\nDisallow:\n"
    )
    for name in robots.DIALECTS:
        policy = file.rule_set("examplebot", name)
        assert policy.request_rate_s == 10
        assert policy.visit_windows == (Window(79_200, 21_600),)
        assert file.rule_set("otherbot", name).request_rate_s == 60


def test_hours_of_several_dialects_are_those_in_common() -> None:
    file = robots.parse(
        b"User-agent: examplebot\nVisit-time: 0600-1200\nDisallow:\n\n"
        b"User-agent: The examplebot\nDisallow: /x\n\nUser-agent: *\nDisallow:\n"
    )
    assert file.rule_set("examplebot", ["slurp", "rfc9309"]).visit_windows == (
        Window(21_600, 43_200),
    )
    file = robots.parse(
        b"User-agent: my examplebot\nVisit-time: 0600-1200\nDisallow:\n\n"
        b"User-agent: examplebot\nVisit-time: 1000-1400\nDisallow:\n"
    )
    both = file.rule_set("examplebot", ["slurp", "rfc9309"]).visit_windows
    assert both == (Window(36_000, 43_200),)


def test_sitemaps_belong_to_no_group_and_are_not_repeated() -> None:
    file = robots.parse(
        b"Sitemap: http://a/1\nUser-agent: x\nSitemap: http://a/2\nsitemap:http://a/1\nSitemap:\n"
    )
    assert file.sitemaps == ("http://a/1", "http://a/2")


def test_host_and_clean_param() -> None:
    file = robots.parse(
        b"Host: a.test\nHost: b.test\nClean-param: ref&sid /forum/\nClean-param: x\n"
    )
    assert file.host == "a.test"
    assert [(p.params, p.path) for p in file.clean_params] == [
        (("ref", "sid"), "/forum/"),
        (("x",), ""),
    ]
    assert clean_param("", 1) is None


def test_signals_of_use() -> None:
    file = robots.parse(
        b"User-agent: *\nContent-Signal: search=yes, ai-train=no\nContent-Usage: /a/ train-ai=n\n"
        b"Disallow:\n"
    )
    found = file.rule_set("examplebot").usages
    assert [(u.field, u.path, u.values, u.line) for u in found] == [
        ("Content-Usage", "/a/", (("train-ai", "n"),), 3),
        ("Content-Signal", "", (("search", "yes"), ("ai-train", "no")), 2),
    ]
    assert file.usages == found
    assert content_usage("Content-Usage", "nonsense", 1).values == ()
