"""Read a page as a language model does: start `courtly mcp`, and call `fetch` for each part.

    python examples/agent_tool.py "examplebot/1.0 (+https://example.com/bot)" https://example.com/

Options for `courtly mcp`, such as --allow, may follow. Needs the extra `mcp`.
"""

import asyncio
import re
import sys

from mcp import Client, StdioServerParameters
from mcp.types import TextContent


async def fetch(client: Client, url: str) -> tuple[bool, str]:
    """Return whether there is a page, and its text or the reason why not, for the model."""
    parts: list[str] = []
    start = 0
    while True:
        result = await client.call_tool("fetch", {"url": url, "start": start})
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        parts.append(text)
        more = re.search(r"^Text: .*; continue with start=(\d+)$", text, re.MULTILINE)
        if result.is_error or more is None:
            return not result.is_error, "\n".join(parts)
        start = int(more[1])


async def main(user_agent: str, url: str, *options: str) -> int:
    command = ["-m", "crawler", "mcp", "--user-agent", user_agent, *options]
    async with Client(StdioServerParameters(command=sys.executable, args=command)) as client:
        found, text = await fetch(client, url)
    print(text)
    return 0 if found else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(*sys.argv[1:])))
