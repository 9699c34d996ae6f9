"""Chromium as a referee: a page on loopback runs a script that sends its results back."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--window-size=800,600",
)  # fmt: skip
_WAIT_S = 240


class Answer(NamedTuple):
    """The server's response for a path."""

    body: bytes
    content_type: str | None = "text/html; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


def found_by(chromium: Path, profile: Path, answers: Mapping[str, Answer]) -> tuple[Any, list[str]]:
    """What the script of the page "/" posted to "/found", as JSON, and the targets of all
    requests in order. profile: an empty directory."""
    found: list[Any] = []
    asked: list[str] = []
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer = answers.get(self.path.partition("?")[0], Answer(b"", "text/plain"))
            self.send_response(200)
            if answer.content_type is not None:
                self.send_header("Content-Type", answer.content_type)
            for name, value in answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()
            found.append(json.loads(body))
            over.set()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{server.server_port}/"
    browser = subprocess.Popen(
        [str(chromium), *_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", page],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert over.wait(_WAIT_S), "the script of the page sent nothing"
    finally:
        browser.terminate()
        browser.wait(30)
        server.shutdown()
        server.server_close()
    return found[0], asked
