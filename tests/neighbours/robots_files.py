"""Bodies of robots.txt of 500 KiB, each costly in another way."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Final

SIZE: Final = 500 * 1_024
TEXT: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
_counter = itertools.count()


def _filled(line: Callable[[int], bytes]) -> bytes:
    lines, size = [b"User-agent: *", b"Disallow: /x"], 30
    while size < SIZE - 2_000:
        lines.append(line(len(lines)))
        size += len(lines[-1]) + 1
    return b"\n".join(lines) + b"\n"


def _wild(n: int) -> bytes:
    numbers = random.Random(n)
    return b"Disallow: /*%x*%x" % (numbers.getrandbits(32), numbers.getrandbits(24))


def _noise(n: int) -> bytes:
    return b"#" + random.Random(n).randbytes(1_000).replace(b"\n", b" ").replace(b"\r", b" ")


BODIES: Final[dict[str, Callable[[], bytes]]] = {
    "rules": functools.cache(lambda: _filled(lambda n: b"Disallow: /%x/%x" % (n * 7_919, n))),
    "wildcards": functools.cache(lambda: _filled(_wild)),
    "tangle": functools.cache(lambda: _filled(lambda n: b"Disallow: /*a*%d*a*e*%d" % (n % 9, n))),
    "groups": functools.cache(lambda: _filled(lambda n: b"User-agent: b%d\nAllow: /" % n)),
    "agents": functools.cache(lambda: _filled(lambda n: b"User-agent: *")),
    "blank": functools.cache(lambda: _filled(lambda _: b"\n\n\n\n\n\n\n\n")),
    "sitemaps": functools.cache(lambda: _filled(lambda n: b"Sitemap: http://s%d.test/" % n)),
    "noise": functools.cache(lambda: _filled(_noise)),
    "small": functools.cache(lambda: _filled(lambda n: b"Disallow: /%x" % (n * 7_919))[:8_000]),
}


def unlike(name: str) -> Callable[[str], Iterator[bytes | float]]:
    """Another file in each answer: of each host, and at each time."""

    def pieces(_: str) -> Iterator[bytes | float]:
        body = BODIES[name]() + b"Disallow: /%x\n" % next(_counter)
        head = b"%sCache-Control: max-age=0\r\nContent-Length: %d\r\n\r\n" % (TEXT, len(body))
        yield head + body

    return pieces


def alike(name: str) -> Callable[[str], Iterator[bytes | float]]:
    """The same file of all hosts, of a length that is not announced."""

    def pieces(_: str) -> Iterator[bytes | float]:
        yield TEXT + b"Connection: close\r\n\r\n" + BODIES[name]()

    return pieces
