"""Orders between workers: as they are stored, and what is refused of what a database holds."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from crawler.operator_commands import (
    SEEDS_NAMED_MAX,
    InvalidOrderError,
    PauseHosts,
    Reload,
    ResumeHosts,
    RetryFailed,
    SlowHosts,
    WidenScope,
    decode,
    encode,
    scope_of_seeds,
)
from storage.store import Order


def test_an_order_arrives_as_it_was_given() -> None:
    command: Any
    for command in [
        PauseHosts(hosts=("a.test",)),
        SlowHosts(hosts=("a.test",), delay_s=2.5),
        ResumeHosts(hosts=("a.test",)),
        WidenScope(urls=("http://a.test/", "http://b.test/x")),
        WidenScope(),
        RetryFailed(host="a.test", code="timeout"),
        RetryFailed(),
        Reload(),
    ]:
        stored = msgspec.json.encode(encode(command))  # as a database keeps it
        assert decode(msgspec.json.decode(stored, type=Order)) == command


def test_keys_of_a_newer_version_are_ignored() -> None:
    order = Order(verb="host_pause", body={"hosts": ["a.test"], "colour": "blue"})
    assert decode(order) == PauseHosts(hosts=("a.test",))


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("dance", {}),
        ("", {}),
        ("host_pause", {}),
        ("host_pause", {"hosts": [1]}),
        ("host_slow", {"hosts": ["a.test"]}),
        ("host_slow", {"hosts": ["a.test"], "delay_s": "fast"}),
        ("host_slow", {"hosts": ["a.test"], "delay_s": -1.0}),
        ("host_slow", {"hosts": ["a.test"], "delay_s": 1e9}),
        ("host_slow", {"hosts": ["a.test"], "delay_s": math.nan}),
        ("seeds", {"urls": ["no URL"]}),
        ("seeds", {"urls": ["HTTP://A.test"]}),
        ("retry", {"host": ["a.test"]}),
    ],
)
def test_others_are_refused(verb: str, body: dict[str, object]) -> None:
    with pytest.raises(InvalidOrderError):
        decode(Order(verb=verb, body=body))


def test_very_many_seeds_are_not_named() -> None:
    urls = [f"http://a.test/{n}" for n in range(SEEDS_NAMED_MAX + 1)]
    assert scope_of_seeds(urls[1:]) == WidenScope(urls=tuple(urls[1:]))
    assert scope_of_seeds(urls) == WidenScope()
