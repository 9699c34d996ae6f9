"""A complete crawl reads a sitemap of 200,000 URLs; its cost is compared with one of a tenth of
them."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from crawler.testing import LocalWeb, Reply

pytestmark = pytest.mark.bench
FEW, MANY = 20_000, 200_000
MORE_MEMORY_MAX_MB = 64  # SQLite fills its cache, and the store what it remembers of URLs

CHILD = """
import resource, sys
from crawler.cli import main
try:
    main(["crawl", sys.argv[1], "--db", sys.argv[2], "--max-pages", "1", "--allow", "127.0.0.0/8",
          "--quiet", "--config", sys.argv[3]])
except SystemExit:
    pass
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_maxrss // 1024, used.ru_utime + used.ru_stime)
"""


def sitemap(web: LocalWeb, count: int) -> Reply:
    base = web.url("a.test", "/page/")
    entries = "".join(
        f"<url><loc>{base}{n}?a=1&b=2</loc><lastmod>2024-01-01</lastmod></url>\n"
        for n in range(count)
    )
    return Reply(body=f"<urlset>{entries}</urlset>", content_type="application/xml")


async def one(folder: Path, count: int) -> tuple[int, float, float]:
    async with LocalWeb() as web:
        web.sites["a.test"] = {"/map.xml": sitemap(web, count)}
        config = folder / f"{count}.toml"
        config.write_text(f'[network]\nresolve = {{ "*.test" = "127.0.0.1" }}\n# {count}\n')
        began_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CHILD, web.url("a.test", "/map.xml")),
            *(str(folder / f"{count}.db"), str(config)),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        memory_mb, cpu_s = out.split()[-2:]
        return int(memory_mb), float(cpu_s), time.monotonic() - began_s


@pytest.mark.timeout(120)
async def test_memory_is_flat(tmp_path: Path) -> None:
    few, many = await one(tmp_path, FEW), await one(tmp_path, MANY)
    for count, (memory_mb, cpu_s, took_s) in ((FEW, few), (MANY, many)):
        print(f"\n{count:,} URLs: {memory_mb} MB, {cpu_s:.1f} CPU s, {took_s:.1f} s", end="")  # noqa: T201
    assert many[0] - few[0] < MORE_MEMORY_MAX_MB
