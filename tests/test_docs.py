"""The documentation agrees with the code wherever a test can check it."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

from crawler.config import from_dict
from crawler.frontier.host_queue import PREFETCH
from crawler.processing.run_limits import FINISH_S
from crawler.scheduling.host_leases import HOSTS_LEASED_MAX
from crawler.scheduling.scheduler import LEAVE_S
from crawler.scheduling.shared_crawl import RENEW_EVERY_S
from storage.columns import VIEWS

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
RECORDS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
PACKAGES = ("policies", "storage", "crawler")


def section(title: str, page: str = "ARCHITECTURE.md") -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_map_lists_every_package() -> None:
    packages = {
        file.parent.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for file in (ROOT / package).rglob("__init__.py")
    }
    listed = re.findall(r"^\| `([^`]+)`", section("Map"), re.MULTILINE)
    assert sorted(listed) == sorted(packages)


def test_the_architecture_stays_short() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 280
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the parsed files of our packages."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return {file.relative_to(ROOT): ast.parse(file.read_text(encoding="utf-8")) for file in files}


@cache
def classes() -> dict[tuple[str, str], tuple[ast.ClassDef, list[tuple[str, str]]]]:
    """Return our classes by module and name, each with its bases by module and name."""
    found = {}
    for file, tree in modules().items():
        path = file.with_suffix("").as_posix()
        known: dict[str, tuple[str, str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.replace(".", "/")
                known |= {one.asname or one.name: (module, one.name) for one in node.names}
        defined = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        known |= {node.name: (path, node.name) for node in defined}
        for node in defined:
            names = [ast.unparse(base).partition("[")[0] for base in node.bases]
            found[path, node.name] = (node, [known.get(name, ("", name)) for name in names])
    return found


def test_the_architecture_names_each_base_class() -> None:
    ours = classes()
    plain = ("Struct", "NamedTuple", "Protocol", "Exception", "BaseException", "Error", "Warning")

    def is_plain(key: tuple[str, str]) -> bool:
        if key not in ours:
            return key[1].endswith(plain)
        return any(is_plain(base) for base in ours[key][1])

    bases = {
        base[1] for _, each in ours.values() for base in each if base in ours and not is_plain(base)
    }
    bullet = section("Invariants").partition("**Inheritance**")[2].partition("\n- ")[0]
    assert sorted(bases) == sorted(re.findall(r"`(_?[A-Z]\w+)`", bullet))


def test_the_architecture_gives_the_numbers_of_the_code() -> None:
    text = " ".join((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split())
    for words in (
        f"with up to {PREFETCH} of their best URLs each",
        f"At most {HOSTS_LEASED_MAX:,} hosts are leased",
        f"requests in flight finish within {FINISH_S:g} s",
        f"committed if the store takes at most {LEAVE_S:g} s",
    ):
        assert words in text
    assert RENEW_EVERY_S == 1.0
    assert "renews its session once a second" in text


def test_the_architecture_names_all_global_state() -> None:
    """Values at the level of a module that change: containers that are empty at first, context
    variables, and names that a function binds again."""
    empty = re.compile(r"\[\]|\{\}|(set|dict|list|deque|OrderedDict|Weak\w+|ContextVar)\(.*\)")
    found = set()
    for file, tree in modules().items():
        values = [
            ast.unparse(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and node.value is not None
            and "Mapping[" not in ast.unparse(node)
        ]
        if any(empty.fullmatch(value) for value in values) or any(
            isinstance(node, ast.Global) for node in ast.walk(tree)
        ):
            found.add(file.as_posix())
    bullet = section("Invariants").partition("**Global state**")[2].partition("\n- ")[0]
    assert sorted(found) == sorted(re.findall(r"`(\w+/\S+\.py)`", bullet))


def test_the_frontier_only_waits_for_what_it_grants() -> None:
    """Nothing there does I/O, sleeps or begins a task: only callers wait, for a ticket or event."""
    acts = re.compile(
        r"(.*\.)?(open|sleep|create_task|ensure_future|to_thread|run_in_executor|socket)"
    )
    waits, others = set(), set()
    for tree in (tree for file, tree in modules().items() if "frontier" in file.parts):
        for node in ast.walk(tree):
            if isinstance(node, ast.Await):
                waits.add(ast.unparse(node.value).partition("(")[0].rpartition(".")[2])
            elif isinstance(node, ast.AsyncFor | ast.AsyncWith) or (
                isinstance(node, ast.Call) and acts.fullmatch(ast.unparse(node.func))
            ):
                others.add(ast.unparse(node))
    assert waits <= {"wait", "_wait", "_future", "find_room"}
    assert not others


def test_class_names_mean_one_thing() -> None:
    """Those that exist twice are different things of two packages that never meet."""
    names = Counter(name for _, name in classes())
    assert {name for name, count in names.items() if count > 1} <= {
        "Answer", "BlockedPage", "Contact", "CrawlState", "Dialect", "Entry", "Event", "LineKind",
        "NextTurn", "Place", "RefusedError", "SeedsPage", "ServerConnection", "Table", "Waiting",
        "Worker", "_Answer", "_Entry",
    }  # fmt: skip


def test_verbs_of_functions_mean_one_thing() -> None:
    """`hold` is left to holds of the whole crawl, `next_turn` is when a caller may have a permit,
    and the others have no meaning in this field."""
    vague = re.compile(
        r"(^|_)(holds?|held|holders?|turns?|rests?|rested|mean|meant|wind|rouse|stir|reckon|weigh|"
        r"stand|led|meet|hand)(_|$)"
    )
    found = {
        node.name
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and vague.search(node.name)
    }
    assert found <= {
        "hold_began", "hold_ended", "_hold", "_send_hold", "_on_hold", "_holds", "held", "_held",
        "next_turn", "_next_turn", "_add_turn", "rest_title", "did_you_mean",
    }  # fmt: skip


def test_the_tests_stand_in_rooms_as_what_they_test_does() -> None:
    for package in PACKAGES:
        for file in (ROOT / "tests" / package).rglob("test_*.py"):
            room = file.parent.relative_to(ROOT / "tests")
            # What every store must pass has a room of its own.
            assert (ROOT / room).is_dir() or room == Path("storage/contract"), file


def test_the_tests_that_hold_the_laws_exist() -> None:
    laws = (ROOT / "docs" / "laws.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d+)\. ", laws, re.MULTILINE) == [str(n) for n in range(1, 11)]
    items = re.findall(r"^- `(tests/[^`]+)`((?:.*)(?:\n  .*)*)", laws, re.MULTILINE)
    assert len(items) > 80
    for path, names in items:
        source = (ROOT / path).read_text(encoding="utf-8")
        for name, more in re.findall(r"`(test_\w+)(…?)`", names):
            assert re.search(rf"def {name}{'' if more else r'[(]'}", source), f"{path}: {name}"


def test_the_architecture_names_each_law() -> None:
    laws = (ROOT / "docs" / "laws.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (\d+)\. (.+)$", laws, re.MULTILINE)
    short = section("Laws")
    for number, title in titles:
        assert re.search(rf"^{number}\. \*\*{title}\b", short, re.MULTILINE), title


def test_decisions_are_numbered_and_listed() -> None:
    numbers = [int(record.name[:4]) for record in RECORDS]
    assert numbers == list(range(1, len(RECORDS) + 1))
    index = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for record in RECORDS:
        lines = record.read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith(f"# {record.name[:4]}: ")
        assert f"- [{lines[0].removeprefix('# ')}]({record.name})" in index.splitlines()
        headings = [line for line in lines if line.startswith("## ")]
        assert headings == ["## Context", "## Decision", "## Consequences"]
        assert len(lines) <= 25, record.name


def test_the_glossary_has_few_terms() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert 20 <= len(re.findall(r"^\| \*\*", text, re.MULTILINE)) <= 26


def test_files_that_are_named_exist() -> None:
    for page in PAGES:
        named = re.findall(
            r"`((?:crawler|policies|storage|tests|docs)/[\w/.-]+)`", page.read_text("utf-8")
        )
        lost = [path for path in named if not ((ROOT / path).exists() or "NAME" in path)]
        assert lost == [], page.name


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#]+)", readme))
    assert [page.name for page in DOCS if f"docs/{page.name}" not in linked] == []
    assert {page.name for page in ROOT.glob("*.md")} - {"README.md"} <= linked
    assert "config.example.toml" in linked


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).exists(), (page.name, target)


def test_configs_that_are_shown_are_configs() -> None:
    for page in PAGES:
        for block in re.findall(
            r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        ):
            from_dict(tomllib.loads(block))


def test_names_are_in_the_files_that_are_given_for_them() -> None:
    """`Name` in `file.py`, and `Name` (`file.py`)."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    path = r"`((?:crawler|policies|storage|tests)/[\w/]+\.py)`"
    for name, file in re.findall(rf"`(\w+)`(?:\s+in\s+|\s+\(){path}", text):
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:class |(?:async )?def )?{name}\b", source, re.MULTILINE), (
            f"{file}: {name}"
        )


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^make (\w+)|`make (\w+)", contributing, re.MULTILINE))
    assert {name for pair in named for name in pair if name} <= targets


def test_every_view_and_column_is_described() -> None:
    text = (ROOT / "docs" / "database.md").read_text(encoding="utf-8")
    for view, columns in VIEWS.items():
        told = text.partition(f"\n## {view}\n")[2].partition("\n## ")[0]
        assert told, view
        assert [name for name in columns if f"`{name}`" not in told] == [], view
