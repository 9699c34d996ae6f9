"""What holds for every file: the index is right, Allow never blocks, hashing does not matter."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from policies import robots
from policies.robots.dialect import Precedence
from policies.robots.dialects import DIALECTS
from policies.robots.index import Index
from policies.robots.pattern import NONE, Pattern
from tests.tables import each

LETTERS = st.text(alphabet="ab/", max_size=6)
TOKEN = st.sampled_from(
    ["a", "b", "/", "*", "$", "?", "=", "%2F", "%2a", "%61", "%C3%A9", "é", ":", "%", "ab", "/ab/"]
)
RULE_PATHS = st.lists(TOKEN, max_size=7).map("".join).map("/".__add__) | st.sampled_from(
    ["", "*", "$"]
)
URL_PATHS = st.lists(TOKEN, max_size=9).map("".join).map("/".__add__)
RULES = st.tuples(st.sampled_from(["Allow", "Disallow", "Disallow", "Noindex"]), RULE_PATHS)
FILES = st.lists(RULES, max_size=30)
ROWS = st.sampled_from(sorted(DIALECTS))


def text_of(rules: list[tuple[str, str]]) -> bytes:
    return "".join(["User-agent: *\n", *(f"{k}: {v}\n" for k, v in rules)]).encode()


@settings(max_examples=140)
@given(rules=FILES, path=URL_PATHS, name=ROWS)
def test_the_indexed_matcher_equals_a_naive_one(
    rules: list[tuple[str, str]], path: str, name: str
) -> None:
    """`matching` tries every rule one by one; its first is the one that the index finds."""
    reading = robots.parse(text_of(rules)).rule_set("x", name).by_dialect[0]
    naive = reading.matching(path)
    found = reading.rule_of(reading.rank(path))
    assert found == (naive[0] if naive else None)


@settings(max_examples=105)
@given(rules=FILES, path=URL_PATHS, name=ROWS)
def test_precedence_is_as_the_row_says(rules: list[tuple[str, str]], path: str, name: str) -> None:
    verdict = robots.parse(text_of(rules)).decide(path, agent="x", dialect=name)
    rule = verdict.deciding
    if rule is None:
        return
    precedence = DIALECTS[name].precedence
    for loser in verdict.losers:
        if precedence is Precedence.LONGEST:
            assert (loser.octets, loser.allow) <= (rule.octets, rule.allow)
        else:
            assert loser.line > rule.line


@given(rules=FILES, path=URL_PATHS, name=ROWS, extra=RULE_PATHS, where=st.integers(0, 30))
def test_adding_an_allow_never_blocks(
    rules: list[tuple[str, str]], path: str, name: str, extra: str, where: int
) -> None:
    before = robots.parse(text_of(rules)).decide(path, agent="x", dialect=name)
    more = [*rules[:where], ("Allow", extra), *rules[where:]]
    after = robots.parse(text_of(more)).decide(path, agent="x", dialect=name)
    assert after.allowed >= before.allowed


PATTERNS = st.builds(
    Pattern,
    LETTERS,
    st.lists(st.text(alphabet="ab/", min_size=1, max_size=6), max_size=2).map(tuple),
    st.none() | LETTERS,
    st.booleans(),
).map(lambda p: Pattern(p.head, (), None, True) if p.exact else p)


def add(index: Index, pattern: Pattern, rank: int) -> None:
    pieces = [pattern.head, *pattern.middle]
    if not pattern.exact and pattern.tail is not None:
        pieces.append(pattern.tail)
    anchored = pattern.exact or pattern.tail is not None
    index.fill([("*".join(pieces), anchored, rank)])


@settings(max_examples=105)
@given(
    patterns=st.lists(PATTERNS, max_size=60),
    paths=st.lists(st.text(alphabet="ab/", max_size=14), max_size=10),
)
def test_an_index_finds_the_least_rank(patterns: list[Pattern], paths: list[str]) -> None:
    index = Index()
    for rank, pattern in enumerate(patterns):
        add(index, pattern, rank)
    index.seal()
    for path in paths:
        naive = [rank for rank, pattern in enumerate(patterns) if pattern.matches(path)]
        assert index.best(path) == min(naive, default=NONE)


@each("count", [10, 100, 1_000])
@each("shape", ["{}", "/same/stem/{}", "/*{}*x", "/same/stem/*{}$", "{}{}{}"])
def test_an_index_of_many_alike(count: int, shape: str) -> None:
    """Large files take other ways through the index: crowded stems, many lengths."""
    body = ["User-agent: *"]
    for i in range(count):
        text = "/" + shape.format(*["a" * (i % 90) + str(i)] * 3).lstrip("/")
        body.append(f"{'Allow' if i % 3 else 'Disallow'}: {text}")
    reading = robots.parse("\n".join(body).encode()).rule_set("x", robots.RFC9309).by_dialect[0]
    for i in range(0, count, max(1, count // 25)):
        path = "/" + shape.format(*["a" * (i % 90) + str(i)] * 3).lstrip("/")
        plain = path.replace("*", "q").replace("$", "")
        for url in (plain, path.replace("*", "/") + "xyz", "/0" + plain, plain + "b" * 300, "/~"):
            naive = reading.matching(url)
            assert reading.rule_of(reading.rank(url)) == (naive[0] if naive else None)


def test_an_adversarial_pattern_backtracks_nowhere() -> None:
    policy = robots.parse(b"User-agent: *\nDisallow: /*a*a*a*a*a*b\n").rule_set("x")
    assert policy.allowed("/" + "a" * 5_000)
    assert not policy.allowed("/" + "a" * 5_000 + "b")


SCRIPT = """
from policies import robots
body = b"User-agent: *\\n" + b"".join(
    b"%s: /%d*%d\\n" % (b"Allow" if i % 2 else b"Disallow", i % 7, i % 11) for i in range(80)
)
file = robots.parse(body)
for i in range(9):
    for name, verdict in file.compare(f"/{i}x{i * 3}", agent="examplebot").items():
        print(name, verdict.line, verdict)
"""


def test_verdicts_do_not_depend_on_the_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "42")
    }
    assert len(said) == 1
    assert said.pop()
