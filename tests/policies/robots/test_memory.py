"""What a compiled robots.txt takes in memory."""

from __future__ import annotations

import tracemalloc

from policies import robots
from policies.robots import DIALECTS
from tests.tables import each

TIMES_MAX = 16


@each("name", DIALECTS)
def test_literal_rules_take_little(name: str) -> None:
    """Thousands of such files are in memory, those of all hosts that are held."""
    body = b"User-agent: *\n" + b"".join(b"Disallow: /%d/path%d\n" % (n, n) for n in range(400))

    def compiled() -> robots.RuleSet:
        policy = robots.parse(body).rule_set(("bot",), [DIALECTS[name]])
        assert not policy.allowed("/399/path399")
        return policy

    compiled()  # what is shared by all
    tracemalloc.start()
    try:
        policy = compiled()
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert policy.allowed("/other")
    assert held_bytes < TIMES_MAX * len(body)
