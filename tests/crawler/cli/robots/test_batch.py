"""`courtly robots batch`: one line for each line, in order, and fast."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from crawler.cli import main
from crawler.cli.robots import verdict_batch
from crawler.cli.robots.verdict_batch import BatchAnswers, ParsedFileCache, lines_of
from policies import robots
from policies.robots import agent_rules
from policies.robots.search import Search

FILE = (
    "User-agent: *\nDisallow: /a # no\n\nUser-agent: examplebot\nDisallow: /b\nAllow: /b/*.html$\n"
)


def run(stdin: str | bytes, *args: str) -> Result:
    result = CliRunner().invoke(main, ["robots", "batch", *args], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def answers(*asked: object, args: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in asked]
    return [json.loads(line) for line in run("\n".join(lines), *args).stdout.splitlines()]


def test_lines_are_answered_in_order() -> None:
    b64 = base64.b64encode(FILE.encode("utf-16")).decode()
    asked: list[dict[str, object]] = [
        {"robots": FILE, "agent": "otherbot", "url": "https://h/a"},
        {"robots_b64": b64, "agent": "examplebot", "url": "https://h/b/x.html"},
        {"robots": FILE, "agent": ["nobot", "examplebot"], "url": "/b/", "dialect": "rfc9309"},
        {
            "robots": FILE,
            "agent": "examplebot",
            "url": "/b/x.html",
            "dialect": ["slurp", "res1996"],
        },
        {"robots": "", "agent": "examplebot", "url": "/"},
    ]
    assert answers(*asked) == [
        {"allowed": False, "rule": "Disallow: /a", "line": 2},
        {"allowed": True, "rule": "Allow: /b/*.html$", "line": 6},
        {"allowed": False, "rule": "Disallow: /b", "line": 5},
        {"allowed": False, "rule": "Disallow: /b", "line": 5},
        {"allowed": True, "rule": None, "line": None},
    ]


def test_options_are_defaults_for_lines() -> None:
    line = {"robots": FILE, "url": "/b/x.html"}
    assert answers(line)[0]["line"] is None
    args = ("--agent", "examplebot", "--dialect", "res1996")
    assert answers(line, {**line, "dialect": "slurp"}, args=args) == [
        {"allowed": False, "rule": "Disallow: /b", "line": 5},
        {"allowed": True, "rule": "Allow: /b/*.html$", "line": 6},
    ]


def test_a_bad_line_is_answered_in_order() -> None:
    for line, words in [
        ("nonsense", "the line is not valid JSON: "),
        ('"text"', "the line is invalid: Expected `object`"),
        ('{"robots": "", "agent": "a"}', "missing required field `url`"),
        ('{"agent": "a", "url": "/"}', 'either "robots" or "robots_b64" is required'),
        ('{"robots": "", "robots_b64": "", "agent": "a", "url": "/"}', "cannot both be given"),
        ('{"robots": "", "agnet": "a", "url": "/"}', 'no key "agnet"; did you mean "agent"?'),
        ('{"robots": "", "note": "", "url": "/"}', 'there is no key "note"'),
        ('{"robots": "", "url": "a/b"}', '"a/b" is neither a URL such as https://example.com/a'),
        ('{"robots": "", "url": ""}', '"" is neither a URL'),
        ('{"robots": "", "agent": "a", "url": 5}', "`$.url`"),
        ('{"robots": "", "agent": [], "url": "/"}', '"agent" must name a crawler'),
        ('{"robots": "", "agent": "", "url": "/"}', '"agent" must name a crawler'),
        ('{"robots_b64": "%", "agent": "a", "url": "/"}', "base64"),
        ('{"robots": "", "url": "/", "dialect": "gogle"}', "did you mean 'google'?"),
        ('{"robots": "", "url": "/", "dialect": []}', "no dialect was given"),
        ('{"robots": "\\ud800", "url": "/"}', "the line is not valid JSON"),
        ('{"robots": "", "url": "/", "agent": ' + "[" * 100_000 + "}", "the line "),
    ]:
        good = json.dumps({"robots": FILE, "agent": "otherbot", "url": "/a"})
        result = run(f"{good}\n{line}\n\n{good}\n")
        assert result.exit_code == 1, (line, words)
        first, bad, last = [json.loads(each) for each in result.stdout.splitlines()]
        assert first == last == {"allowed": False, "rule": "Disallow: /a", "line": 2}, (line, words)
        assert set(bad) == {"error"}, (line, words)
        assert words in bad["error"]
        assert "1 of 3 lines could not be answered" in result.stderr, (line, words)


def test_invalid_utf_8_is_a_bad_line() -> None:
    result = run(b'{"robots": "\xff", "url": "/"}\n')
    assert (result.exit_code, set(json.loads(result.stdout))) == (1, {"error"})


def test_bad_usage() -> None:
    for args, words in (
        (("--dialect", "gogle"), "did you mean 'google'?"),
        (("--dialect", "all"), 'a batch requires names of dialects, not "all"'),
        (("extra",), "unexpected extra argument"),
    ):
        result = run("", *args)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in result.stderr
    assert (run("").exit_code, run("").stdout) == (0, "")


def test_mixed_lines_parse_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    files = [
        "User-agent: *\n"
        + "".join(
            f"{rng.choice(['Allow', 'Disallow'])}: /{rng.choice('abc')}{rng.randrange(99)}"
            f"{rng.choice(['', '/', '*x', '*.php$'])}\n"
            for _ in range(rng.choice([5, 20, 60, 300]))
        )
        for _ in range(50)
    ]
    dialects = [*robots.DIALECTS, ["slurp", "res1994"]]
    lines = [
        json.dumps(
            {
                "robots": rng.choice(files),
                "agent": rng.choice(["examplebot", ["a", "b"]]),
                "url": f"https://h/{rng.choice('abc')}{rng.randrange(99)}/x.php",
                "dialect": rng.choice(dialects),
            }
        ).encode()
        for _ in range(1_000)
    ]
    answerer = BatchAnswers(agents=("courtly",), dialects=("slurp",))
    parse, parsed = robots.parse, []
    monkeypatch.setattr(robots, "parse", lambda body: parsed.append(body) or parse(body))
    found = [answerer.answer(line) for line in lines]
    assert len(parsed) == len(files)
    assert not answerer.errors
    assert {json.loads(each)["allowed"] for each in found} == {True, False}


def test_each_answer_is_flushed() -> None:
    """A program may wait for each answer before it sends the next line."""
    with subprocess.Popen(
        [sys.executable, "-m", "crawler.cli", "robots", "batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ,
    ) as process:
        assert process.stdin
        assert process.stdout
        for path, line in (("/a", 2), ("/c", None)):
            asked = json.dumps({"robots": FILE, "agent": "otherbot", "url": path})
            process.stdin.write(f"{asked}\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["line"] == line
        process.stdin.close()
        assert process.wait() == 0


@given(
    data=st.binary(max_size=40).map(lambda b: b.replace(b"\0", b"\n")),
    sizes=st.lists(st.integers(1, 7), min_size=1),
)
def test_lines_are_split_independently_of_chunks(data: bytes, sizes: list[int]) -> None:
    class Pieces(io.BytesIO):
        def read1(self, _size: int | None = -1, /) -> bytes:
            sizes.append(sizes.pop(0))
            return super().read(sizes[0])

    found = [line for lines in lines_of(Pieces(data)) for line in lines]
    expected = data.split(b"\n")
    assert found == (expected[:-1] if not expected[-1] else expected)


def test_an_endless_line_uses_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_batch, "LINE_BYTES_MAX", 100_000)
    good = json.dumps({"robots": FILE, "agent": "otherbot", "url": "/a"})
    result = run(f"{good}\n{'x' * 900_000}\n{good}\n{'y' * 900_000}")
    found = [json.loads(each) for each in result.stdout.splitlines()]
    assert ["error" in each for each in found] == [False, True, False, True]
    assert found[1] == {"error": "the line has more than 100,000 bytes"}
    assert result.exit_code == 1


def test_files_are_parsed_once_and_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    files = ParsedFileCache()
    assert files.parsed("a") is files.parsed("a")
    monkeypatch.setattr(verdict_batch, "FILES_MAX", 2)
    first = files.parsed("a")
    files.parsed(b"b")
    assert files.parsed("a") is first
    files.parsed("c")
    assert files.parsed("a") is first, "used last"
    monkeypatch.setattr(verdict_batch, "FILES_BYTES_MAX", 10)
    assert files.parsed("x" * 50).source.body == b"x" * 50
    assert files.parsed("a") is not first


def test_a_hostile_file_is_compiled_once_and_its_verdicts_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each line uses the cached file, within the limit of work per verdict."""
    compiled: list[object] = []
    work_left: list[int] = []
    compile_rules, spend = agent_rules.compile_rules, Search.spend

    def counted(*args: Any, **options: Any) -> Any:
        compiled.append(args)
        return compile_rules(*args, **options)

    def spent(search: Search, steps: int) -> None:
        work_left.append(search.left - steps)
        spend(search, steps)

    monkeypatch.setattr(agent_rules, "compile_rules", counted)
    monkeypatch.setattr(Search, "spend", spent)
    random.seed(3)
    path = "/" + "".join(random.choices("ab", k=2_000))
    spots = [random.randrange(1, 900) for _ in range(9 * 6_000)]
    rules = (
        "Disallow: /*" + "*".join(path[at : at + 7] for at in spots[n : n + 9]) + "*c*ab$\n"
        for n in range(0, len(spots), 9)
    )
    body = ("User-agent: *\n" + "".join(rules))[: robots.BYTES_MAX]
    asked = [{"robots": body, "agent": "x", "url": f"{path}c/{n}"} for n in range(20)]
    found = answers(*asked)
    assert [one["allowed"] for one in found] == [False] * 20
    assert [one["line"] for one in found] == [None] * 20  # too complex: no rule decided
    assert len(compiled) == 1
    over = [left for left in work_left if left < 0]
    assert len(over) == 20  # each verdict stopped at its limit
