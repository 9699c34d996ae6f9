"""How long PoliteSession, Politeness and Crawler are open: in one event loop, once at a time, and
never beyond its end."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from crawler import (
    AlreadyOpen,
    Crawler,
    Politeness,
    PoliteSession,
    SessionClosed,
    WrongEventLoop,
)
from crawler.clock import RealClock
from crawler.embedding import owned_resource
from crawler.embedding.owned_resource import OwnedResource
from crawler.testing import FakeFetcher
from storage.sqlite.file_lock import is_locked_here

Opened = PoliteSession | Politeness | Crawler

URL = "http://a.test/"
AGENT = "bot (+https://example.com/bot)"
CLASSES: dict[str, Callable[[Path | None], Opened]] = {
    "session": lambda db: PoliteSession(user_agent=AGENT, db=db),
    "middleware": lambda db: Politeness(user_agent=AGENT, db=db),
    "crawl": lambda db: Crawler([URL], user_agent=AGENT, db=db),
}


async def _add_sink(crawl: Crawler) -> None:
    crawl.add_sink(lambda page: None)


METHODS: dict[str, list[Callable[..., Awaitable[object]]]] = {
    "session": [
        lambda one: one.get(URL),
        lambda one: one.head(URL),
        lambda one: one.post(URL),
        lambda one: one.fetch(URL),
        lambda one: one.may_fetch(URL),
        lambda one: one.next_turn(URL),
        lambda one: one.robots(URL),
        lambda one: one.permit(URL).__aenter__(),
        lambda one: one.stream(URL).__aenter__(),
        lambda one: PoliteSession(share=one).open(),
        lambda one: one.aclose(),
        lambda one: one.__aexit__(None, None, None),
    ],
    "middleware": [
        lambda one: one.next_turn(URL),
        lambda one: one(None, None),
        lambda one: one.aclose(),
    ],
    "crawl": [
        anext,
        lambda one: one.add(URL),
        lambda one: anext(one.outcomes()),
        lambda one: one.summary(),
        lambda one: one.session().get(URL),
        _add_sink,
        lambda one: one.aclose(),
    ],
}


def in_another_loop(work: Callable[[], Awaitable[object]]) -> BaseException | None:
    """Run it in the event loop of another thread; return what it raised."""
    raised: list[BaseException] = []

    async def main() -> None:
        await asyncio.wait_for(work(), 10)

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    return raised[0] if raised else None


@pytest.mark.parametrize("name", CLASSES)
async def test_another_event_loop_is_refused_at_once(name: str) -> None:
    async with CLASSES[name](None) as opened:
        for call in METHODS[name]:
            error = await asyncio.to_thread(in_another_loop, lambda call=call: call(opened))  # type: ignore[misc]
            assert isinstance(error, WrongEventLoop), call
            assert "another event loop" in str(error)


@pytest.mark.parametrize("name", CLASSES)
async def test_entering_twice_is_refused_and_harms_nothing(name: str, tmp_path: Path) -> None:
    db = tmp_path / "fetch.db"
    async with CLASSES[name](db) as opened:
        with pytest.raises(AlreadyOpen, match="open already"):
            await opened.__aenter__()
        with pytest.raises(AlreadyOpen):
            await opened.open()
        assert is_locked_here(db)
        if not isinstance(opened, Crawler):
            await opened.next_turn(URL)
    assert not is_locked_here(db)
    async with opened:  # after its end it may be opened again
        assert is_locked_here(db)


@pytest.mark.parametrize("name", CLASSES)
async def test_opening_without_a_block(name: str, tmp_path: Path) -> None:
    db = tmp_path / "fetch.db"
    opened = await CLASSES[name](db).open()
    assert is_locked_here(db)
    await asyncio.gather(opened.aclose(), opened.aclose())
    await opened.aclose()
    assert not is_locked_here(db)
    with pytest.raises(SessionClosed, match="is not open"):
        await METHODS[name][0](opened)


async def test_closing_an_object_that_was_never_opened() -> None:
    await PoliteSession().aclose()


async def test_closing_while_it_opens(tmp_path: Path) -> None:
    session = PoliteSession(user_agent=AGENT, db=tmp_path / "fetch.db")
    opening = asyncio.create_task(session.open())
    await asyncio.sleep(0)
    await session.aclose()
    with pytest.raises(SessionClosed, match="while it was being opened"):
        await opening
    assert not is_locked_here(tmp_path / "fetch.db")


async def test_a_failed_opening_can_be_repeated(tmp_path: Path) -> None:
    db = tmp_path / "fetch.db"
    session = PoliteSession(user_agent=AGENT, db=db)
    async with PoliteSession(user_agent=AGENT, db=db):
        with pytest.raises(Exception, match="in use"):
            await session.open()
    async with session:
        pass


# ---------------------------------------------------------------- cancellations


@pytest.mark.parametrize("name", CLASSES)
async def test_a_timeout_at_any_moment_of_the_opening_leaves_nothing(
    name: str, tmp_path: Path
) -> None:
    db = tmp_path / "fetch.db"
    for passes in range(60):
        opened = CLASSES[name](db)
        task = asyncio.create_task(opened.open())
        for _ in range(passes):
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await opened.aclose()
            break
        assert not is_locked_here(db), passes
        assert not owned_resource._open
    else:
        raise AssertionError("it never opened")


async def test_a_cancellation_while_closing_aborts_it_and_is_raised() -> None:
    ends = []

    @asynccontextmanager
    async def slow_to_close() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            try:
                await asyncio.sleep(3600)
            finally:
                ends.append("closed")

    resource: OwnedResource[int] = OwnedResource("thing")
    await resource.open(slow_to_close())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await resource.close(None, None, None)
    assert ends == ["closed"]
    assert resource.now is None


async def test_what_closing_raises_is_raised() -> None:
    @asynccontextmanager
    async def fails() -> AsyncIterator[int]:
        yield 1
        raise OSError("no space left")

    resource: OwnedResource[int] = OwnedResource("thing")
    await resource.open(fails())
    with pytest.raises(OSError, match="no space left"):
        await resource.close(None, None, None)


# ---------------------------------------------------------------- left open


@pytest.mark.parametrize("name", ["session", "crawl"])
async def test_a_forgotten_object_is_closed_with_a_warning(name: str, tmp_path: Path) -> None:
    db = tmp_path / "fetch.db"

    async def forget() -> None:
        await CLASSES[name](db).open()

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("ignore")  # those of Python are not meant
        warnings.simplefilter("always", ResourceWarning)
        await asyncio.create_task(forget())
        gc.collect()
        async with asyncio.timeout(10):
            while owned_resource._open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert not is_locked_here(db)
    assert [str(one.message) for one in shown] == [
        f"a {name} was left open: leave its `async with` block, or call `aclose()`"
    ]
    assert shown[0].category is ResourceWarning
    assert shown[0].filename == __file__


async def test_no_warning_when_the_loop_cancels_the_task_with_the_block(tmp_path: Path) -> None:
    """A program that ends while a task uses a session: the block of that task closes it."""
    source = f"""
        import asyncio
        from crawler import PoliteSession

        async def use():
            try:
                async with PoliteSession(db={str(tmp_path / "a.db")!r}):
                    await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.01)

        async def main():
            asyncio.create_task(use())
            await asyncio.sleep(0.2)

        asyncio.run(main())
    """
    assert await asyncio.to_thread(run, source) == (0, "", "")


LEFT = """
    import asyncio, gc, threading, sys
    from crawler import Crawler, Politeness, PoliteSession

    async def main():
        global left
        left = {make}
        await left.open()

    {run}
    print(*sorted({{t.name for t in threading.enumerate()}} & {{"courtly-store"}}))
