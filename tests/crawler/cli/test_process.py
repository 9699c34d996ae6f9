"""The garbage collector and allocator settings of a crawl."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crawler.cli import process

# Counts the page faults of building trees, in a new process because the setting is process-wide.
SCRIPT = """
import resource, sys
from selectolax.lexbor import LexborHTMLParser
from crawler.cli.process import keep_freed_memory
asked = keep_freed_memory()
html = b"<ul>" + b"<li class='item'><a href='/x'>item</a> and text</li>" * 500
def build():
    for _ in range(300):
        LexborHTMLParser(html)
build()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
build()
print(int(asked), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> tuple[bool, int]:
    inherited = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**inherited, **environment},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    asked, count = map(int, done.stdout.split())
    return bool(asked), count


@pytest.mark.skipif(
    "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="another C library than glibc"
)
def test_freed_memory_is_reused() -> None:
    asked, kept = faults()
    assert asked
    assert kept < 3_000, "less than ten per tree"


def test_the_environment_takes_precedence() -> None:
    asked, _ = faults(MALLOC_ARENA_MAX="2")
    assert not asked


def test_other_c_libraries_are_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr_names", {})
    monkeypatch.setattr(ctypes, "CDLL", None)
    assert not process.keep_freed_memory()


AN_OLD_CYCLE = """
import gc, weakref
from crawler.cli.process import tune

class Knot: pass

tune()
knot = Knot()
knot.itself = knot
known = weakref.ref(knot)
gc.collect(1)  # the object has survived two collections
del knot
rounds = 0
while known() is not None:
    made = [[] for _ in range(11_000)]  # triggers a young collection
    rounds += 1
    assert rounds < 100
"""


def test_old_cycles_are_collected() -> None:
    """However rarely: after 400,000 objects more than were freed."""
    subprocess.run([sys.executable, "-c", AN_OLD_CYCLE], check=True, timeout=60)
