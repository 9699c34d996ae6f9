"""`courtly` with its Python calls and SQL statements counted.

    python counted_crawl.py crawl --config crawl.toml --json --quiet

Runs the command in this process, and prints one JSON object behind its output: calls by layer (such
as "crawler.frontier") and by function, of all threads, and statements that SQLite executes. The
counts do not depend on how fast or how busy the machine is, except where work is batched by time.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import crawler.cli

ROOT: Final = Path(crawler.cli.__file__).parents[2]
OURS: Final = ("crawler", "policies", "storage")
EXECUTES: Final = frozenset({"execute", "executemany"})

calls: Counter[CodeType] = Counter()
statements = 0


def count(frame: FrameType, event: str, called: Any) -> None:
    global statements  # noqa: PLW0603
    if event == "call":
        calls[frame.f_code] += 1
    elif event == "c_call" and called.__name__ in EXECUTES:
        statements += isinstance(called.__self__, sqlite3.Connection | sqlite3.Cursor)


def main() -> None:
    threading.setprofile(count)
    sys.setprofile(count)
    try:
        crawler.cli.main()
    except SystemExit as error:
        if error.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    layers: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for code, number in list(calls.items()):
        file = Path(code.co_filename)
        inside = file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in OURS
        name = ".".join(file.relative_to(ROOT).parts[:-1][:2]) if inside else "others"
        layers[name] += number
        if inside:
            functions[f"{file.relative_to(ROOT)}:{code.co_qualname}"] += number
    found = {"layers": layers, "functions": functions, "statements": statements}
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
