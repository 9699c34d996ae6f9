"""PoliteSession(cache=…): what was fetched once is answered from a file."""

from __future__ import annotations

import asyncio
import logging
import pickle
import sqlite3
import stat
from pathlib import Path

import pytest

from crawler.embedding.response_cache import ResponseCache
from crawler.embedding.session import PoliteSession
from crawler.errors import CourtlyError, RobotsDisallowed
from crawler.fetching.request import Request
from crawler.testing import Answers, FakeFetcher, JumpClock, Reply, html, redirect, text
from policies.retries import FailureCode
from storage.store import StoreError

UA = "examplebot/1.0 (+https://example.com/bot)"
A = "http://a.test"


class Cached:
    """Sessions with one cache over a fake network."""

    def __init__(self, clock: JumpClock, folder: Path, answers: Answers) -> None:
        self.fetcher = FakeFetcher(clock, answers)
        self.path = folder / "dev.db"
        self._clock = clock

    def session(self, user_agent: str = UA, **config: object) -> PoliteSession:
        config.setdefault("politeness", {"delay": 10, "latency_factor": 0})
        return PoliteSession(
            user_agent=user_agent,
            config=config,
            clock=self._clock,
            fetcher=self.fetcher,
            cache=self.path,
        )

    def contacts(self) -> list[str]:
        """The paths requested since the last call, without robots.txt."""
        paths = [path for path in self.fetcher.log.paths() if path != "/robots.txt"]
        self.fetcher.log.clear()
        return paths


async def test_a_second_session_has_the_response_without_a_contact(
    clock: JumpClock, tmp_path: Path
) -> None:
    reply = Reply(body="ä", headers=[("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")], delay_s=2)
    cached = Cached(clock, tmp_path, {f"{A}/a?x=1": reply})
    async with cached.session() as session:
        first = await session.get(f"{A}/a?x=1")
        assert not first.from_cache
    assert cached.contacts() == ["/a?x=1"]
    began_s = clock.monotonic()
    async with cached.session() as session:
        again = [await session.get(f"{A}/a", params={"x": 1}) for _ in range(3)]
        assert clock.monotonic() == began_s
        assert len(cached.fetcher.log) == 0, "not even robots.txt"
    for one in again:
        assert one.from_cache
        assert (one.url, one.status, one.body) == (first.url, first.status, first.body)
        assert list(one.headers.items()) == list(first.headers.items())
        assert one.elapsed_s == first.elapsed_s
        assert pickle.loads(pickle.dumps(one)) == one
    assert stat.S_IMODE(cached.path.stat().st_mode) == 0o600


async def test_redirects_are_kept_too(clock: JumpClock, tmp_path: Path) -> None:
    cached = Cached(clock, tmp_path, {f"{A}/1": redirect("/2"), f"{A}/2": html("2")})
    async with cached.session() as session:
        await session.get(f"{A}/1")
        again = await session.get(f"{A}/1")
        assert [(one.status, one.from_cache) for one in again.redirects] == [(302, True)]
        assert (again.url, again.from_cache) == (f"{A}/2", True)
        assert (await session.get(f"{A}/1", follow=False)).from_cache
    assert cached.contacts() == ["/1", "/2"]


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        *((status, True) for status in (200, 204, 301, 308, 404, 410, 451)),
        *((status, False) for status in (206, 304, 400, 401, 403, 429, 500, 503)),
    ],
)
async def test_lasting_responses_are_kept(
    clock: JumpClock, tmp_path: Path, status: int, kept: bool
) -> None:
    cached = Cached(clock, tmp_path, {f"{A}/a": Reply(status=status)})
    async with cached.session() as session:
        assert (await session.get(f"{A}/a", retry=False)).status == status
        again = await session.get(f"{A}/a", retry=False)
        assert (again.status, again.from_cache) == (status, kept)


async def test_other_requests_are_sent(clock: JumpClock, tmp_path: Path) -> None:
    cached = Cached(clock, tmp_path, {f"{A}/a": html("A")})
    async with cached.session() as session:
        await session.get(f"{A}/a")
        assert not (await session.head(f"{A}/a")).from_cache
        assert (await session.head(f"{A}/a")).from_cache
        for _ in range(2):
            assert not (await session.post(f"{A}/a")).from_cache
            assert not (await session.get(f"{A}/a", body=b"x")).from_cache
            assert not (await session.get(f"{A}/a", headers={"range": "bytes=0-1"})).from_cache
            assert not (await session.get(f"{A}/a", headers={"If-None-Match": "x"})).from_cache
            async with session.stream(f"{A}/a") as response:
                assert response.status == 200
    assert len(cached.contacts()) == 2 + 5 * 2


