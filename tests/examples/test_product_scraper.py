"""The product scraper loses no row to kill -9, and fetches no page again but the one in hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import sys
from collections import Counter
from pathlib import Path

from crawler.testing import LocalWeb, Reply, html

FILE = Path(__file__).parents[2] / "examples" / "product_scraper.py"
UA = "examplebot/1.0 (+https://example.com/bot)"
HOST = "127.0.0.1"
CONFIG = {"politeness": {"delay": 0.02, "latency_factor": 0}, "fetch": {"max_attempts": 1}}
PRODUCTS = 40
RUN = f"""
import asyncio, runpy, sys
main = runpy.run_path({str(FILE)!r})["main"]
asyncio.run(main({UA!r}, sys.argv[1], sys.argv[2], config={CONFIG!r}, allow="127.0.0.0/8"))
"""


def shop() -> dict[str, Reply]:
    site = {"/": html("Shop", "/category/0", "/category/1", "/imprint")}
    for category in range(2):
        numbers = range(category, PRODUCTS, 2)
        links = [f"/product/{number}" for number in numbers]
        site[f"/category/{category}"] = html(f"Category {category}", *links, "/product/lost")
        for number in numbers:
            price = f'<meta itemprop="price" content="{number}.50">'
            site[f"/product/{number}"] = html(f"Product {number}", head=price)
    site["/product/lost"] = Reply(status=500)
    return site


def rows(folder: Path) -> list[tuple[str, str, str]]:
    query = "SELECT category, name, price FROM products"
    with (
        contextlib.closing(sqlite3.connect(folder / "products.db")) as table,
        contextlib.suppress(sqlite3.OperationalError),  # not there yet
    ):
        return table.execute(query).fetchall()
    return []


async def has_rows(folder: Path, enough: int) -> None:
    while len(rows(folder)) < enough:  # noqa: ASYNC110 - another process writes them
        await asyncio.sleep(0.02)


async def start(seed: str, folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, seed, str(folder), stdout=asyncio.subprocess.PIPE
    )


async def test_it_survives_kill_9(tmp_path: Path) -> None:
    async with LocalWeb({HOST: shop()}) as web, asyncio.timeout(60):
        for enough in (5, 20):
            process = await start(web.url(HOST), tmp_path)
            await has_rows(tmp_path, enough)
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
        process = await start(web.url(HOST), tmp_path)
        output, _ = await process.communicate()
    assert process.returncode == 0
    assert sorted(rows(tmp_path)) == sorted(
        (f"Category {number % 2}", f"Product {number}", f"{number}.50")
        for number in range(PRODUCTS)
    )
    assert f"{PRODUCTS + 3} pages visited, 1 failed, 0 queued" in output.decode()
    fetched = Counter(path for path in web.log.paths() if path.startswith("/product/"))
    assert fetched.total() <= PRODUCTS + 1 + 2 * 2, "what was in hand, and in flight, at each kill"
    assert "/imprint" not in web.log.paths()
