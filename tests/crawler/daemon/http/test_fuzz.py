"""Any JSON gets a valid response or a problem, and the crawl continues."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

from crawler.daemon.http.routes import ROUTES

TEXTS = (
    "", " ", "a.test", "A.TEST:80", "http://a.test/", "//", "\x00", "é", "\u2028", "％", "..",
    "xn--", "[::1]", "x" * 300, "all", "-host", "slurp", "'; DROP TABLE slots; --", "%00", "NaN",
    "User-agent: *\nDisallow: /", "/", "/*$", "1e400", "{}",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308)


def value(rng: random.Random, depth: int = 0) -> object:
    kind = rng.randrange(7 if depth < 3 else 4)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind == 1:
        return rng.choice((True, False, None))
    if kind < 5:
        return rng.choice(TEXTS)
    if kind == 5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


async def test_any_body_gets_a_valid_response(daemon: Any) -> None:
    rng = random.Random(7)
    posts = [route for route in ROUTES if route.method == "POST" and route.path != "/api/reload"]
    for _ in range(40):
        for route in posts:
            names = [*route.body.__struct_fields__, "host", "urls"]
            body = {name: value(rng) for name in rng.sample(names, rng.randrange(1, len(names)))}
            if route.path == "/api/robots/check":
                body.pop("url", None)  # of a site: that is another test's
            if route.waits and body.get("url") == "http://a.test/":
                continue  # nothing answers at its port 80: the request would wait for days
            answer = await daemon.local.post(
                route.path,
                data=json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
            )
            assert answer.status < 500, (route.path, body, answer.body)
            if answer.status >= 400:
                assert answer.body["detail"], (route.path, body)
    assert (await daemon.local.get("/api/status")).status == 200


async def test_any_query_gets_a_valid_response(daemon: Any) -> None:
    rng = random.Random(8)
    for _ in range(40):
        for route in ROUTES:
            if route.method != "GET":
                continue
            names = [*route.query.__struct_fields__, "x"]
            query = "&".join(
                f"{name}={quote(str(value(rng)))}"
                for name in rng.sample(names, rng.randrange(len(names)) + 1)
            )
            answer = await daemon.local.get(f"{route.path}?{query}")
            assert answer.status < 500, (route.path, query, answer.body)
