"""The cost of parsing and judging with hostile files of 500 KB and paths of 2 KB."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from policies import robots
from policies.robots.dialects import DIALECTS
from policies.robots.escapes import path_forms
from policies.robots.search import prepared

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

PARSING_S = 0.2
VERDICT_S = 0.005
SIZE = 2_030
random = Random(1)


def base(number: int, digits: str, length: int) -> str:
    found = ""
    for _ in range(length):
        found += digits[number % len(digits)]
        number //= len(digits)
    return found


ALL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
RANDOM_AB = "/" + "".join(random.choices("ab", k=SIZE))
RANDOM_ABCD = "/" + "".join(random.choices("abcd", k=SIZE))
PATHS = {
    "a": "/" + "a" * SIZE,
    "ab": "/" + "ab" * (SIZE // 2),
    "random ab": RANDOM_AB,
    "random abcd": RANDOM_ABCD,
    "b then a": "/" + "b" * (SIZE // 2) + "a" * (SIZE // 2),
    "a b a": "/" + "a" * (SIZE // 2) + "b" + "a" * (SIZE // 2),
    "escapes": "/" + "%41%2f%e9" * (SIZE // 9),
    "random": "/" + "".join(random.choices(ALL, k=SIZE)),
    "short": "/a/b/c?x=1",
    "query": "/?" + "a=b&" * (SIZE // 4),
    "spelled": "/" + "".join(random.choices("ab:/?[]%;", k=SIZE)),
    "all escapes": "/" + "".join(f"%{random.randrange(256):02x}" for _ in range(SIZE // 3)),
}


def part(path: str, least: int, most: int) -> str:
    length = random.randint(least, most)
    at = random.randrange(1, len(path) - length)
    return path[at : at + length]


def a(least: int, most: int) -> str:
    return "a" * random.randint(least, most)


COUNT = itertools.count
RULES: dict[str, Callable[[int], str]] = {
    "rare ends": lambda i: f"/*aaaa*b{i}",
    "ends of two letters": lambda i: f"/*aaaa*b{base(i, 'ab', 14)}",
    "anchored ends": lambda i: f"/*a*b{base(i, 'ab', 14)}$",
    "short": lambda i: f"*{base(i, ALL, 2)}*{base(i // 3844, ALL, 1)}",
    "pieces of 3": lambda i: f"/*{'*'.join(base(i >> 3 * n, 'ab', 3) for n in range(5))}*zz",
    "parts of abcd": lambda _: "/*" + "*".join(part(RANDOM_ABCD, 2, 7) for _ in range(3)),
    "parts of ab": lambda _: "/*" + "*".join(part(RANDOM_AB, 2, 17) for _ in range(4)),
    "chains": lambda i: "/" + "".join("*" + a(1, 3) for _ in range(900)) + f"*b{i}",
    "long pieces": lambda _: f"/*{a(100, 400)}b{a(5, 90)}b{a(100, 400)}",
    "pieces of 90": lambda _: f"/*{a(10, 40)}b{a(5, 20)}b{a(10, 40)}",
    "nested": lambda i: "/" + "a" * (i + 1),
    "nested heads": lambda i: "/" + "a" * (i + 1) + "*b",
    "heads": lambda i: f"/{base(i, 'ab', 16)}*b",
    "escapes": lambda i: f"/*%4{i % 10}%2f*%e9{i}",
    "plain": lambda i: f"/{i}",
    "dollars": lambda i: f"*$a{i}$",
    "stars": lambda i: "/" + "*" * 8_000 + str(i),
    "queries": lambda i: f"/*a=b&*{i}=",
    "spelled": lambda i: f"*:{base(i, ALL, 1)}*{base(i // 62, ALL, 2)}",
    "not ASCII": lambda i: f"*é{base(i, ALL, 3)}",
    "escapes of letters": lambda i: f"*%4a{base(i, ALL, 3)}",
    "comments": lambda i: f"*{base(i, ALL, 3)}#",
    "index pages": lambda i: f"/*{base(i, ALL, 3)}/index.htm",
}


def body_of(rule: Callable[[int], str]) -> bytes:
    def lines() -> Iterator[str]:
        size = 20
        for i in COUNT():
            line = f"Disallow: {rule(i)}\n"
            size += len(line)
            if size > robots.BYTES_MAX:
                return
            yield line

    return ("User-agent: *\n" + "".join(lines())).encode()


def least_s(run: Callable[[], object]) -> float:
    """CPU time, the better of several runs."""
    times: list[float] = []
    for _ in range(3):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return min(times)


@pytest.mark.parametrize("name", RULES)
def test_hostile_files(name: str) -> None:
    body = body_of(RULES[name])

    def compiled(dialects: list[str]) -> robots.RuleSet:
        policy = robots.parse(body).rule_set("x", dialects)
        policy.read_whole()
        policy.allowed("/%2f")
        return policy

    slowest, where, given_up = 0.0, "", 0
    parsing_s = 0.0
    for dialects in [*([each] for each in DIALECTS), list(DIALECTS)]:
        if len(dialects) == 1:
            parsing_s = max(parsing_s, least_s(partial(compiled, dialects)))
        policy = compiled(dialects)
        for label, path in PATHS.items():

            def judge(policy: robots.RuleSet = policy, path: str = path) -> None:
                prepared.cache_clear()
                path_forms.cache_clear()
                policy.allowed(path)

            given_up += policy.verdict(path).too_complex
            taken_s = least_s(judge)
            if taken_s > slowest:
                slowest, where = taken_s, f"{'+'.join(dialects)}, path {label}"
    judged = len(PATHS) * (len(DIALECTS) + 1)
    sys.stdout.write(
        f"\n{name}: parsed and compiled in {parsing_s * 1e3:.0f} ms, slowest verdict "
        f"{slowest * 1e3:.1f} ms ({where}), {given_up} of {judged} too complex\n"
    )
    assert parsing_s < PARSING_S
    assert slowest < VERDICT_S
