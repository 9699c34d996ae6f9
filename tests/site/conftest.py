"""Complete crawls of a local web, started as the command line starts them and judged by the
server's log and by the views of their database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from crawler.app import crawl
from crawler.config import from_dict
from crawler.events import Progress, Summary
from crawler.testing import LocalWeb
from tests.command_processes import running, start
from tests.config_files import to_toml, toml_value

DELAY_S = 0.05


class Courtly:
    """Runs crawls of one database file, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "crawl.db"
        self.sinks: dict[str, list[dict[str, object]]] = {}

    def sink(self, kind: str, name: str, **keys: object) -> Path:
        """Add a [[sink]] to the following crawls and return its path."""
        path = self.folder / name
        self.sinks.setdefault("sink", []).append({"kind": kind, "path": str(path), **keys})
        return path

    async def crawl(
        self,
        web: LocalWeb,
        *seeds: str,
        observe: Callable[[Progress], None] | None = None,
        stop: asyncio.Event | None = None,
        exit_now: asyncio.Event | None = None,
        **sections: Mapping[str, object],
    ) -> Summary:
        """Crawl in this process. A seed is a host of the web, or a URL."""
        config = from_dict({**self.config(web, **sections), **self.sinks})
        urls = [seed if "://" in seed else web.url(seed) for seed in seeds]
        return await crawl(config, seeds=urls, observe=observe, stop=stop, exit_now=exit_now)

    def config(
        self, web: LocalWeb, **sections: Mapping[str, object]
    ) -> dict[str, dict[str, object]]:
        config = web.config(
            politeness={"delay": DELAY_S, "latency_factor": 0},
            crawl={"patience": 5},
            scope={"sitemap_paths": []},
            storage={"url": f"sqlite:{self.db}"},
        )
        for name, section in sections.items():
            config[name] = {**config.get(name, {}), **section}
        return config

    @contextlib.asynccontextmanager
    async def process(
        self, web: LocalWeb, *arguments: str, **sections: Mapping[str, object]
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run `courtly crawl --config … arguments` as a process that ends with the block."""
        file = self.folder / "config.toml"
        tables = [
            "[[sink]]\n" + "".join(f"{key} = {toml_value(value)}\n" for key, value in sink.items())
            for sink in self.sinks.get("sink", ())
        ]
        file.write_text(to_toml(self.config(web, **sections)) + "".join(tables))
        async with running("crawl", "--config", str(file), *arguments) as process:
            yield process

    async def held(self) -> dict[str, Any]:
        """Wait until the running crawl reports a hold, and return its reason."""
        async with asyncio.timeout(30):
            while True:
                process = await start("status", "--json", "--db", str(self.db))
                out, _ = await process.communicate()
                if holds := json.loads(out or b"{}").get("held"):
                    reason: dict[str, Any] = holds[0]
                    return reason
                await asyncio.sleep(0.1)

    def rows(self, view: str, columns: str = "url", where: str = "1") -> list[tuple[Any, ...]]:
        """The rows of a view, read with plain SQLite."""
        with contextlib.closing(sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)) as db:
            return db.execute(f"SELECT {columns} FROM {view} WHERE {where} ORDER BY 1").fetchall()

    def make_due(self) -> None:
        """Make every recrawl due, as if its interval had passed since the last crawl."""
        with contextlib.closing(sqlite3.connect(self.db)) as db, db:
            assert db.execute("UPDATE plans SET due_at = 0").rowcount
            db.execute("UPDATE slots SET revisit_at = 0 WHERE revisit_at IS NOT NULL")

    def urls(self, view: str, where: str = "1") -> list[str]:
        return [url for (url,) in self.rows(view, where=where)]


@pytest.fixture
def courtly(tmp_path: Path) -> Courtly:
    return Courtly(tmp_path)
