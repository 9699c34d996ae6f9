"""Mutation testing: how many small faults in a module do its tests find?

    python -m tests.mutation policies/scope.py crawler/frontier/permits.py --sample 25 --seed 1

Each mutant is one change of the module's source, as a slip of the hand would make it. It is tested
in a process of its own, which compiles the changed source when the module is imported: the working
tree stays as it is. Inside a function, only the tests that reach the changed line are run. A mutant
that fails no test is a survivor and printed as a diff.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.abc
import importlib.util
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from coverage import Coverage, CoverageData

ROOT: Final = Path(__file__).parent.parent
WALL_S_MAX: Final = 300.0  # for a mutant that waits and uses no processor time
# Large packages that the tests import: loaded once, before a process is forked for each mutant.
PRELOADED: Final = ("pytest", "hypothesis", "aiohttp", "aiosqlite", "ada_url", "structlog", "click")


def _tests(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names)


_FRONTIER: Final = (
    *_tests("crawler/frontier", "pace", "grant_limits", "permits", "process_contacts"),
    *_tests("crawler/frontier", "system_holds"),
    *_tests("crawler/scheduling", "pacing"),
)
_SCHEDULING: Final = (
    *_tests("crawler/scheduling", "shared_hosts", "shared_crawl", "storage_holds", "reach"),
    *_tests("crawler/scheduling", "end", "rejudge", "forever"),
)
_POLICIES: Final = (
    *("pacing", "scope", "retries", "recrawl", "listing", "globs", "indexing", "quarantine"),
    *("robots_state", "address", "schemes", "url"),
)
# Module -> its tests, the fastest first. None of them starts processes: those would import the
# module as it is.
TESTS: Final[dict[str, tuple[str, ...]]] = {
    **{f"policies/{name}.py": _tests("policies", name) for name in _POLICIES},
    "policies/declarations.py": _tests("policies", "declarations", "usage"),
    **{
        f"crawler/frontier/{name}.py": _tests("crawler/frontier", name) + _FRONTIER
        for name in ("workbench", "crowd_pace", "large_bodies")
    },
    "crawler/frontier/fair_queue.py": _tests("crawler/frontier", "fair_queue", "ready_lines")
    + _FRONTIER,
    "crawler/frontier/process_contacts.py": _FRONTIER,
    "crawler/frontier/system_holds.py": _FRONTIER + _tests("crawler/scheduling", "outage"),
    "crawler/frontier/pace.py": _FRONTIER,
    "crawler/frontier/permits.py": _FRONTIER + _tests("crawler/frontier", "wall_steps"),
    "crawler/frontier/grant_limits.py": _FRONTIER,
    "crawler/frontier/addresses.py": _FRONTIER + _tests("crawler/scheduling", "shared_addresses"),
    "crawler/scheduling/due_work.py": _SCHEDULING + _tests("crawler/scheduling", "revisits"),
    "crawler/scheduling/fair_share.py": _tests("crawler/scheduling", "fair_share") + _SCHEDULING,
    "crawler/scheduling/host_leases.py": _SCHEDULING + _tests("crawler/embedding", "caller_gate"),
    "crawler/scheduling/host_supply.py": _SCHEDULING,
    "crawler/scheduling/rejudging.py": _tests("crawler/scheduling", "rejudge", "judging_yields")
    + _SCHEDULING,
    "crawler/scheduling/disk_space.py": _tests("crawler/scheduling", "disk_space"),
}
_ONE: Final = (ast.Lt, ast.Gt, ast.Eq, ast.Is, ast.In, ast.Add, ast.Mult, ast.And)
_OTHER: Final = (ast.LtE, ast.GtE, ast.NotEq, ast.IsNot, ast.NotIn, ast.Sub, ast.Div, ast.Or)
_SWAPPED: Final[dict[type, type]] = dict(zip(_ONE + _OTHER, _OTHER + _ONE, strict=True))


class Change(NamedTuple):
    """Replace the source of `node` by `text`."""

    node: ast.expr | ast.stmt
    text: str


def changes_of(tree: ast.Module) -> list[Change]:
    """All single changes of a module, outside annotations and decorators."""
    return [change for node in _executed(tree) for change in _changes(node)]


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run, and mark local names that are assigned a second time: without the
    second assignment the code still runs."""
    yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        seen = {argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg)}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assign):
                parts = [part for target in inner.targets for part in ast.walk(target)]
                names = {part.id for part in parts if isinstance(part, ast.Name)}
                inner.type_comment = "again" if names <= seen else None
                seen |= names
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or (
            name == "keywords" and isinstance(node, ast.ClassDef)
        ):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield from _executed(child)


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(left, [op], comparators) if type(op) in _SWAPPED:
            yield _as(node, ast.Compare(left, [_SWAPPED[type(op)]()], comparators))
        case ast.BoolOp(op, values):
            yield _as(node, ast.BoolOp(_SWAPPED[type(op)](), values))
        case ast.BinOp(left, op, right) if type(op) in _SWAPPED:
            yield _as(node, ast.BinOp(left, _SWAPPED[type(op)](), right))
        case ast.UnaryOp(ast.Not(), operand):
            yield _as(node, operand)
        case ast.Constant(bool(value)):
            yield Change(node, repr(not value))
        case ast.Constant(0 | 1 as number):
            yield Change(node, str(1 - number))
        case ast.Call(ast.Name("min" | "max" as name) as function):
            yield Change(function, "max" if name == "min" else "min")
        case ast.If(ast.Name("TYPE_CHECKING")):
            return  # what only annotations need
        case ast.If(test) | ast.IfExp(test) | ast.While(test) if not isinstance(test, ast.Compare):
            yield _as(test, ast.UnaryOp(ast.Not(), test))  # the branches are swapped
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield Change(value, "None")
        case ast.Expr(ast.Call() | ast.Await()) | ast.AugAssign():
            yield Change(node, "pass")
        case ast.Assign(targets, type_comment=again):
            if again or not any(isinstance(target, ast.Name | ast.Tuple) for target in targets):
                yield Change(node, "pass")


