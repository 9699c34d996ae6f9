"""A resource of an object that is open during its `async with` block, or from `open` to `aclose`.

A task of its own opens and closes the resource. Whenever a caller is cancelled, what was opened is
closed. A resource that nobody closed is closed when its object is garbage-collected, when its event
loop ends or when the interpreter exits; a ResourceWarning says so.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import sys
import threading
import warnings
import weakref
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from crawler import threads
from crawler.config import ConfigError
from crawler.errors import AlreadyOpen, SessionClosed, WrongEventLoop

_T = TypeVar("_T")
_Exit = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

EXIT_S: Final = 5.0  # how long the interpreter's exit waits for what was left open
_OURS: Final = str(Path(__file__).parents[1])
_NORMALLY: Final[_Exit] = (None, None, None)


class OwnedResource(Generic[_T]):
    """Owns the resource while its object is open. noun: the object, for messages."""

    def __init__(self, noun: str) -> None:
        self._noun = noun
        self._opening: _Opening[_T] | None = None

    def __del__(self) -> None:
        if (opening := self._opening) is not None:
            opening.forget()

    async def open(self, context: AbstractAsyncContextManager[_T]) -> None:
        """Enter the context. A cancellation takes effect when what was opened is closed again.

        Raises AlreadyOpen, and what the context raises.
        """
        if self._opening is not None and self._opening.is_stranded:
            await self._opening.rescue()
        elif self._opening is not None and not self._opening.task.done():
            raise AlreadyOpen(f"the {self._noun} is open already: use a new object for each block")
        opening = self._opening = _Opening(context, self._noun)
        try:
            await opening.wait()
        except BaseException:
            self._opening = None
            raise

    async def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; takes the arguments of `__aexit__`. Closing twice is not an error. Raises
        WrongEventLoop, and what the context raises."""
        opening = self._opening
        if opening is None or opening.task.done():
            self._opening = None
            return
        try:
            if opening.is_stranded:
                await opening.rescue()
                return
            self._check_loop(opening, asyncio.get_running_loop())
            await opening.close((kind, error, trace))
        finally:
            if self._opening is opening and not opening.is_open:
                self._opening = None

    @property
    def now(self) -> _T | None:
        """The resource, if it is open. Raises WrongEventLoop."""
        opening = self._opening
        if opening is None or not opening.is_open:
            return None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # called outside of any event loop
            return opening.resource
        self._check_loop(opening, loop)
        return opening.resource

    def get(self) -> _T:
        """Return the resource. Raises SessionClosed and WrongEventLoop if it cannot be used."""
        opening = self._opening
        if opening is None or not opening.is_open:
            ended = opening is not None and (opening.was_left or opening.is_stranded)
            raise SessionClosed(
                f"the {self._noun} was closed when its event loop ended: open one in each loop"
                if ended
                else f"the {self._noun} is not open: use it inside its `async with` block"
            )
        self._check_loop(opening, asyncio.get_running_loop())
        assert opening.resource is not None
        return opening.resource

    def _check_loop(self, opening: _Opening[_T], loop: AbstractEventLoop) -> None:
        if opening.loop is not loop:
            raise WrongEventLoop(
                f"the {self._noun} was opened in another event loop, and works only there: open"
                " one in each loop (in pytest-asyncio, give a fixture and its tests the same"
                " loop_scope)"
            )


