"""The robots.txt of every server of this program: no crawler may fetch anything of it.

A process refuses to connect to its own listeners by their addresses. This keeps it from the
listeners of other processes, such as the page of a daemon on the same machine.
"""

from __future__ import annotations

from typing import Final

PATH: Final = "/robots.txt"
BODY: Final = b"User-agent: *\nDisallow: /\n"
CONTENT_TYPE: Final = "text/plain"