def _as(old: ast.expr, new: ast.expr) -> Change:
    return Change(old, f"({ast.unparse(ast.fix_missing_locations(new))})")


def mutated(source: str, change: Change) -> str:
    """The source with one change; positions of `ast` are in bytes of UTF-8."""
    lines = source.encode().splitlines(keepends=True)
    node = change.node
    assert node.end_lineno is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + (node.end_col_offset or 0)
    raw = source.encode()
    return (raw[:start] + change.text.encode() + raw[end:]).decode()


class _Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from this source, all others as usual."""

    def __init__(self, path: str, source: str) -> None:
        self._name = path.removesuffix(".py").replace("/", ".")
        self._path = ROOT / path
        self._source = source

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(name, self._path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, self._path, "exec"), module.__dict__)


class _Reached:
    """Records which lines of the module each test reaches, or runs only the tests `chosen`."""

    def __init__(self, chosen: set[str] | None, coverage: Coverage | None) -> None:
        self._chosen = chosen
        self._coverage = coverage

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._chosen is not None:
            items[:] = [item for item in items if item.nodeid in self._chosen]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._coverage:
            self._coverage.switch_context(nodeid)


def reaching(tree: ast.Module, change: Change, tests: dict[int, list[str]]) -> set[str] | None:
    """The tests that reach a change; None: all, as it is made when the module is imported. tests:
    by line."""
    line = change.node.lineno
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in around[:-1]):
        return None
    lines = range(around[-1].lineno, (change.node.end_lineno or 0) + 1)
    return {test for line in lines for test in tests.get(line, [])}


def begin(
    path: str,
    source: str,
    cpu_s_max: float,
    chosen: set[str] | None = None,
    recorded: str | None = None,
) -> int:
    """Test the module with this source in a new process; return its id. recorded: the file in which
    the lines that each test reaches are recorded."""
    if pid := os.fork():
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s_max) + 1, int(cpu_s_max) + 10))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        sys.meta_path.insert(0, _Mutant(path, source))
        import pytest

        options = "-xq --assert=plain -pno:cacheprovider --hypothesis-profile=mutants"
        options += " --timeout-method=thread --timeout="  # it ends the process
        options += "300" if recorded else "60"
        coverage = recorded and Coverage(recorded, include=[str(ROOT / path)], config_file=False)
        if coverage:
            coverage.start()
        plugins = [_Reached(chosen, coverage or None)]
        code = int(pytest.main([*options.split(), *TESTS[path]], plugins))
        if coverage:
            coverage.stop()
            coverage.save()
    finally:
        os._exit(code)


def wait(began_s: dict[int, float]) -> tuple[int, int, float]:
    """Wait for the first of these processes to end; those that take too long are ended. Return its
    id, its exit code (0: all tests passed), and the seconds of processor time that it used."""
    while True:
        for pid, at_s in began_s.items():
            found, status, usage = os.wait4(pid, os.WNOHANG)
            if found:
                code = os.waitstatus_to_exitcode(status)
                return pid, code, usage.ru_utime + usage.ru_stime
            if time.monotonic() - at_s > WALL_S_MAX:
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.05)


def survivors(path: str, changes: list[Change], source: str, processes: int) -> int:
    """Test all mutants, print those that live, and return their number. Raises SystemExit if the
    tests fail without."""
    with tempfile.TemporaryDirectory() as folder:
        recorded = f"{folder}/lines"
        pid = begin(path, source, 10 * WALL_S_MAX, recorded=recorded)
        _, code, tests_s = wait({pid: math.inf})
        if code:
            raise SystemExit(f"{path}: its tests fail without a mutant (exit code {code})")
        data = CoverageData(recorded)
        data.read()
        tests = data.contexts_by_lineno(str(ROOT / path))
    tree = ast.parse(source)
    print(f"{path}: {len(changes)} mutants; its tests take {tests_s:.1f} s", flush=True)  # noqa: T201
    found = 0
    began_s: dict[int, float] = {}
    under_test: dict[int, str] = {}
    waiting = list(reversed(changes))
    while waiting or began_s:
        while waiting and len(began_s) < processes:
            change = waiting.pop()
            changed = mutated(source, change)
            chosen = reaching(tree, change, tests)
            pid = begin(path, changed, tests_s + 5, chosen)  # without a record, tests are faster
            began_s[pid], under_test[pid] = time.monotonic(), changed
        pid, code, _ = wait(began_s)
        del began_s[pid]
        changed = under_test.pop(pid)
        if code in (0, 5):  # 5: no test reaches it
            found += 1
            lines = source.splitlines(), changed.splitlines()
            diff = list(difflib.unified_diff(*lines, n=0, lineterm=""))[2:]
            print("\n".join(diff), flush=True)  # noqa: T201
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(TESTS), help="; ".join(TESTS))
    parser.add_argument("--sample", type=int, help="mutants tried of each module; all if not given")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    arguments = parser.parse_args()
    os.chdir(ROOT)
    for name in PRELOADED:
        importlib.import_module(name)
    table: list[str] = []
    for path in arguments.modules:
        source = (ROOT / path).read_text()
        changes = changes_of(ast.parse(source))
        if arguments.sample and arguments.sample < len(changes):
            chosen = random.Random(arguments.seed).sample(range(len(changes)), arguments.sample)
            changes = [changes[index] for index in sorted(chosen)]
        alive = survivors(path, changes, source, arguments.processes)
        table.append(f"| `{path}` | {len(changes)} | {alive} |")
    print("| module | mutants | survivors |", "|---|---|---|", *table, sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
