"""The text of config.example.toml, made from the keys.

Write the file after a change: `python -m tests.crawler.config.example > config.example.toml`.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap

from crawler.config.json_schema import default_of
from crawler.config.keys import SECTIONS, SINK
from crawler.config.readers import choices
from policies.config_key import Key

WIDTH = 100
COMMENT_COLUMN = 27
HEAD = """\
# Every key of courtly's config with its default. All keys are optional: set only what you want to
# change. `courtly config check FILE` checks a config; `courtly config schema` prints a schema for
# editors.
#
# Durations are seconds, or strings such as "250ms", "10m", "1.5h", "2d". Sizes are bytes, or
# strings such as "500KB", "10MB" (10⁶), "1MiB". `inf` means no limit. Paths are relative to this
# file. In URL patterns, `*` matches any characters, other characters match themselves, and the
# pattern must match the whole URL.
"""
DAEMON = "# For `courtly run`; see docs/daemon.md.\n"
SINKS = """\
# Sinks keep pages outside the database; there may be several. The path of a mirror is a directory
# of its own.
# [[sink]]
"""
SITE = """\
# Any key of politeness, robots, fetch, scope and revisit, for some hosts. "*.example.org" covers
# the apex domain and every port; for each key, the most specific pattern wins. This delay is a
# minimum, like the global one: a Crawl-delay may be longer.
# [site."*.example.org"]
# delay = 5
"""
_DURATIONS = {"d": 86_400, "h": 3_600, "m": 60}
_SIZES = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "MiB": 2**20, "KiB": 2**10}


def example() -> str:
    parts = [HEAD]
    for section, keys in SECTIONS.items():
        lines = [f"[{section}]", *(_line(name, key) for name, key in keys.items())]
        parts.append((DAEMON if section in ("daemon", "webhook") else "") + "\n".join(lines) + "\n")
    sink = "\n".join(_line(name, key) for name, key in SINK.items())
    parts += [SINKS + textwrap.indent(sink, "# ") + "\n", SITE]
    return "\n".join(parts)


def _line(name: str, key: Key) -> str:
    given = f"{name} = {_toml(name, key)}"
    kinds = f"{', '.join(key.kinds)}: " if key.kinds else ""
    known = " | ".join(json.dumps(choice) for choice in choices(key))
    comment = kinds + ": ".join(filter(None, (known, key.doc)))
    column = max(COMMENT_COLUMN, len(given) + 2)
    wrapped = textwrap.wrap(comment, WIDTH - column - 2, break_long_words=False)
    before = [given, *[""] * (len(wrapped) - 1)]
    return "\n".join(f"{a:<{column}}# {b}" for a, b in zip(before, wrapped, strict=True))


def _toml(name: str, key: Key) -> str:
    value = {"kind": "jsonl", "path": "pages.jsonl", "gzip": False}.get(name, default_of(key))
    if key.or_single and isinstance(value, list):
        value = "".join(value)
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    units = {"seconds": _DURATIONS, "bytes": _SIZES}.get(key.unit, {})
    for unit, size in units.items():
        if isinstance(value, int | float) and value and value % size == 0:
            return json.dumps(f"{value / size:g}{unit}")
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


if __name__ == "__main__":
    sys.stdout.write(example())