async def test_a_response_is_for_the_headers_that_it_varies_with(
    clock: JumpClock, tmp_path: Path
) -> None:
    def answer(request: Request) -> Reply:
        vary = {"/all": "*", "/none": ""}.get(request.url.removeprefix(A), "Accept-Language,X-A")
        said = f"{request.headers.get('Accept-Language')} {request.headers.get('X-A')}"
        return Reply(body=said, headers={"Vary": vary})

    cached = Cached(clock, tmp_path, answer)
    english, german = {"Accept-Language": "en"}, {"accept-language": "de"}
    async with cached.session() as session:

        async def ask(path: str, headers: dict[str, str]) -> tuple[str, bool]:
            response = await session.get(f"{A}{path}", headers=headers)
            return response.text, response.from_cache

        await ask("/a", english)
        assert await ask("/a", german | {"X-B": "1"}) == ("None None", False)
        assert (await ask("/a", english))[1]
        assert (await ask("/a", german | {"X-B": "2"}))[1]
        assert not (await ask("/a", german | {"X-A": "2"}))[1]
        for name in ("cookie", "Authorization"):
            assert not (await ask("/none", {name: "hunter2"}))[1]
            assert not (await ask("/none", {name: "other"}))[1]
            assert (await ask("/none", {name: "hunter2"}))[1]
        assert not (await ask("/all", {}))[1]
        assert not (await ask("/all", {}))[1]
    async with cached.session(site={"a.test": {"headers": english}}) as session:
        assert (await session.get(f"{A}/a")).from_cache
    async with cached.session(site={"a.test": {"headers": german}}) as session:
        assert not (await session.get(f"{A}/a", headers={"X-A": "3"})).from_cache
    assert b"hunter2" not in cached.path.read_bytes()


async def test_a_failure_is_not_kept_and_robots_holds_for_what_is_not(
    clock: JumpClock, tmp_path: Path
) -> None:
    replies: dict[str, Reply | FailureCode] = {
        f"{A}/robots.txt": text("User-agent: *\nDisallow: /p\n"),
        f"{A}/a": FailureCode.BODY,
    }
    cached = Cached(clock, tmp_path, lambda request: replies[request.url])
    async with cached.session() as session:
        with pytest.raises(CourtlyError):
            await session.get(f"{A}/a", retry=False)
        replies[f"{A}/a"] = html("A")
        assert not (await session.get(f"{A}/a")).from_cache
        with pytest.raises(RobotsDisallowed):
            await session.get(f"{A}/p")


async def test_a_file_of_another_kind_is_left_alone(clock: JumpClock, tmp_path: Path) -> None:
    cached = Cached(clock, tmp_path, {f"{A}/a": html("A")})

    async def refused(match: str) -> None:
        with pytest.raises(StoreError, match=match):
            async with cached.session() as session:
                await session.get(f"{A}/a")

    cached.path.write_bytes(b"no database at all\n" * 100)
    await refused(r"response cache .*dev\.db: file is not a database")
    assert cached.path.read_bytes() == b"no database at all\n" * 100
    cached.path.unlink()
    with sqlite3.connect(cached.path) as db:
        db.execute("CREATE TABLE mine (a)")
    db.close()
    before = cached.path.read_bytes()
    await refused("is not a response cache, but another database")
    assert cached.path.read_bytes() == before
    cached.path.unlink()
    async with cached.session() as session:
        await session.get(f"{A}/a")
    with sqlite3.connect(cached.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    await refused("was written by another version of courtly")
    cached.path = tmp_path
    await refused("Is a directory")
    cached.path = tmp_path / "missing" / "dev.db"
    await refused("No such file or directory")


async def test_a_response_that_cannot_be_written_is_returned_and_logged(
    clock: JumpClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def full(_cache: ResponseCache, _row: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(ResponseCache, "_write", full)
    cached = Cached(clock, tmp_path, {f"{A}/a": html("A")})
    with caplog.at_level(logging.WARNING, "courtly.fetch"):
        async with cached.session() as session:
            assert (await session.get(f"{A}/a")).status == 200
    assert "a.test/a was not written to the response cache" in caplog.text
    assert "disk is full" in caplog.text


async def test_many_callers_and_two_sessions_share_the_file(
    clock: JumpClock, tmp_path: Path
) -> None:
    cached = Cached(clock, tmp_path, lambda request: html(request.url))
    config = {"delay": 0}
    async with (
        cached.session(politeness=config) as one,
        cached.session(politeness=config) as two,
    ):
        for expected in (False, True):
            responses = await asyncio.gather(
                *(one.get(f"{A}/{n}") for n in range(20)),
                *(two.get(f"http://b.test/{n}") for n in range(20)),
            )
            assert {response.from_cache for response in responses} == {expected}


async def test_a_cancellation_while_it_is_read_changes_nothing(
    clock: JumpClock, tmp_path: Path
) -> None:
    cached = Cached(clock, tmp_path, {f"{A}/a": html("A")})
    async with cached.session() as session:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await session.get(f"{A}/a")
        assert not (await session.get(f"{A}/a")).from_cache
        assert (await session.get(f"{A}/a")).from_cache
