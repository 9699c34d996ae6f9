"""requests, in a thread: each request of a Session, also after a redirect, waits for its host."""

import asyncio
import sys
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from crawler import PoliteSession


class PoliteAdapter(HTTPAdapter):
    loop: asyncio.AbstractEventLoop
    polite: PoliteSession

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> Any:
        lent = self.polite.permit(request.url or "", request.method or "GET")
        permit = asyncio.run_coroutine_threadsafe(lent.__aenter__(), self.loop).result()
        try:
            response = super().send(request, *args, **options)
            permit.record(response.status_code, response.headers)
            _ = response.content  # the contact ends with the body
            return response
        finally:
            asyncio.run_coroutine_threadsafe(lent.__aexit__(None, None, None), self.loop).result()


async def main(user_agent: str, *urls: str, **options: Any) -> None:
    adapter, session = PoliteAdapter(), requests.Session()
    session.headers["User-Agent"], adapter.loop = user_agent, asyncio.get_running_loop()
    session.adapters = {"http": adapter}
    async with PoliteSession(user_agent=user_agent, **options) as adapter.polite:
        for response in [await asyncio.to_thread(session.get, url, timeout=30) for url in urls]:
            print(response.status_code, response.url, len(response.content))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