"""
MAKES = {
    "session": "PoliteSession(db={db!r})",
    "middleware": "Politeness(db={db!r})",
    "crawl": "Crawler(['http://127.0.0.1:9/'], db={db!r})",
}
RUNS = {
    "asyncio.run": ("asyncio.run(main())", ""),
    "a loop that is not closed": (
        "loop = asyncio.new_event_loop(); loop.run_until_complete(main())",
        "courtly-store",
    ),
}


@pytest.mark.parametrize("ends", RUNS)
@pytest.mark.parametrize("name", MAKES)
def test_the_end_of_a_program_that_left_it_open(name: str, ends: str, tmp_path: Path) -> None:
    """One warning, no traceback, no hang, nothing left behind."""
    db = tmp_path / "a.db"
    how, threads = RUNS[ends]
    code, out, err = run(LEFT.format(make=MAKES[name].format(db=str(db)), run=how), "always")
    warned = [line for line in err.splitlines() if "Warning" in line and "event loop" not in line]
    assert (code, out.strip()) == (0, threads)
    assert "Traceback" not in err, err
    assert "destroyed" not in err, err
    assert len(warned) == 1, err
    assert f"ResourceWarning: a {name} was left open" in warned[0]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.db"]


def test_the_next_event_loop_says_what_happened() -> None:
    source = """
        import asyncio
        from crawler import PoliteSession, SessionClosed, WrongEventLoop

        session = PoliteSession()
        asyncio.run(session.open())
        try:
            asyncio.run(session.get("http://127.0.0.1:9/"))
        except SessionClosed as error:
            print(error)
    """
    assert run(source) == (
        0,
        "the session was closed when its event loop ended: open one in each loop\n",
        "",
    )


STRANDED = """
    import asyncio, gc, threading
    from crawler import Crawler, Politeness, PoliteSession

    left = {make}
    loop = asyncio.new_event_loop()
    loop.run_until_complete(left.open())
    loop.close()
    {then}
    for thread in threading.enumerate():
        if thread.name == "courtly-rescue":
            thread.join(10)

    async def again():
        async with {make}:
            print("again")

    asyncio.run(again())
"""


@pytest.mark.parametrize(
    "then",
    [
        "del left; gc.collect()",
        "asyncio.run(left.aclose()); asyncio.run(left.aclose())",
        "asyncio.run(left.open())",
    ],
    ids=["forgotten", "closed in another loop", "opened in another loop"],
)
def test_an_event_loop_that_is_closed_under_it_leaks_no_lock(then: str, tmp_path: Path) -> None:
    """`loop.close()` cancels no task, unlike `asyncio.run`."""
    made = [each.format(db=str(tmp_path / f"{name}.db")) for name, each in MAKES.items()]
    code, out, err = run("".join(STRANDED.format(make=make, then=then) for make in made), "always")
    assert (code, out) == (0, "again\n" * len(MAKES)), err
    assert "Traceback" not in err, err
    for name in MAKES:
        assert err.count(f"ResourceWarning: a {name} was left open") == 1 + ("open" in then), err


def run(source: str, warned: str = "ignore") -> tuple[int, str, str]:
    command = [sys.executable, "-W", f"{warned}::ResourceWarning", "-c", textwrap.dedent(source)]
    ended = subprocess.run(command, capture_output=True, timeout=30, check=False, text=True)
    return ended.returncode, ended.stdout, ended.stderr


def test_a_resource_closes_without_the_clock_of_its_caller() -> None:
    """A fetcher and a clock that are given are not closed: they are the caller's."""

    async def main() -> None:
        clock = RealClock()
        async with PoliteSession(user_agent=AGENT, clock=clock, fetcher=FakeFetcher(clock, {})):
            pass

    asyncio.run(main())
