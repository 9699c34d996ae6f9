"""No file and no path make judging slow: the work of a verdict is counted, and has a limit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from random import Random

import pytest
from hypothesis import example, given, settings, target
from hypothesis import strategies as st

from policies import robots
from policies.robots.dialects import DIALECTS
from policies.robots.index import TOO_COMPLEX, Index
from policies.robots.pattern import NONE, Pattern
from tests.growth import assert_linear, reference_s
from tests.policies.robots.test_properties import add
from tests.tables import each

CEILING = 10  # times the reference of the machine's speed: ten times what a verdict may take
PATH = 2_000
ALPHABETS = ("a", "ab", "abc", "abcd/", "abcdefghijklmnopqrstuvwxyz0123456789/=&?", "%2f41aé")


def file_of(lines: Iterable[str], size: int = robots.BYTES_MAX) -> bytes:
    """As many of these lines as fit into a file."""
    found = ["User-agent: *"]
    for line in lines:
        size -= len(line.encode()) + 1
        if size < 100:
            break
        found.append(line)
    return "\n".join(found).encode() + b"\n"


def cpu_s(judge: Callable[[], object]) -> float:
    """What a verdict costs once the rules are compiled: the least of two, the first of which finds
    nothing prepared."""
    times: list[float] = []
    for _ in range(2):
        started = time.process_time()
        judge()
        times.append(time.process_time() - started)
    return min(times)


def test_patterns_that_share_octets_with_all_of_a_path() -> None:
    """Once a file of 2 KB took 431 ms for this path, and one of 244 KB 7 s."""
    path = "/" + "a" * 2_030
    for size in (2_000, 244_000, robots.BYTES_MAX):
        body = file_of((f"Disallow: /*aaaa*b{i}" for i in itertools.count()), size)
        policy = robots.parse(body).rule_set("x")
        assert policy.allowed(path)
        assert not policy.allowed(path + "b3")
        assert policy.verdict(path + "b3").line == 5
        assert cpu_s(lambda: policy.allowed(path)) < CEILING * reference_s()  # noqa: B023


def lines_of(seed: int, alphabet: str, sizes: list[int], shared: int, path: str) -> Iterator[str]:
    """Rules of pieces of about these sizes, some of them runs of the path's own octets."""
    random = Random(seed)
    common = ["".join(random.choices(alphabet, k=size)) for size in sizes]
    for i in itertools.count():
        pieces = [
            common[n]
            if n < shared
            else path[(at := random.randrange(1, PATH)) : at + size]
            if random.random() < 0.5
            else "".join(random.choices(alphabet, k=random.randint(1, size)))
            for n, size in enumerate(sizes)
        ]
        yield f"{'Allow' if i % 5 == 0 else 'Disallow'}: /*{'*'.join(pieces)}{'$' if i % 3 else ''}"


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1_000),
    alphabet=st.sampled_from(ALPHABETS),
    sizes=st.lists(st.integers(1, 40) | st.integers(1, 900), min_size=1, max_size=12),
    shared=st.integers(0, 4),
    runs=st.booleans(),
    names=st.sampled_from([[name] for name in DIALECTS] + [list(DIALECTS)]),
)
@example(seed=0, alphabet="ab", sizes=[3] * 6, shared=0, runs=False, names=["slurp"])
@example(seed=0, alphabet="ab", sizes=[300] * 2, shared=0, runs=True, names=["google"])
@example(seed=0, alphabet="a", sizes=[2] * 9, shared=2, runs=True, names=list(DIALECTS))
def test_no_pair_of_file_and_path_is_slow(
    seed: int, alphabet: str, sizes: list[int], shared: int, runs: bool, names: list[str]
) -> None:
    """Looks for the pair that takes longest."""
    random = Random(seed)
    if runs:
        path = "/" + "".join(random.choice(alphabet) * 250 for _ in range(PATH // 250))
    else:
        path = "/" + "".join(random.choices(alphabet, k=PATH))
    body = file_of(lines_of(seed, alphabet, sizes, shared, path), 100_000)
    policy = robots.parse(body).rule_set("x", names)
    policy.allowed("/q")
    policy.allowed("/%2f")
    taken = cpu_s(lambda: policy.allowed(path)) / reference_s()
    target(taken)
    assert taken < CEILING


@pytest.mark.parametrize("long", [False, True])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000), count=st.integers(9, 400), alphabet=st.sampled_from(["a", "ab"])
)
def test_crowds_of_patterns_are_matched_as_one_by_one(
    long: bool, seed: int, count: int, alphabet: str
) -> None:
    random = Random(seed)

    def text(size: int) -> str:
        return "".join(random.choices(alphabet, k=random.randint(0, size)))

    patterns = [
        Pattern(
            text(3) if random.random() < 0.7 else text(20),
            tuple(
                filter(None, (text(random.choice((2, 6, 15))) for _ in range(random.randint(0, 5))))
            ),
            text(4) if random.random() < 0.3 else None,
        )
        for _ in range(count)
    ]
    index = Index(work_max=1 << 40)
    for rank, pattern in enumerate(patterns):
        add(index, pattern, rank)
    index.seal()
    for _ in range(20):
        path = text(40) + (text(300) + "b" * 200 + text(60) if long else "")
        naive = [rank for rank, pattern in enumerate(patterns) if pattern.matches(path)]
        assert index.best(path) == min(naive, default=NONE)
        assert set(index.every(path, 1 << 20)) <= set(naive)
        assert min(index.every(path, 1 << 20), default=NONE) == min(naive, default=NONE)


