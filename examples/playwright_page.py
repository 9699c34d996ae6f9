"""Chromium through Playwright: every request of a page has a permit, or is aborted."""

import asyncio
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from playwright.async_api import Error, Route, async_playwright

from crawler import CourtlyError, PoliteSession

# What is not routed (of shared workers, WebRTC, Chromium itself) meets a proxy that does not exist.
CUT_OFF = ["--proxy-server=127.0.0.1:9", "--proxy-bypass-list=<-loopback>"]
CUT_OFF += ["--webrtc-ip-handling-policy=disable_non_proxied_udp"]


async def answer(session: PoliteSession, route: Route) -> None:
    url = route.request.url
    sent: dict[str, Any] = {"method": route.request.method}
    with suppress(CourtlyError, Error, KeyError):
        for _ in range(10):  # redirects, which Chromium would follow without a permit
            async with session.permit(url, sent["method"]) as permit:
                response = await route.fetch(url=url, max_redirects=0, **sent)
                permit.record(response.status, response.headers)
            if response.status not in (301, 302, 303, 307, 308):
                return await route.fulfill(response=response)
            url = urljoin(url, response.headers["location"])
            if route.request.is_navigation_request():
                return await route.fulfill(headers={"Refresh": f"0;url={url}"})
            if response.status < 307 and sent["method"] != "HEAD":
                sent = {"method": "GET", "post_data": b""}
    with suppress(Error):  # the page is closed
        await route.abort()


async def main(
    user_agent: str, url: str, chromium: str | None = None, *, idle_s: float = 60, **options: Any
) -> None:
    async with PoliteSession(user_agent=user_agent, **options) as session, async_playwright() as p:
        browser = await p.chromium.launch(executable_path=chromium, args=CUT_OFF)
        page = await browser.new_page(user_agent=user_agent, service_workers="block")
        await page.context.route("**", lambda route: answer(session, route))
        await page.context.route_web_socket("**", lambda socket: socket.close())
        await page.goto(url, timeout=0)
        with suppress(Error):  # some pages are never idle
            await page.wait_for_load_state("networkidle", timeout=idle_s * 1000)
        print(page.url, await page.title())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
