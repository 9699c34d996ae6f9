"""The OpenTelemetry example, with the SDK's exporter in memory."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from crawler import RobotsDisallowed
from crawler.testing import LocalWeb, html, text

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "opentelemetry_spans.py"
UA = "examplebot/1.0 (+https://example.com/bot)"
SITE = {"/robots.txt": text("User-agent: *\nDisallow: /p\n"), "/a": html("A")}


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("opentelemetry_spans", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_waits_and_contacts_are_spans_below_the_caller_span() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    async with LocalWeb({"127.0.0.1": SITE}) as web:
        url = web.url("127.0.0.1", "/a")
        await example().main(tracer, url, UA, "127.0.0.0/8")
        robots, wait, page, fetch = exporter.get_finished_spans()
        assert [robots.name, wait.name, page.name, fetch.name] == [
            "courtly.robots",
            "courtly.wait",
            "courtly.page",
            "fetch",
        ]
        assert wait.parent == page.parent == fetch.context
        assert robots.parent is None  # it is fetched for all callers
        for span in (robots, wait, page):
            assert span.start_time is not None
            assert span.end_time is not None
            assert span.attributes is not None
            assert span.attributes["server.address"] == "127.0.0.1"
            assert span.start_time <= span.end_time
        assert page.attributes is not None
        assert (page.attributes["url.full"], page.attributes["status"]) == (url, 200)
        assert wait.end_time is not None
        assert wait.end_time - (wait.start_time or 0) >= 0.9e9  # the delay after robots.txt
        assert abs((page.start_time or 0) - wait.end_time) < 0.5e9

        exporter.clear()
        with pytest.raises(RobotsDisallowed):
            await example().main(tracer, web.url("127.0.0.1", "/p"), UA, "127.0.0.0/8")
        refused = exporter.get_finished_spans()[1]
        assert refused.name == "courtly.wait"
        assert not refused.status.is_ok
        assert "RobotsDisallowed" in (refused.status.description or "")


async def test_it_runs_as_a_program() -> None:
    async with LocalWeb({"127.0.0.1": SITE}) as web:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        arguments = [web.url("127.0.0.1", "/a"), UA, "127.0.0.0/8"]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, str(FILE), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    for name in ("fetch", "courtly.wait", "courtly.robots", "courtly.page"):
        assert f'"name": "{name}"' in done.stdout