def hopeless() -> tuple[bytes, str]:
    """Rules of which none matches, though all but the last piece of each does, in another way."""
    random = Random(5)
    path = "/" + "".join(random.choices("ab", k=PATH))
    lines = (
        "Disallow: /*"
        + "*".join(path[(at := random.randrange(1, 900)) : at + 7] for _ in range(9))
        + "*c"
        for _ in itertools.count()
    )
    return file_of(lines), path + "c/"


@each("name", ["slurp", "rfc9309", "google", "yandex"])
def test_what_cannot_be_judged_in_time_is_disallowed_and_says_so(name: str) -> None:
    body, path = hopeless()
    file = robots.parse(body.replace(b"*c\n", b"*c*ab$\n"))
    verdict = file.decide(path, agent="x", dialect=name)
    assert not verdict.allowed
    assert verdict.too_complex
    assert "too complex" in str(verdict)
    assert verdict.rule is not None
    assert "too complex" in verdict.rule
    assert verdict.line is None
    assert not verdict.noindex
    assert verdict.ours == ()
    assert verdict.rules.rank(path) == TOO_COMPLEX
    # Other paths are judged as ever, and robots.txt itself is exempt where it is.
    assert file.decide("/q", agent="x", dialect=name).allowed
    assert not file.decide("/q", agent="x", dialect=name).too_complex


def test_explaining_is_bounded_too() -> None:
    body = file_of(f"Disallow: /*a*b{i}" for i in itertools.count())
    file = robots.parse(body)
    most_s = CEILING * reference_s()
    for path in ("/ab1", "/" + "a" * 2_000, "/ab" + "".join(map(str, range(500)))):
        for name in ("slurp", "rfc9309", "google"):
            assert cpu_s(lambda: str(file.decide(path, agent="x", dialect=name))) < most_s  # noqa: B023
            assert len(file.decide(path, agent="x", dialect=name).losers) <= 100


@each(
    ("before", "unit"),
    [
        (b"", b"User-agent: a\n"), (b"", b"User-agent: a\nDisallow:/\n"), (b"Disallow: /", b"a"),
        (b"User-agent: *\nDisallow: /", b"%41"), (b"", b"\r"), (b"", b"\0"), (b"", b"\0\n"),
        (b"", b"\xef\xbb\xbf"), (b"\xff\xfe", b"\r\0"), (b"", b"#"), (b"", b":"), (b"", b":\n"),
        (b"", b" "), (b"", b"\xc2\xa0"), (b"", b"\xc2\xa0" * 800 + b"a\xe3\x80\x80\n"),
        (b"User-agent: *\n", b"Sitemap: http://a/\n"),
        (b"User-agent: *\n", b"Request-rate: 1/9\n"),
        (b"User-agent: *\n", b"Visit-time: 0130-%04d\n"),
        (b"User-agent: *\n", b"Clean-param: a&b /x\n"),
        (b"User-agent: *\n", b"Content-Usage: /x a=b,c=d\n"),
        (b"User-agent: *\nContent-Signal: ", b"a=b,"), (b"User-agent: *\nCrawl-delay: ", b"9"),
        (b"ACAP-crawler: *\n", b"ACAP-disallow-crawl: /\n"),
    ],
)  # fmt: skip
def test_files_that_are_hard_to_parse(before: bytes, unit: bytes) -> None:
    """Read to their ends, in every dialect."""

    def body(size: int) -> bytes:
        units = range(size // len(unit))
        return before + b"".join(unit % (n % 2359) if b"%0" in unit else unit for n in units)

    def read(body: bytes) -> None:
        file = robots.parse(body)
        assert file.sitemaps or file.clean_params or file.usages or not file.host
        for name in ("slurp", "rfc9309", "google", "res1996"):
            policy = file.rule_set("a", name)
            policy.allowed("/%2f")
            policy.allowed("/a")
            assert (policy.crawl_delay_s or 0) >= 0 <= (policy.request_rate_s or 0)
            assert len(policy.visit_windows) + len(policy.usages) < 200_000
        file.rule_set("a", list(DIALECTS)).visit_windows  # noqa: B018

    assert_linear(read, body, 100_000)


def _spelled(random: Random) -> str:
    """A path or a rule's path, in octets that dialects spell in several ways."""
    parts = ("a", "b", "/", "?", ":", "%2F", "%41", "%3a", "%C3", "%A9", "é", "%", "[", "=", "&")
    return "/" + "".join(random.choices(parts, k=random.randint(0, 7)))


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 100_000), count=st.integers(1, 300))
def test_rules_that_dialects_spell_anew_are_matched_as_one_by_one(
    name: str, seed: int, count: int
) -> None:
    random = Random(seed)
    rules = [
        f"{random.choice(('Allow', 'Disallow'))}: {_spelled(random)}"
        + random.choice(("", "*", f"*{_spelled(random)}", "*%", "*%4*1", "*:3A"))
        + random.choice(("", "", "$"))
        for _ in range(count)
    ]
    file = robots.parse(file_of(rules))
    reading = file.decide("/", agent="x", dialect=name).rules
    for _ in range(30):
        path = _spelled(random)
        assert reading.rank(path) == min(reading._tried(path), default=NONE)
