"""Orders between workers: as they are stored, and what is refused of what a database holds."""

from __future__ import annotations

import math

import msgspec
import pytest

from crawler.orders import (
    SEEDS_NAMED_MAX,
    AddSeeds,
    Command,
    InvalidOrderError,
    Reload,
    RetryFailed,
    SteerHosts,
    decode,
    encode,
    seeds_added,
)
from storage.store import Order


@pytest.mark.parametrize(
    "command",
    [
        SteerHosts(slots=("a.test",), paused=True),
        SteerHosts(slots=("a.test",), slow_s=2.5),
        SteerHosts(slots=("a.test",), paused=False, clear_slow=True),
        AddSeeds(urls=("http://a.test/", "http://b.test/x")),
        AddSeeds(),
        RetryFailed(host="a.test", code="timeout"),
        RetryFailed(),
        Reload(),
    ],
)
def test_an_order_arrives_as_it_was_given(command: Command) -> None:
    stored = msgspec.json.encode(encode(command))  # as a database keeps it
    assert decode(msgspec.json.decode(stored, type=Order)) == command


def test_keys_of_a_newer_version_are_ignored() -> None:
    order = Order(verb="hosts", body={"slots": ["a.test"], "paused": True, "colour": "blue"})
    assert decode(order) == SteerHosts(slots=("a.test",), paused=True)


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("dance", {}),
        ("", {}),
        ("hosts", {}),
        ("hosts", {"slots": [1]}),
        ("hosts", {"slots": ["a.test"], "paused": "yes"}),
        ("hosts", {"slots": ["a.test"], "slow_s": -1.0}),
        ("hosts", {"slots": ["a.test"], "slow_s": 1e9}),
        ("hosts", {"slots": ["a.test"], "slow_s": math.nan}),
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
    assert seeds_added(urls[1:]) == AddSeeds(urls=tuple(urls[1:]))
    assert seeds_added(urls) == AddSeeds()
