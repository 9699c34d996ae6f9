"""Hosts that wait for a worker: registrable domains take turns."""

from __future__ import annotations

from typing import Any, cast

from crawler.frontier.fair_queue import ReadyLines
from crawler.frontier.host_queue import HostQueue
from policies.url import registrable_domain


class Host:
    """The part of a HostQueue that matters."""

    def __init__(self, slot: str, *, costs_nothing: bool = False) -> None:
        self.slot = slot
        self.domain = registrable_domain(slot)
        self.costs_nothing = costs_nothing
        self.in_line = False


def host(name: str, domain: str = "trap.test", **values: Any) -> HostQueue:
    return cast("HostQueue", Host(f"{name}.{domain}", **values))


def popped(lines: ReadyLines, *, without: str = "") -> list[str]:
    """The hosts in the order of their turns, but none of a domain that may not be served."""
    found = []
    while host := lines.pop(lambda domain, _: domain != without, 0.0):
        found.append(host.slot.partition(".")[0])
    return found


def test_a_domain_with_many_hosts_does_not_hold_up_another() -> None:
    lines = ReadyLines()
    for n in range(100):
        lines.append(host(f"h{n}"))
    lines.append(host("v", "victim.test"))
    lines.append(host("w", "victim.test"))
    order = popped(lines)
    assert order.index("v") <= 2
    assert order.index("w") <= 4
    assert [one for one in order if one[0] == "h"] == [f"h{n}" for n in range(100)]


def test_the_first_is_first() -> None:
    lines = ReadyLines()
    last = host("h9")
    for one in (host("h0"), host("v", "victim.test"), last):
        lines.append(one)
    lines.put_first(last)
    assert lines.pop(lambda *_: True, 0.0) is last
    assert sorted(popped(lines)) == ["h0", "v"]
    assert not last.in_line


def test_hosts_that_cost_no_request_have_a_line_of_their_own() -> None:
    lines = ReadyLines()
    blocked = [host(f"b{n}", costs_nothing=True) for n in range(3)]
    for one in (host("h0"), host("h1"), *blocked):
        lines.append(one)
    assert popped(lines) == ["b0", "h0", "b1", "h1", "b2"]


def test_a_domain_that_may_not_be_served_keeps_its_place() -> None:
    lines = ReadyLines()
    for one in (host("h0"), host("b", costs_nothing=True), host("v", "victim.test"), host("h1")):
        lines.append(one)
    assert popped(lines, without="trap.test") == ["v"]
    assert lines.waiting == 3
    assert popped(lines) == ["b", "h0", "h1"]
    assert not lines.waiting
