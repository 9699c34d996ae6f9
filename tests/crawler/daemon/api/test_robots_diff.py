"""Differences of two versions of a robots.txt: right, and bounded in work and length."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from crawler.daemon.api import robots_views as diffs
from crawler.daemon.api.robots_views import robots_diff

LINES = st.lists(st.sampled_from(["a", "b", "c", "Disallow: /x", ""]), max_size=40)


@given(LINES, LINES)
def test_the_format_is_unified(before: list[str], after: list[str]) -> None:
    """It can be applied, and the numbers are right."""
    found = robots_diff(before, after)
    if found is None:
        assert before == after
        return
    assert found.ordered
    made: list[str] = []
    at = 0
    for line in found.text.split("\n"):
        if line.startswith("@@"):
            old, new = line.split()[1:3]
            start, _, length = old[1:].partition(",")
            begin = int(start) - (0 if length == "0" else 1)
            made += before[at:begin]
            at = begin
            new_start, _, new_length = new[1:].partition(",")
            assert len(made) == int(new_start) - (0 if new_length == "0" else 1)
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert before[at] == line[1:]
            at += 1
            made += [line[1:]] if line.startswith(" ") else []
    assert made + before[at:] == after
    assert found.added - found.removed == len(after) - len(before)


def test_distant_changes_of_a_long_file_have_their_context() -> None:
    before = [f"Disallow: /{number}" for number in range(6_000)]
    after = [*before[:4_100], "Allow: /new", *before[4_100:4_900], *before[4_901:]]
    found = robots_diff(before, after)
    assert found is not None
    assert (found.ordered, found.added, found.removed) == (True, 1, 1)
    assert found.text == "\n".join(
        line
        for line in difflib.unified_diff(before, after, lineterm="")
        if not line.startswith(("---", "+++"))
    )


def test_versions_that_share_nothing_are_listed_and_cut() -> None:
    before = [f"Disallow: /{number}" for number in range(5_000)]
    after = [f"Allow: /{number}" for number in range(3_000)]
    found = robots_diff(before, after)
    assert found is not None
    assert (found.ordered, found.cut) == (False, True)
    assert (found.added, found.removed) == (3_000, 5_000)
    assert found.text.count("\n") == diffs.SHOWN_MAX - 1


def test_a_file_made_to_be_slow_is_not() -> None:
    few = [f"{number % 300}" for number in range(2_000)]
    mixed = [line for number in range(1_000) for line in (f"x{number}", f"u{number}")]
    other = [line for number in range(1_000) for line in (f"x{number}", f"v{number}")]
    assert not robots_diff(few, few[::-1]).ordered  # type: ignore[union-attr]
    looked_up = 0

    class Line(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal looked_up
            looked_up += 1
            return super().__hash__()

    assert robots_diff([Line(line) for line in mixed], [Line(line) for line in other]) is not None
    assert looked_up < diffs.COMPARED_MAX**2
