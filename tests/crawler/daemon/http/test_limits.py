"""Rate limits of accounts and addresses, and the number of sessions and event streams."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from crawler.daemon.http.accounts import SESSIONS_OF_ACCOUNT_MAX, Role, Sessions, account
from crawler.daemon.http.application import GUARDS
from crawler.daemon.http.guards import (
    CALLS,
    REQUESTS,
    REQUESTS_PER_S,
    STREAMS_MAX,
    STREAMS_OF_ACCOUNT_MAX,
    STREAMS_OF_PEER_MAX,
    Guards,
    HttpSettings,
    Limits,
    Streams,
)
from crawler.daemon.problem import Problem
from crawler.front_door.rate_limit import FAILURES

ALICE, GRAFANA = "kQ7vX2mZp9Rt4LsW8eYb", "aD3fG6hJ9kL2zX5cV8bN"
SETTINGS = HttpSettings(accounts=(account("alice", ALICE), account("grafana", GRAFANA, Role.READ)))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@cache
def request_of(token: str, peer: str, path: str) -> Any:
    headers = {"Host": "127.0.0.1", **(bearer(token) if token else {})}
    return make_mocked_request("GET", path, headers).clone(remote=peer)


class Asking:
    """Requests to guards whose clock stands still."""

    def __init__(self, clock: Any, settings: HttpSettings = SETTINGS) -> None:
        self.guards = Guards(settings, clock)

    def ask(self, token: str = "", *, peer: str = "127.0.0.1", path: str = "/api/status") -> int:
        try:
            self.guards.check(request_of(token, peer, path), public=False)
        except Problem as problem:
            self.refused = problem
            return problem.status
        return 200

    def until_limited(self, token: str = "", **more: str) -> int:
        count = 0
        while self.ask(token, **more) == 200:
            count += 1
        assert self.refused.status == 429
        return count


def test_each_account_has_a_limit_of_its_own(hand: Any) -> None:
    asking = Asking(hand)
    assert asking.until_limited(GRAFANA) == REQUESTS
    assert asking.refused.retry_after_s == pytest.approx(1 / REQUESTS_PER_S)
    assert asking.ask(GRAFANA, peer="192.0.2.7") == 429  # from wherever it asks
    assert asking.ask(ALICE) == 200  # at the same address
    hand.advance(1.0)
    assert asking.until_limited(GRAFANA) == REQUESTS_PER_S
    hand.advance(3_600.0)
    assert asking.until_limited(GRAFANA) == REQUESTS


def test_without_a_token_each_address_has_a_limit(hand: Any) -> None:
    asking = Asking(hand, HttpSettings())
    assert asking.until_limited() == REQUESTS
    assert asking.ask(peer="127.0.0.2") == 200


def test_requests_of_other_programs_have_a_limit_of_their_own(hand: Any) -> None:
    asking = Asking(hand)
    assert asking.until_limited(ALICE, path="/api/fetch") == CALLS
    assert asking.ask(ALICE, path="/api/permit/x") == 429
    assert asking.ask(ALICE) == 200


def test_guesses_lock_out_neither_an_account_nor_its_requests(hand: Any) -> None:
    asking = Asking(hand)
    answers = [asking.ask("guess") for _ in range(FAILURES + 5)]
    assert answers == [401] * FAILURES + [429] * 5
    assert asking.ask() == 401  # without a token, no guess
    assert asking.until_limited(ALICE) == REQUESTS
    assert [asking.ask("guess") for _ in range(3)] == [429] * 3  # and these are no requests of hers
    hand.advance(1.0)
    assert asking.until_limited(ALICE) == REQUESTS_PER_S


async def test_a_limited_request_gets_a_problem_and_a_time(start: Any, hand: Any) -> None:
    async with start(settings=SETTINGS) as daemon:
        guards = daemon.app[GUARDS]
        guards.limits = Limits(hand)
        for _ in range(REQUESTS):
            guards.limits.request("grafana", "/metrics")
        answer = await daemon.client.get("/metrics", headers=bearer(GRAFANA))
        assert answer.status == 429
        assert answer.headers["Content-Type"].startswith("application/problem+json")
        assert answer.headers["Retry-After"] == "1"
        assert answer.body["detail"] == "too many requests"
        page = {**bearer(GRAFANA), "Accept": "text/html"}
        assert "<h1>Too Many Requests</h1>" in (await daemon.client.get("/", headers=page)).body
        for path in ("/healthz", "/readyz", "/login"):
            assert (await daemon.client.get(path, headers=bearer(GRAFANA))).status == 200
        assert (await daemon.local.get("/api/status")).status == 200
        metrics = (await daemon.client.get("/metrics", headers=bearer(ALICE))).body
        assert 'courtly_refused_requests_total{reason="limited"} 2.0' in metrics


async def test_logging_in_again_and_again_is_limited_as_well(start: Any, hand: Any) -> None:
    async with start(settings=SETTINGS) as daemon:
        daemon.app[GUARDS].limits = Limits(hand)
        for _ in range(REQUESTS):
            daemon.app[GUARDS].limits.request("alice", "/")
        answer = await daemon.client.post("/login", data={"token": ALICE})
        assert answer.status == 429
        assert (await daemon.client.post("/login", data={"token": GRAFANA})).status == 303


def test_one_account_cannot_end_the_sessions_of_others(hand: Any) -> None:
    alice, grafana = SETTINGS.accounts
    sessions = Sessions(hand)
    hers = sessions.open(alice)
    own = [sessions.open(grafana) for _ in range(SESSIONS_OF_ACCOUNT_MAX + 5)]
    assert sessions.account(hers) is alice
    assert [sessions.account(name) for name in own[:6]] == [None] * 5 + [grafana]


def test_streams_are_limited_in_total_by_account_and_by_address() -> None:
    streams = Streams()
    with contextlib.ExitStack() as stack:
        for number in range(STREAMS_OF_ACCOUNT_MAX):
            stack.enter_context(streams.one("grafana", f"192.0.2.{number % 4}"))
        with pytest.raises(Problem, match="too many listeners"):
            stack.enter_context(streams.one("grafana", "198.51.100.1"))
        with contextlib.ExitStack() as hers:
            for _ in range(STREAMS_OF_PEER_MAX):
                hers.enter_context(streams.one("alice", "198.51.100.1"))
            with pytest.raises(Problem):
                hers.enter_context(streams.one("bob", "198.51.100.1"))
        for number in range(STREAMS_MAX - STREAMS_OF_ACCOUNT_MAX):
            stack.enter_context(streams.one("", f"203.0.113.{number}"))
        with pytest.raises(Problem):
            stack.enter_context(streams.one("", "203.0.113.200"))
    with streams.one("grafana", "192.0.2.1"):
        pass
    assert not streams._of_account
    assert not streams._of_peer
