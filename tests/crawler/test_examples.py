"""The examples of the docs and docstrings run unchanged against a local web."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import crawler
from crawler.testing import LocalWeb, html, text

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SITE = {
    "/robots.txt": text("User-agent: *\nDisallow: /private/\n"),
    "/": html("Home", "/a", "/private/b"),
    "/a": html("A"),
}


def examples() -> Iterator[tuple[str, str]]:
    for name in ("docs/embedding.md", "docs/sinks.md", "README.md"):
        for n, code in enumerate(BLOCK.findall((ROOT / name).read_text("utf-8"))):
            if "from crawler" in code:
                yield f"{name}-{n}", code
    for name in ("Crawler", "PoliteSession", "Politeness"):
        doc = inspect.getdoc(getattr(crawler, name)) or ""
        for code in BLOCK.findall(doc):
            imports = f"import aiohttp\nfrom crawler import {name}\n"
            yield name, f"{imports}async def main():\n{textwrap.indent(code, '    ')}"


@pytest.mark.parametrize(("name", "code"), [pytest.param(*e, id=e[0]) for e in examples()])
async def test_it_runs(name: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with LocalWeb({"127.0.0.1": SITE}) as web:
        if "FakeFetcher" not in code:
            code = code.replace('"https://example.com/', f'"{web.url("127.0.0.1")}')
            code = code.replace("user_agent=", 'allow="127.0.0.0/8", delay=0.01, user_agent=')
        code = code.replace("asyncio.run(main())", "")
        names: dict[str, object] = {}
        exec(compile(ast.parse(code), name, "exec"), names)
        main = names["main"]
        assert callable(main)
        async with asyncio.timeout(30):
            await main()
        if "FakeFetcher" not in code:
            assert web.log.paths()[0] == "/robots.txt"
            assert not any(path.startswith("/private/") for path in web.log.paths())
            assert capsys.readouterr().out
