"""Chromium through Playwright: every request of a page has a permit, or is aborted."""

import asyncio
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

from courtly import CourtlyError, PoliteSession
from playwright.async_api import Error, Route, async_playwright

UDP = "--webrtc-ip-handling-policy=disable_non_proxied_udp"
CUT_OFF = ["--proxy-server=0:9", "--proxy-bypass-list=<-loopback>", UDP]  # what is not routed


async def answer(session: PoliteSession, route: Route, url: str, redirects: int = 10) -> Any:
    with suppress(CourtlyError, Error, KeyError):
        async with session.permit(url, route.request.method) as permit:
            got = await route.fetch(url=url, max_redirects=0)
            permit.record(got.status, got.headers)
        if got.status not in (301, 302, 303, 307, 308):
            return await route.fulfill(response=got)
        if (to := urljoin(url, got.headers["location"])) and route.request.is_navigation_request():
            return await route.fulfill(headers={"Refresh": f"0;url={to}"})
        if redirects and route.request.method == "GET":  # Chromium would not wait for a permit
            return await answer(session, route, to, redirects - 1)
    return await asyncio.gather(route.abort(), return_exceptions=True)


async def main(user_agent: str, url: str, chromium: str | None = None, **options: Any) -> None:
    async with PoliteSession(user_agent=user_agent, **options) as session, async_playwright() as p:
        browser = await p.chromium.launch(executable_path=chromium, args=CUT_OFF)
        page = await browser.new_page(user_agent=user_agent, service_workers="block")
        await page.context.route("**", lambda route: answer(session, route, route.request.url))
        await asyncio.gather(page.goto(url, wait_until="networkidle"), return_exceptions=True)
        print(page.url, await page.title())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
