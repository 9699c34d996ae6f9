"""Mutation testing: how many small faults in a module do its tests find?

    python -m tests.mutation policies/scope.py crawler/frontier/permits.py --sample 25 --seed 1

Each mutant is one change of the module's source, as a slip of the hand would make it. It is tested
in a process of its own, which compiles the changed source when the module is imported: the working
tree stays as it is. A mutant that fails no test is a survivor and printed as a diff.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.abc
import importlib.util
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
PROCESSES_MAX: Final = 2
CPU_FACTOR: Final = 5  # a mutant may use this many times the processor time of the module's tests
WALL_S_MAX: Final = 600.0  # for a mutant that waits and uses no processor time
# Large packages that the tests import: loaded once, before a process is forked for each mutant.
PRELOADED: Final = ("pytest", "hypothesis", "aiohttp", "aiosqlite", "ada_url", "structlog", "click")

_FRONTIER: Final = (
    "tests/crawler/frontier/test_pace.py",
    "tests/crawler/frontier/test_grant_limits.py",
    "tests/crawler/frontier/test_permits.py",
    "tests/crawler/frontier/test_process_contacts.py",
    "tests/crawler/frontier/test_system_holds.py",
    "tests/crawler/scheduling/test_pacing.py",
)
# Module -> its tests, the fastest first. None of them starts processes: those would import the
# module as it is.
TESTS: Final[dict[str, tuple[str, ...]]] = {
    "policies/pacing.py": ("tests/policies/test_pacing.py",),
    "policies/scope.py": ("tests/policies/test_scope.py",),
    "policies/retries.py": ("tests/policies/test_retries.py",),
    "policies/recrawl.py": ("tests/policies/test_recrawl.py",),
    "crawler/frontier/pace.py": _FRONTIER,
    "crawler/frontier/permits.py": _FRONTIER,
    "crawler/frontier/grant_limits.py": _FRONTIER,
    "crawler/frontier/addresses.py": _FRONTIER,
}

_COMPARED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


class Change(NamedTuple):
    """Replace the source of `node` by `text`."""

    node: ast.expr | ast.stmt
    text: str


class Result(NamedTuple):
    """What became of a mutant: `code` is 0 if all tests passed; `cpu_s` is what they took."""

    code: int
    cpu_s: float


# ------------------------------------------------------------ making mutants


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
                names = {
                    n.id for t in inner.targets for n in ast.walk(t) if isinstance(n, ast.Name)
                }
                inner.type_comment = "again" if names <= seen else None
                seen |= names
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        if name == "keywords" and isinstance(node, ast.ClassDef):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield from _executed(child)


def _changes(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(left, [op], comparators) if type(op) in _COMPARED:
            yield _as(node, ast.Compare(left, [_COMPARED[type(op)]()], comparators))
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield _as(node, ast.BoolOp(other, values))
        case ast.BinOp(left, op, right) if type(op) in _CALCULATED:
            yield _as(node, ast.BinOp(left, _CALCULATED[type(op)](), right))
        case ast.UnaryOp(ast.Not(), operand):
            yield _as(node, operand)
        case ast.Constant(bool(value)):
            yield Change(node, repr(not value))
        case ast.Constant(0 | 1 as number):
            yield Change(node, str(1 - number))
        case ast.Call(ast.Name("min" | "max" as name), args, keywords):
            other_name = ast.Name("max" if name == "min" else "min")
            yield _as(node, ast.Call(other_name, args, keywords))
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


# ------------------------------------------------------------ testing them


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


def begin(path: str, source: str, cpu_s_max: float) -> int:
    """Test the module with this source in a new process; return its id."""
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

        options = ("-xq", "--assert=plain", "-pno:cacheprovider", "--hypothesis-profile=mutants")
        code = int(pytest.main([*options, *TESTS[path]]))
    finally:
        os._exit(code)


def wait(began_s: dict[int, float]) -> tuple[int, Result]:
    """Wait for the first of these processes to end; those that take too long are ended."""
    while True:
        for pid, at_s in began_s.items():
            found, status, usage = os.wait4(pid, os.WNOHANG)
            if found:
                cpu_s = usage.ru_utime + usage.ru_stime
                return pid, Result(os.waitstatus_to_exitcode(status), cpu_s)
            if time.monotonic() - at_s > WALL_S_MAX:
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.05)


def survivors(path: str, changes: list[Change], source: str, processes: int) -> list[Change]:
    """Test all mutants and print those that live. Raises SystemExit if the tests fail without."""
    pid = begin(path, source, WALL_S_MAX)
    _, whole = wait({pid: time.monotonic()})
    if whole.code:
        raise SystemExit(f"{path}: its tests fail without a mutant (exit code {whole.code})")
    write(f"{path}: {len(changes)} mutants; its tests take {whole.cpu_s:.1f} s")
    found: list[Change] = []
    began_s: dict[int, float] = {}
    under_test: dict[int, Change] = {}
    waiting = list(reversed(changes))
    while waiting or began_s:
        while waiting and len(began_s) < processes:
            change = waiting.pop()
            pid = begin(path, mutated(source, change), CPU_FACTOR * whole.cpu_s + 5)
            began_s[pid], under_test[pid] = time.monotonic(), change
        pid, result = wait(began_s)
        del began_s[pid]
        change = under_test.pop(pid)
        if result.code == 0:
            found.append(change)
            _print_diff(path, source, change)
    return found


def _print_diff(path: str, source: str, change: Change) -> None:
    before, after = source.splitlines(), mutated(source, change).splitlines()
    diff = difflib.unified_diff(before, after, path, path, n=0, lineterm="")
    write("\n".join(list(diff)[2:]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=list(TESTS), help="; ".join(TESTS))
    parser.add_argument("--sample", type=int, help="mutants tried of each module; all if not given")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--processes", type=int, choices=range(1, PROCESSES_MAX + 1), default=1)
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
        table.append(f"| `{path}` | {len(changes)} | {len(alive)} |")
    write("\n".join(["\n| module | mutants | survivors |", "|---|---|---|", *table]))


def write(text: str) -> None:
    """Write lines to standard output immediately."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