class _Opening(Generic[_T]):
    """One time that a resource is open, and the task that holds it. It does not refer to the
    object, which would not be collected otherwise."""

    def __init__(self, context: AbstractAsyncContextManager[_T], noun: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.resource: _T | None = None
        self.was_left = False  # nobody closed it
        self._noun = noun
        self._context = context
        self._rescued = False
        self._opened_at = _line_outside()
        self._opened: asyncio.Future[None] = self.loop.create_future()
        self._closing: asyncio.Future[_Exit | None] = self.loop.create_future()
        opener = asyncio.current_task()
        self._opener = None if opener is None else weakref.ref(opener)
        self.task = self.loop.create_task(self._own(), name=f"courtly: {noun}")
        _open.add(self)
        self.task.add_done_callback(lambda _: _open.discard(self))

    @property
    def is_open(self) -> bool:
        done = self._closing.done() or self.task.done() or self.loop.is_closed()
        return self._opened.done() and not done

    @property
    def is_stranded(self) -> bool:
        """Whether its event loop was closed before its task ended, as asyncio.run never does."""
        return self.loop.is_closed() and not self.task.done()

    async def wait(self) -> None:
        """Return when it is open; closes it if the caller is cancelled."""
        try:
            await asyncio.wait({self._opened, self.task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            opened = self._opened.done()
            self._end(_NORMALLY)
            if not opened:
                self.task.cancel()
            while not self.task.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({self.task})
            if not self.task.cancelled():
                self.task.exception()  # retrieved: the caller is gone
            raise
        if not self._opened.done():
            if self.task.cancelled():
                raise SessionClosed(f"the {self._noun} was closed while it was being opened")
            self.task.result()

    async def close(self, how: _Exit) -> None:
        """Return when it is closed. A cancellation of the caller aborts what closing waits for."""
        opened = self._opened.done()
        self._end(how)
        if not opened:
            self.task.cancel()
        cancelled: asyncio.CancelledError | None = None
        while not self.task.done():
            try:
                await asyncio.wait({self.task})
            except asyncio.CancelledError as error:
                cancelled = error
                self.task.cancel()
        if cancelled is not None:
            if not self.task.cancelled():
                self.task.exception()  # retrieved: the cancellation is raised
            raise cancelled
        if not self.task.cancelled():
            self.task.result()

    def _end(self, how: _Exit | None) -> None:
        if not self._closing.done():
            self._closing.set_result(how)

    async def _own(self) -> None:
        self.resource = await self._context.__aenter__()
        self._opened.set_result(None)
        try:
            await asyncio.wait({self._closing})
        except asyncio.CancelledError:  # the event loop is ending
            await self._opener_ended()
        how = self._closing.result() if self._closing.done() else None
        self.was_left = how is None
        self.resource = None
        if how is not None:
            await self._context.__aexit__(*how)
            return
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self._context.__aexit__(asyncio.CancelledError, _cancelled(), None)
        finally:
            self._warn()

    async def _opener_ended(self) -> None:
        """Wait until it is closed by the task that opened it, which was cancelled as well, or that
        task has ended."""
        opener = None if self._opener is None else self._opener()
        if opener is not None and not opener.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({self._closing, opener}, return_when=asyncio.FIRST_COMPLETED)

    def _warn(self) -> None:
        """Show a warning for the line that opened it."""
        warnings.warn_explicit(
            f"a {self._noun} was left open: leave its `async with` block, or call `aclose()`",
            ResourceWarning,
            *self._opened_at,
        )

    # ------------------------------------------------------------ left open

    def forget(self) -> None:
        """The object was collected: close the resource, wherever this is called."""
        if self.is_stranded:
            threads.start_daemon(lambda: asyncio.run(self.rescue()), name="courtly-rescue")
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._end, None)

    def at_exit(self) -> None:
        """The interpreter exits: close the resource as far as possible."""
        if self.is_stranded:
            asyncio.run(self.rescue())
        elif self.loop.is_running():  # in another thread
            closed = threading.Event()

            def end() -> None:
                self._end(None)
                self.task.add_done_callback(lambda _: closed.set())

            self.loop.call_soon_threadsafe(end)
            closed.wait(EXIT_S)
        else:
            self._end(None)
            self.loop.run_until_complete(asyncio.wait({self.task}, timeout=EXIT_S))

    async def rescue(self) -> None:
        """Close a stranded resource in another event loop, as far as possible: its database, but
        no connection to a host. Its tasks will never end, so this object is kept in `_open`."""
        if self._rescued or not self._opened.done():
            return
        self._rescued = self.was_left = True
        for task in asyncio.all_tasks(self.loop):
            code = getattr(task.get_coro(), "cr_code", None)
            if code is not None and code.co_filename.startswith(_OURS):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
        with contextlib.suppress(BaseException):  # what belongs to the closed loop fails
            await self._context.__aexit__(asyncio.CancelledError, _cancelled(), None)
        self._warn()


def _line_outside() -> tuple[str, int]:
    """The file and line from which a method of this package was called."""
    frame = sys._getframe()  # noqa: SLF001 - as `warnings.warn` does
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _cancelled() -> BaseException:
    return asyncio.CancelledError("nobody closed it")


# Without it, the tasks of a forgotten object could be collected together with it.
_open: Final[set[_Opening[Any]]] = set()


@atexit.register
def _close_all() -> None:
    for opening in list(_open):
        with contextlib.suppress(Exception):
            opening.at_exit()


class SharedResource(OwnedResource[_T]):
    """The resource of another session, while both are open. Closing it does not close the other."""

    def __init__(self, lender: OwnedResource[_T]) -> None:
        super().__init__("session")
        self._lender = lender

    def get(self) -> _T:
        super().get()
        return self._lent()

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[_T]:
        """The context to open it with. Raises SessionClosed and WrongEventLoop."""
        yield self._lent()

    def _lent(self) -> _T:
        try:
            return self._lender.get()
        except SessionClosed as error:
            raise SessionClosed(
                "the session given as `share` is not open: keep it open as long as this one is used"
            ) from error


def check_alone(beside: Mapping[str, object]) -> None:
    """Check the arguments of a session with `share`. beside: those that must not be given with it,
    by name. Raises ConfigError."""
    given = [name for name, value in beside.items() if value is not None and value != ()]
    if given:
        raise ConfigError(f"{given[0]}: cannot be given with share: the other session decides it")
