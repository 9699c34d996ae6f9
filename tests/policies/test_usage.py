"""Signals of use: kept as they are said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from policies.declarations import NONE, SIGNALS_MAX, Signal, Usage, Where, usage_of
from tests.tables import each


def of(
    headers: Mapping[str, Sequence[str]] | None = None,
    metas: Sequence[tuple[str, str]] = (),
    robots: Sequence[tuple[str, str]] = (),
) -> Usage:
    return usage_of(lambda name: (headers or {}).get(name, ()), metas, robots)


def test_all_places_in_order() -> None:
    usage = of(
        {"content-usage": ["train-ai=n"], "tdm-reservation": ["1"]},
        [("TDM-Policy", " https://a.test/policy "), ("robots", "noindex")],
        [("Content-Signal", "search=yes, ai-train=no")],
    )
    assert str(usage) == (
        "content-usage: train-ai=n (header); tdm-reservation: 1 (header); "
        "tdm-policy: https://a.test/policy (meta); "
        "content-signal: search=yes, ai-train=no (robots.txt)"
    )
    assert usage.signals[2] == Signal(
        where=Where.META, name="tdm-policy", value="https://a.test/policy"
    )


def test_nothing_said_is_nothing() -> None:
    assert of({"content-usage": ["  "]}, [("description", "x")]) is NONE
    assert not NONE
    assert str(NONE) == ""


@each(("values", "reserved"), [([], None), (["0"], False), (["1"], True), (["0", "1"], True)])
def test_any_reservation_counts(values: list[str], reserved: bool | None) -> None:
    assert of({"tdm-reservation": values}).tdm_reserved is reserved


def test_it_is_bounded() -> None:
    usage = of({"content-usage": [f"a{n}=y" + "x" * 5_000 for n in range(100)]})
    assert len(usage.signals) == SIGNALS_MAX
    assert len(str(usage)) < 25_000
