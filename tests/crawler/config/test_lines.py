"""Finding the line of each key of a TOML document."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from crawler.config.lines import KeyPath, key_lines

TRICKY = '''\
# a comment with [brackets] and "quotes
top = 1
"quoted key" = 'a # no comment'
dotted . "in.side".deep = true
text = """
[not a table]
ends in quotes \\""""""
raw = \'\'\'
x = 1
it's\'\'\'\'\'
list = [ 1, # one
  [2, 3], {a = 1, "b.c" = [4]},
  "]",
]
when = 1979-05-27 07:32:00
empty = []
none = {}
[ table . "with.dot" ]
a = { b.c = 1, d = { e = "}" } }
[[many]]
a = 1
[[many]]
[many.inner]
b = 2
[[many.more]]
c = 3
[[many.more]]
c = 4
[late]
last = inf'''


def paths_of(value: object, path: KeyPath = ()) -> set[KeyPath]:
    found: set[KeyPath] = set()
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found |= {(*path, key)} | paths_of(inner, (*path, key))
    return found


def test_exactly_the_paths_of_a_document_have_lines() -> None:
    assert set(key_lines(TRICKY)) == paths_of(tomllib.loads(TRICKY))


def test_the_lines_of_a_tricky_file() -> None:
    for path, line in [
        (("top",), 2),
        (("quoted key",), 3),
        (("dotted", "in.side", "deep"), 4),
        (("text",), 5),
        (("raw",), 8),
        (("list",), 11),
        (("list", 1, 1), 12),
        (("list", 2, "b.c", 0), 12),
        (("list", 3), 13),
        (("table", "with.dot", "a", "d", "e"), 19),
        (("many",), 20),
        (("many", 0, "a"), 21),
        (("many", 1), 22),
        (("many", 1, "inner", "b"), 24),
        (("many", 1, "more", 1, "c"), 28),
        (("late", "last"), 30),
    ]:
        assert key_lines(TRICKY)[path] == line


_NAME = st.text("ab_-1", min_size=1, max_size=3) | st.text('. "\\\tä[#=', min_size=0, max_size=3)
_SCALAR = st.integers() | st.booleans() | st.text("a\"'\\#[]{}=,. \n", max_size=6)
_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAME, inner, max_size=3),
    max_leaves=8,
)


def quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return quoted(value) if "'" in value or "\n" in value else f"'{value}'"
    if isinstance(value, list):
        return "[\n" + "".join(f"  {toml(item)}, # ] }}\n" for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(k)} = {toml(v)}" for k, v in value.items()) + "}"
    return str(value)


@given(st.dictionaries(_NAME, st.dictionaries(_NAME, _VALUE, max_size=4), max_size=4))
def test_the_scanner_finds_every_path_that_tomllib_finds(
    tables: dict[str, dict[str, object]],
) -> None:
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[{quoted(name)}]", *(f"{quoted(key)} = {toml(v)}" for key, v in table.items())]
    text = "\n".join(lines)
    data = tomllib.loads(text)
    found = key_lines(text)
    assert set(found) == paths_of(data)
    numbered = text.split("\n")
    for path, line in found.items():
        if len(path) == 2:
            assert numbered[line - 1].startswith(quoted(str(path[1])))
