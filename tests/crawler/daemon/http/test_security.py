"""Access control: host names, origins, the token, sessions and rate limits."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from crawler.config import ConfigError, from_dict
from crawler.daemon.http.accounts import LOCAL, SESSION_S, SESSIONS_MAX, Sessions, account
from crawler.daemon.http.application import GUARDS, HttpSettings
from crawler.daemon.http.guards import HEADERS, LINKS, REQUESTS, STREAMS_OF_PEER_MAX, Guards
from crawler.daemon.http.routes import ROUTES
from crawler.daemon.problem import Problem
from crawler.front_door.rate_limit import FAILURES, PEERS_MAX, RateLimiter
from tests.crawler.daemon.conftest import Hand

TOKEN = "correct horse battery staple"
PEERS = ("127.0.0.1", "192.0.2.7", "2001:db8::1")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def guarded(start: Any) -> Any:
    async with start(settings=HttpSettings(token=TOKEN, hosts=("crawl.example.com",))) as made:
        yield made


def stop_clock(daemon: Any) -> None:
    """Stop the clock of the rate limiters, so that they do not refill during a test."""
    guards = daemon.app[GUARDS]
    limits = guards.limits
    for allowance in (limits.requests, limits.calls, limits.links, limits.guesses):
        allowance._clock = Hand()


def cookie_of(answer: Any) -> str:
    return str(answer.headers["Set-Cookie"]).partition(";")[0]


async def log_in(daemon: Any, token: str = TOKEN, **headers: str) -> Any:
    return await daemon.client.post(
        "/login", data={"token": token, "next": "/hosts?state=paused"}, headers=headers
    )


# ------------------------------------------------------------ Host and Origin


async def test_foreign_host_names_are_refused(daemon: Any) -> None:
    """After DNS rebinding, a page of evil.test still sends its own host name."""
    port = daemon.port
    for name in (
        f"127.0.0.1:{port}",
        f"localhost:{port}",
        "localhost",
        "LOCALHOST:1",
        "localhost.",
    ):
        assert (await daemon.client.get("/api/status", headers={"Host": name})).status == 200, name
    for name in (
        "evil.test", f"evil.test:{port}", "127.0.0.1.evil.test", "10.0.0.1", "", "localhost:x",
        "localhost@evil.test", "evil.test/localhost", "[::1", "0.0.0.0", "2130706433",
    ):  # fmt: skip
        answer = await daemon.client.get("/api/status", headers={"Host": name})
        assert answer.status in (400, 403), name
    assert (await daemon.client.get("/healthz", headers={"Host": "evil.test"})).status == 403


async def test_two_host_headers_are_refused(daemon: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    writer.write(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\n\r\n")
    assert (await reader.readline()).split()[1] in (b"400", b"403")
    writer.close()
    await writer.wait_closed()


async def test_another_site_s_page_changes_nothing(daemon: Any) -> None:
    here = f"http://127.0.0.1:{daemon.port}"
    post = daemon.client.post
    for headers in (
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},  # another program on this machine
        {"Origin": f"{here}.evil.test"},
        {"Origin": f"{here}/"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": here, "Sec-Fetch-Site": "cross-site"},
    ):
        answer = await post("/api/pause", headers=headers)
        assert answer.status == 403, headers
        assert answer.body["field"] in ("Origin", "Sec-Fetch-Site")
    assert (await daemon.client.get("/api/status")).body["state"] == "idle"
    answer = await post("/api/pause", headers={"Origin": here, "Sec-Fetch-Site": "same-origin"})
    assert answer.status == 200


async def test_another_site_s_page_reads_nothing(daemon: Any) -> None:
    foreign = {"Origin": "http://evil.test"}
    assert (await daemon.client.get("/api/status", headers=foreign)).status == 403
    script = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await daemon.client.get("/api/status", headers=script)).status == 403
    answer = await daemon.client.get("/api/status")
    assert not [name for name in answer.headers if name.startswith("RobotsState-Control")]


async def test_the_config_adds_host_names(guarded: Any) -> None:
    names = {"Host": "crawl.example.com", "Origin": "https://crawl.example.com", **BEARER}
    assert (await guarded.client.post("/api/resume", headers=names)).status == 200
    assert (
        await guarded.client.get("/api/status", headers={**BEARER, "Host": "x.test"})
    ).status == 403


# ------------------------------------------------------------ the token


async def test_all_routes_but_healthz_and_login_need_the_token(guarded: Any) -> None:
    for route in list(guarded.app.router.routes()):
        path = route.resource.canonical
        if path in ("/healthz", "/readyz", "/login", "/static/{name}") or route.method == "HEAD":
            continue
        answer = await guarded.client.ask(route.method, path)
        assert answer.status == 401, path
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert (await guarded.client.get("/healthz")).body == {"status": "ok"}
    assert (await guarded.client.get("/readyz")).body == {"status": "ready", "failing": []}
    assert (await guarded.client.get("/login")).status == 200
    assert (await guarded.client.get("/nowhere")).status == 401


async def test_the_token_is_accepted(guarded: Any) -> None:
    assert (await guarded.client.get("/api/status", headers=BEARER)).status == 200
    for wrong in ("", "Bearer", "Bearer x", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x"):
        answer = await guarded.client.get("/api/status", headers={"Authorization": wrong})
        assert answer.status == 401, wrong
    assert (await guarded.client.get(f"/api/status?token={TOKEN}")).status == 401


async def test_a_browser_is_redirected_to_the_login_and_back(guarded: Any) -> None:
    page = {"Accept": "text/html"}
    answer = await guarded.client.get("/hosts?state=paused", headers=page)
    assert answer.status == 303
    assert answer.headers["Location"] == "/login?next=%2Fhosts%3Fstate%3Dpaused"
    form = await guarded.client.get(answer.headers["Location"], headers=page)
    assert 'value="/hosts?state=paused"' in form.body
    done = await log_in(guarded)
    assert (done.status, done.headers["Location"]) == (303, "/hosts?state=paused")
    cookie = str(done.headers["Set-Cookie"])
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path=/" in cookie
    assert "Max-Age" not in cookie  # it ends with the browser
    assert "Expires" not in cookie
    assert TOKEN not in cookie
    answer = await guarded.client.get("/api/status", headers={"Cookie": cookie_of(done)})
    assert answer.status == 200


async def test_a_session_s_cookie_is_secure_behind_tls(guarded: Any) -> None:
    done = await log_in(guarded, Origin="https://crawl.example.com")
    assert "Secure" in str(done.headers["Set-Cookie"])


async def test_a_session_accepts_commands_only_from_its_own_pages(guarded: Any) -> None:
    cookie = {"Cookie": cookie_of(await log_in(guarded))}
    assert (await guarded.client.post("/api/pause", headers=cookie)).status == 403
    own = {**cookie, "Origin": f"http://127.0.0.1:{guarded.port}"}
    assert (await guarded.client.post("/api/pause", headers=own)).status == 200
    foreign = {**cookie, "Origin": "http://evil.test"}
    assert (await guarded.client.post("/api/resume", headers=foreign)).status == 403


async def test_a_session_ends_with_its_logout(guarded: Any) -> None:
    cookie = {"Cookie": cookie_of(await log_in(guarded))}
    own = {**cookie, "Origin": f"http://127.0.0.1:{guarded.port}"}
    done = await guarded.client.post("/logout", headers=own)
    assert (done.status, done.headers["Location"]) == (303, "/login")
    assert (await guarded.client.get("/api/status", headers=cookie)).status == 401


async def test_a_login_does_not_redirect_to_another_site(guarded: Any) -> None:
    for onward in (
        "//evil.test",
        "https://evil.test/",
        "/\\evil.test",
        "javascript:x",
        "/\r\nX: y",
    ):
        answer = await guarded.client.post("/login", data={"token": TOKEN, "next": onward})
        assert answer.headers["Location"] == "/", onward
    page = await guarded.client.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>" not in page.body


async def test_the_login_accepts_only_a_small_form(guarded: Any) -> None:
    assert (await guarded.client.post("/login", {"token": TOKEN})).status == 415
    assert (await guarded.client.post("/login", data={"token": "x" * 20_000})).status == 413
    assert (await guarded.client.post("/login", data={})).status == 401

    async def endless() -> AsyncIterator[bytes]:
        yield b"token="

    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await guarded.client.post("/login", data=endless(), headers=form)).status == 411
    foreign = await log_in(guarded, Origin="http://evil.test")
    assert foreign.status == 403
    assert "Set-Cookie" not in foreign.headers


async def test_guessing_is_throttled_and_the_right_token_is_not(guarded: Any) -> None:
    stop_clock(guarded)
    for _ in range(FAILURES):
        assert (await log_in(guarded, "guess")).status == 401
    answer = await log_in(guarded, "guess")
    assert answer.status == 429
    assert int(answer.headers["Retry-After"]) >= 1
    answer = await guarded.client.get("/api/status", headers={"Authorization": "Bearer x"})
    assert answer.status == 429
    assert (await log_in(guarded)).status == 303
    assert (await guarded.client.get("/api/status", headers=BEARER)).status == 200


async def test_refused_requests_do_not_count_against_the_rate_limit(guarded: Any) -> None:
    """Requests of other sites' pages, and without the token, from the operator's address."""
    foreign = {"Origin": "http://evil.test", "Sec-Fetch-Site": "cross-site"}
    linked = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    for number in range(2 * REQUESTS):
        path, headers = (
            ("/api/status", foreign),
            ("/api/status", {"Host": "evil.test"}),
            ("/hosts", linked),
            ("/api/status", {}),
            ("/login", {}),
        )[number % 5]
        await guarded.client.get(path, headers=headers)
    assert (await guarded.client.get("/login")).status == 200
    cookie = {"Cookie": cookie_of(await log_in(guarded))}
    assert (await guarded.client.get("/api/status", headers=cookie)).status == 200
    assert (await guarded.client.get("/api/status", headers=BEARER)).status == 200


async def test_links_on_other_sites_have_their_own_rate_limit(daemon: Any) -> None:
    stop_clock(daemon)
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    told = [(await daemon.client.get("/hosts", headers=linked)).status for _ in range(LINKS + 10)]
    assert told == [200] * LINKS + [429] * 10
    assert (await daemon.client.get("/hosts")).status == 200
    framed = {**linked, "Sec-Fetch-Dest": "iframe"}
    assert (await daemon.client.get("/hosts", headers=framed)).status == 403


@functools.cache
def mocked(method: str, path: str, **headers: str) -> Any:
    """A mocked request, created once because that is slow."""
    return make_mocked_request(method, path, {"Host": "127.0.0.1", **headers})


class _Asked(RuleBasedStateMachine):
    """Whatever other clients do, from any address, the right token is accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Hand()
        self.guards = Guards(HttpSettings(token=TOKEN), self.clock)  # type: ignore[arg-type]

    def ask(self, peer: str, path: str = "/api/status", **headers: str) -> int:
        request = mocked("GET", path, **headers)
        try:
            self.guards.check(request.clone(remote=peer), public=path == "/login")
        except Problem as problem:
            return problem.status
        return 200

    @rule(
        peer=st.sampled_from(PEERS),
        times=st.sampled_from((1, FAILURES + 1)),
        headers=st.sampled_from(
            (
                {},
                {"Authorization": "Bearer x"},
                {"Host": "evil.test"},
                {"Origin": "http://evil.test"},
                {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
                {"Cookie": "courtly=x"},
            )
        ),
    )
    def others_ask(self, peer: str, times: int, headers: dict[str, str]) -> None:
        for _ in range(times):
            assert self.ask(peer, **headers) in (401, 403, 429)

    @rule(seconds=st.sampled_from((0.0, 0.1, 10.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(peer=st.sampled_from(PEERS))
    def the_operator_asks(self, peer: str) -> None:
        self.clock.advance(0.01)
        assert self.ask(peer, Authorization=f"Bearer {TOKEN}") == 200
        assert self.ask(peer, "/login") == 200
        self.guards.account_of(TOKEN, mocked("POST", "/login").clone(remote=peer))

    @invariant()
    def memory_is_bounded(self) -> None:
        for allowance in (self.guards.limits.requests, self.guards.limits.guesses):
            assert len(allowance._peers) <= len(PEERS)


TestWhateverOthersDo = _Asked.TestCase
TestWhateverOthersDo.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)


def test_the_number_of_remembered_clients_is_bounded(hand: Any) -> None:
    allowance = RateLimiter(hand, at_once=1, per_s=1)
    for number in range(PEERS_MAX + 10):
        allowance.spend(f"peer {number}")
    assert len(allowance._peers) == PEERS_MAX


async def test_the_login_page_reports_a_wrong_token(guarded: Any) -> None:
    answer = await log_in(guarded, "guess", Accept="text/html")
    assert answer.status == 401
    assert "wrong token" in answer.body
    assert "<form" in answer.body


async def test_the_socket_needs_no_token(start: Any) -> None:
    async with start(settings=HttpSettings(token=TOKEN)) as daemon:
        assert (await daemon.local.get("/api/status")).status == 200
        assert (await daemon.local.post("/api/pause")).body["state"] == "paused"


# ------------------------------------------------------------ every answer, and how many


async def test_every_answer_has_the_headers(guarded: Any) -> None:
    for answer in (
        await guarded.client.get("/healthz"),
        await guarded.client.get("/api/status"),
        await guarded.client.get("/api/status", headers=BEARER),
        await guarded.client.get("/api/nothing", headers=BEARER),
        await guarded.client.get("/login"),
        await log_in(guarded),
    ):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_requests_of_one_peer_are_limited(daemon: Any) -> None:
    stop_clock(daemon)
    for _ in range(REQUESTS - 10):
        daemon.app[GUARDS].limits.requests.spend("127.0.0.1")
    answers = await asyncio.gather(*(daemon.client.get("/api/status") for _ in range(30)))
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) == 20
    assert {answer.status for answer in answers} == {200, 429}
    assert int(refused[0].headers["Retry-After"]) >= 1
    assert refused[0].headers["Content-Type"].startswith("application/problem+json")


async def test_streams_of_one_peer_are_limited(daemon: Any) -> None:
    url = f"{daemon.client.base}/api/events"
    opened = [await daemon.client.session.get(url) for _ in range(STREAMS_OF_PEER_MAX)]
    assert {response.status for response in opened} == {200}
    assert (await daemon.client.get("/api/events")).status == 503
    for response in opened:
        response.close()
    async with asyncio.timeout(20):
        while (await daemon.client.session.get(url)).status != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


# ------------------------------------------------------------ values


def test_a_session_lasts_a_working_day(hand: Any) -> None:
    sessions = Sessions(hand)
    name = sessions.open(LOCAL)
    assert sessions.account(name) is LOCAL
    assert sessions.account(TOKEN) is None
    assert sessions.account("") is None
    hand.advance(SESSION_S)
    assert sessions.account(name) is None


def test_sessions_are_bounded_the_oldest_goes(hand: Any) -> None:
    sessions = Sessions(hand)
    accounts = [account(str(number), TOKEN) for number in range(10)]
    names = [sessions.open(accounts[number % 10]) for number in range(SESSIONS_MAX + 1)]
    assert sessions.account(names[0]) is None
    assert sessions.account(names[1]) is accounts[1]
    assert len(set(names)) == len(names)


def test_a_rate_limiter_refills(hand: Any) -> None:
    allowance = RateLimiter(hand, at_once=2, per_s=0.5)
    for _ in range(2):
        assert allowance.wait_s("a") == 0.0
        allowance.spend("a")
    assert allowance.wait_s("a") == pytest.approx(2.0)
    assert allowance.wait_s("b") == 0.0
    hand.advance(2.0)
    assert allowance.wait_s("a") == 0.0


@pytest.mark.parametrize("name", ["https://x.test", "x.test/", "", "a b", "x.test:port", "*"])
def test_invalid_host_names_in_the_config_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"daemon\.hosts"):
        from_dict({"daemon": {"hosts": [name]}})


def test_names_may_have_a_port() -> None:
    hosts = ("crawl.example.com", "x.test:8443", "192.0.2.1", "[2001:db8::1]:80")
    assert from_dict({"daemon": {"hosts": list(hosts)}}).daemon.hosts == hosts


async def test_an_old_token_may_be_tried_on_every_route(guarded: Any) -> None:
    """Wrong tokens are refused, and do not lock out the right one."""
    for route in ROUTES:
        answer = await guarded.client.ask(
            route.method, route.path, headers={"Authorization": "Bearer old"}
        )
        assert answer.status == 401, route.path
    right = {"Authorization": f"Bearer {TOKEN}"}
    assert (await guarded.client.get("/api/status", headers=right)).status == 200
