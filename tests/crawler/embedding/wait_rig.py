"""A session on a clock that jumps, for tests of waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.embedding.session import PoliteSession
from crawler.testing import FakeFetcher, JumpClock, Reply, text

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"
B = "http://b.test"


def opened(clock: JumpClock, answers: Any, **sections: Mapping[str, object]) -> Any:
    config = {"politeness": {"delay": 1, "latency_factor": 0}, **sections}
    fetcher = FakeFetcher(clock, answers, latency_s=0.1)
    session = PoliteSession(user_agent=UA, config=config, clock=clock, fetcher=fetcher)
    vars(session)["fetcher"] = fetcher
    return session


def delayed(delay_s: int) -> Reply:
    return text(f"User-agent: *\nCrawl-delay: {delay_s}\nDisallow: /p\n")


def refusing(retry_after: int | None, status: int = 429) -> Reply:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Reply(status=status, headers=headers)


def assert_at_rest(session: Any) -> None:
    client = session._client.get()
    assert client.frontier.permits.in_flight == 0
    assert client.frontier.permits.directed == 0
    assert not client.waits._limited
    assert not client.waits._pauses
    assert not client._lines
    for host in client.frontier.permits:
        assert host.callers == host.busy == 0
