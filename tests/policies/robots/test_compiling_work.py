"""No file takes long to parse and compile, whatever its lines are like."""

from __future__ import annotations

import itertools
import string
import time
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from policies import robots
from policies.robots.dialects import DIALECTS
from tests.tables import each

SIZE = 100_000
RATIO_MAX = 20  # to a file of ordinary rules; some took 50 times as long
ALL = string.ascii_letters + string.digits


def number(i: int, size: int) -> str:
    return "".join(ALL[i // 62**n % 62] for n in range(size))


@cache
def file_of(line: str) -> bytes:
    """A file of some size, of lines that differ where `line` has an @."""
    found, size = ["User-agent: *"], 14
    count = line.count("@")
    for i in itertools.count():
        parts = line.split("@")
        drawn = number(i * (7 if count > 3 else 1), count)
        one = parts[0] + "".join(map("".join, zip(drawn, parts[1:], strict=True)))
        size += len(one.encode()) + 1
        if size > SIZE:
            return "\n".join(found).encode()
        found.append(one)
    raise AssertionError


def cpu_s(body: bytes, name: str) -> float:
    """CPU time, the least of two, for all that is read of a file before the second verdict."""
    times: list[float] = []
    for _ in range(2):
        started = time.process_time()
        policy = robots.parse(body).rule_set("x", name)
        policy.read_whole()
        policy.allowed("/%2f")
        times.append(time.process_time() - started)
    return min(times)


def check(line: str, name: str) -> None:
    ordinary = file_of("Disallow: /@@@/index.htm")
    assert cpu_s(file_of(line), name) < RATIO_MAX * cpu_s(ordinary, name)


@each("name", ["rfc9309", "google", "yandex"])
@each(
    "line",
    [
        "Allow:*:@@@",
        "Allow:*:@*@@",
        "Allow:*é@@@",
        "Allow:*%4a@@@",
        "Allow *:@@@",
        "Allow:/*@@@/index.htm",
        "#",
        "@@:",
    ],
)
def test_lines_that_took_up_to_two_seconds(line: str, name: str) -> None:
    check(line, name)


NAMES = st.sampled_from(
    ["Allow:", "Disallow:", "allow ", "aLLow\t", " Disallow:", "Disalow:", "@:"]
)
PARTS = st.sampled_from(
    ["@", "@@", "*", "*", ":", "/", "?", "é", "%41", "%3a", "a", "aaaa", "#", "$"]
)


@settings(max_examples=8, deadline=None)
@given(
    prefix=NAMES,
    parts=st.lists(PARTS, max_size=8).map("".join),
    name=st.sampled_from(sorted(DIALECTS)),
)
def test_no_lines_make_a_file_slow(prefix: str, parts: str, name: str) -> None:
    check(f"{prefix}{parts}*@@", name)
