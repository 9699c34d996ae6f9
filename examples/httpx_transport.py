"""httpx: each request of a client, also after a redirect, waits for its host.

python examples/httpx_transport.py "examplebot/1.0 (+https://example.com/bot)" https://example.com/
"""

import asyncio
import contextlib
import sys
from typing import Any

import httpx

from crawler import PoliteSession


class PoliteTransport(httpx.AsyncHTTPTransport):
    polite: PoliteSession

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with self.polite.permit(str(request.url), request.method) as permit:
            response = await super().handle_async_request(request)
            permit.record(response.status_code, response.headers)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            async with contextlib.aclosing(response.stream) as stream:
                response.stream = httpx.ByteStream(b"".join([part async for part in stream]))
            return response  # the contact lasted until the body was read


async def main(user_agent: str, *urls: str, **options: Any) -> None:
    transport, headers = PoliteTransport(), {"User-Agent": user_agent}
    async with (
        PoliteSession(user_agent=user_agent, **options) as transport.polite,
        httpx.AsyncClient(transport=transport, headers=headers, follow_redirects=True) as client,
    ):
        for response in await asyncio.gather(*map(client.get, urls)):
            print(response.status_code, response.url, len(response.content))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
