"""The imports of a command, which dominate its start and the duration of a small crawl."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from crawler.testing import LocalWeb, html

# Modules that a plain crawl does not use.
UNUSED = {
    *("aiohttp.web", "charset_normalizer", "importlib.metadata", "jinja2", "pyarrow"),
    *("prometheus_client", "rich", "structlog", "warcio"),
    *(
        "crawler.daemon.api.operations",
        "crawler.daemon.http.application",
        "crawler.daemon.service",
        "crawler.console",
    ),
    *("crawler.reports", "crawler.testing"),
}


async def test_a_crawl_imports_only_what_it_uses(tmp_path: Path) -> None:
    code = (
        "import sys; from crawler.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as left: assert not left.code, left\n"
        "print(*sys.modules)"
    )
    async with LocalWeb({"127.0.0.1": {"/": html("one", "/two"), "/two": html("two")}}) as web:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "crawl", web.url("127.0.0.1"), "--json", "--quiet"),
            *("--allow", "127.0.0.0/8", "--delay", "0"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    summary, modules = out.decode().splitlines()
    assert '"visited": 2' in summary
    assert UNUSED.isdisjoint(modules.split())


def test_the_version_is_printed_without_slow_imports() -> None:
    code = (
        "import sys; from crawler.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit as left: assert not left.code, left\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *_, modules = done.stdout.splitlines()
    heavy = {"asyncio", "importlib.metadata", "msgspec", "crawler.config", "crawler.cli.crawl"}
    assert heavy.isdisjoint(modules.split())
