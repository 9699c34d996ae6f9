"""The floor of lateness on this machine as it is now: bare timers of an event loop, nothing else.

    python bare_timers.py

Prints {"p99_ms"} of how late 50 tasks wake that sleep half a second, six times over.
"""

from __future__ import annotations

import asyncio
import json
import time


async def main() -> None:
    late_ms: list[float] = []

    async def one() -> None:
        for _ in range(6):
            at_s = time.monotonic() + 0.5
            await asyncio.sleep(0.5)
            late_ms.append(1000 * (time.monotonic() - at_s))

    await asyncio.gather(*(one() for _ in range(50)))
    late_ms.sort()
    print(json.dumps({"p99_ms": late_ms[int(len(late_ms) * 0.99)]}))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main())
