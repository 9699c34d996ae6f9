"""Public values and exceptions can be pickled and copied, and the copies are equal."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import is_dataclass

import msgspec

import crawler
from crawler.errors import CourtlyError, InvalidURL
from policies import robots
from tests.crawler.public_values import COPIES, ERRORS, HEADERS, PAGE, ROBOTS, URL, VALUES, VERDICT

PUBLIC = [getattr(crawler, name) for name in crawler.__all__]
CLASSES = [one for one in PUBLIC if isinstance(one, type)]


def test_every_public_exception_is_a_courtly_error_and_tried_here() -> None:
    errors = {one for one in CLASSES if issubclass(one, Exception)}
    assert all(issubclass(one, CourtlyError) for one in errors)
    assert errors <= {type(one) for one in ERRORS}


def test_every_public_value_is_tried_here() -> None:
    values = {
        one for one in CLASSES if is_dataclass(one) or issubclass(one, (msgspec.Struct, tuple))
    }
    assert values
    assert values <= {type(one) for one in VALUES}


def test_copies_of_an_error_are_equal_to_it() -> None:
    for way in COPIES:
        for error in ERRORS:
            again = COPIES[way](error)
            assert type(again) is type(error)
            assert again is not error
            assert (again.args, str(again), again.__dict__) == (
                error.args,
                str(error),
                error.__dict__,
            )


def test_copies_of_a_value_are_equal_to_it() -> None:
    for way in COPIES:
        for value in VALUES:
            again = COPIES[way](value)
            assert type(again) is type(value)
            assert again == value
            assert repr(again) == repr(value)


def test_a_verdict_that_was_unpickled_gives_the_same_reasons() -> None:
    for dialect in robots.DIALECTS:
        for path in ("/a", "/a/b", "/robots.txt", "/%61?x=1"):
            verdict = robots.parse(ROBOTS).decide(path, agent="examplebot", dialect=dialect)
            again = pickle.loads(pickle.dumps(verdict))
            assert again == verdict
            assert hash(again) == hash(verdict)
            assert str(again) == str(verdict)
            assert (again.rule, again.line, again.span) == (
                verdict.rule,
                verdict.line,
                verdict.span,
            )


def test_verdicts_about_different_things_differ() -> None:
    file = robots.parse(ROBOTS)
    others: list[object] = [
        file.decide(f"{URL}/c", agent="examplebot"),
        file.decide(URL, agent="other"),
        file.decide(URL, agent="examplebot", dialect="google"),
        file.decide(URL, agent="examplebot", dialect=["slurp", "google"]),
        robots.parse(ROBOTS + b"\n").decide(URL, agent="examplebot"),
        str(VERDICT),
    ]
    assert VERDICT not in others


def test_a_dialect_of_your_own_is_pickled_with_its_options() -> None:
    options = msgspec.structs.asdict(robots.SLURP) | {"name": "mine", "blank_ends": True}
    again = pickle.loads(pickle.dumps(robots.Dialect(**options)))
    assert (again.name, again.blank_ends, again.ours) == ("mine", True, robots.SLURP.ours)


def test_copied_headers_ignore_case_and_keep_their_order() -> None:
    again = pickle.loads(pickle.dumps(PAGE)).headers
    assert again.getall("SET-COOKIE") == ["a=1", "b=\udce9"]
    assert list(again.items()) == list(HEADERS.items())


def test_a_note_and_other_attributes_are_copied() -> None:
    error = InvalidURL("a is not a URL")
    error.add_note("in line 3 of urls.txt")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["in line 3 of urls.txt"]


def raised(number: int) -> None:
    raise ERRORS[number]


def returned(value: object) -> object:
    return value


def test_errors_and_values_pass_through_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for number, error in enumerate(ERRORS):
            came = pool.submit(raised, number).exception(timeout=60)
            assert type(came) is type(error)
            assert str(came) == str(error)
            assert pool.submit(str, error).result(timeout=60) == str(error)
        for value in VALUES:
            assert pool.submit(returned, value).result(timeout=60) == value
