"""Chromium through Playwright: every request of a page has a permit, or is aborted."""

import asyncio
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from playwright.async_api import Error, Route, async_playwright

from crawler import CourtlyError, PoliteSession


async def answer(session: PoliteSession, route: Route) -> None:
    url = route.request.url
    with suppress(CourtlyError, Error, KeyError):
        for _ in range(10):  # redirects, which Chromium would follow without a permit
            async with session.permit(url, route.request.method) as permit:
                response = await route.fetch(url=url, max_redirects=0)
                permit.record(response.status, response.headers)
            if response.status not in (301, 302, 303, 307, 308):
                return await route.fulfill(response=response)
            url = urljoin(url, response.headers["location"])
            if route.request.is_navigation_request():
                return await route.fulfill(headers={"Refresh": f"0;url={url}"})
    await route.abort()


async def main(user_agent: str, url: str, chromium: str | None = None, **options: Any) -> None:
    async with PoliteSession(user_agent=user_agent, **options) as session, async_playwright() as p:
        browser = await p.chromium.launch(executable_path=chromium)
        page = await browser.new_page(user_agent=user_agent, service_workers="block")
        await page.context.route("**", lambda route: answer(session, route))
        await page.context.route_web_socket("**", lambda socket: socket.close())
        await page.goto(url, wait_until="networkidle", timeout=0)
        print(page.url, await page.title())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
