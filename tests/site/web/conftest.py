"""A headless Chromium that tests share, driven through its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import itertools
import json
import os
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import aiohttp
import pytest

STARTS_WITHIN_S = 40.0
ANSWERS_WITHIN_S = 20.0
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # CI runs as root in a container, where the sandbox cannot start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


@functools.cache
def _axe() -> str:
    """The source of axe-core, which the package has for another browser driver."""
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")


# A phone and a desktop, each by day and by night.
LOOKS: list[dict[str, Any]] = [
    {"width": width, "dark": dark} for width in (390, 1280) for dark in (False, True)
]


class Tab:
    """One page. Selectors are CSS; the mouse clicks at the position of an element."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.dialogs: list[str] = []  # what alert() said: nobody calls it, unless something ran
        self.errors: list[str] = []  # of the console and of the policy

    async def send(self, method: str, **params: object) -> dict[str, Any]:
        return await self._browser.send(method, session=self._session, **params)

    async def open(self) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable")
        on = self._browser.on
        on(self._session, "Page.javascriptDialogOpening", self._dialog)
        on(self._session, "Log.entryAdded", lambda e: self.errors.append(e["entry"]["text"]))
        on(
            self._session,
            "Runtime.exceptionThrown",
            lambda e: self.errors.append(str(e["exceptionDetails"])),
        )

    def _dialog(self, event: dict[str, Any]) -> None:
        self.dialogs.append(event["message"])
        self._browser.post("Page.handleJavaScriptDialog", session=self._session, accept=True)

    async def _loaded(self, act: Callable[[], Any]) -> None:
        loaded = self._browser.once(self._session, "Page.loadEventFired")
        await act()
        await asyncio.wait_for(loaded, ANSWERS_WITHIN_S)

    async def goto(self, url: str) -> None:
        await self._loaded(lambda: self.send("Page.navigate", url=url))

    async def js(self, expression: str) -> Any:
        """Evaluate an expression, awaiting promises, and return its value."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def text(self, selector: str = "body") -> str:
        return str(
            await self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        )

    async def until(self, expression: str, within_s: float = ANSWERS_WITHIN_S) -> None:
        """Wait until an expression is true."""
        waiting = (
            "new Promise((done) => { const look = () =>"
            f" ({expression}) ? done() : setTimeout(look, 50); look(); }})"
        )
        await asyncio.wait_for(self.js(waiting), within_s)

    async def click(self, selector: str, *, loads: bool = True) -> None:
        """Click the center of the first element that matches; `loads`: wait for the page that it
        leads to."""
        find = f"document.querySelector({json.dumps(selector)})"
        assert await self.js(f"{find} !== null"), f"there is no {selector}"
        await self.js(f"{find}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = await self.js(
            f"(() => {{ const r = {find}.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )

        async def press() -> None:
            for kind in ("mousePressed", "mouseReleased"):
                await self.send(
                    "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
                )

        await (self._loaded(press) if loads else press())

    async def fill(self, selector: str, text: str) -> None:
        """Replace the contents of a field as if typed."""
        await self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        await self.js(f"document.querySelector({json.dumps(selector)}).select()")
        await self.send("Input.insertText", text=text)

    async def key(self, name: str, code: int = 0, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    async def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the theme."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        await self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    async def violations(self) -> list[str]:
        """What axe finds wrong with the page as it is: WCAG 2.2 A and AA, and best practices."""
        if not await self.js("'axe' in window"):
            await self.send("Runtime.evaluate", expression=_axe())
        found = await self.js(
            "axe.run({resultTypes: ['violations']}).then((all) => all.violations.map((one) =>"
            " one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 160)).join(' | ')))"
        )
        return list(found)

    async def shot(self, file: Path) -> None:
        answer = await self.send("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        await asyncio.to_thread(file.write_bytes, base64.b64decode(answer["data"]))


class Browser:
    """One context of a browser, `tab()` opens a page in it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.context = ""
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._handlers: dict[tuple[str, str], list[Callable[[dict[str, Any]], Any]]] = defaultdict(
            list
        )

    async def listen(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if (answer := self._answers.pop(told.get("id"), None)) is not None:
                if not answer.done():
                    answer.set_result(told)
                continue
            key = (told.get("sessionId", ""), told.get("method", ""))
            for handler in tuple(self._handlers[key]):
                handler(told["params"])

    def on(self, session: str, event: str, handler: Callable[[dict[str, Any]], Any]) -> None:
        self._handlers[session, event].append(handler)

    def once(self, session: str, event: str) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        handlers = self._handlers[session, event]

        def seen(_: dict[str, Any]) -> None:
            handlers.remove(seen)
            if not future.done():
                future.set_result(None)

        handlers.append(seen)
        return future

    def post(self, method: str, *, session: str = "", **params: object) -> int:
        """Send without waiting for a response."""
        number = next(self._ids)
        told = {"id": number, "method": method, "params": params}
        if session:
            told["sessionId"] = session
        sending = asyncio.ensure_future(self._socket.send_json(told))
        sending.add_done_callback(lambda done: done.cancelled() or done.exception())
        return number

    async def send(self, method: str, *, session: str = "", **params: object) -> dict[str, Any]:
        future = asyncio.get_running_loop().create_future()
        self._answers[self.post(method, session=session, **params)] = future
        told = await asyncio.wait_for(future, ANSWERS_WITHIN_S)
        assert "error" not in told, f"{method}: {told['error']}"
        result: dict[str, Any] = told["result"]
        return result

    async def tab(self) -> Tab:
        target = (
            await self.send("Target.createTarget", url="about:blank", browserContextId=self.context)
        )["targetId"]
        session = await self.send("Target.attachToTarget", targetId=target, flatten=True)
        tab = Tab(self, session["sessionId"])
        await tab.open()
        await tab.look()
        return tab


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """Run a browser with its profile in this folder. Yields the URL of its web socket."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program is not None
    opened = folder / "DevToolsActivePort"  # it writes its port and path there
    with subprocess.Popen(
        [program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            until_s = time.monotonic() + STARTS_WITHIN_S
            while not (opened.exists() and opened.read_text().count("\n")):
                assert process.poll() is None, "chromium ended before it listened"
                assert time.monotonic() < until_s, "chromium does not listen"
                time.sleep(0.02)
            port, path = opened.read_text().split()
            yield f"ws://127.0.0.1:{port}{path}"
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[Browser]:
    """Use a browser with cookies and storage of our own."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, max_msg_size=0) as socket,
    ):
        browser = Browser(socket)
        listening = asyncio.ensure_future(browser.listen())
        try:
            context = await browser.send("Target.createBrowserContext", disposeOnDetach=True)
            browser.context = context["browserContextId"]
            yield browser
            await browser.send("Target.disposeBrowserContext", browserContextId=browser.context)
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


@pytest.fixture(scope="session")
def browser_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The browser that all tests of this process use."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        if os.environ.get("CI"):
            pytest.fail("the browser tests need chromium, which .ci/run installs")
        pytest.skip("no chromium here: the tests of the page in a browser are left out")
    with chromium(tmp_path_factory.mktemp("profile")) as url:
        yield url


@pytest.fixture
async def browser(browser_url: str) -> AsyncIterator[Browser]:
    async with connected(browser_url) as running:
        yield running


@pytest.fixture
async def tab(browser: Browser) -> Tab:
    return await browser.tab()
