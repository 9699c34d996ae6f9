"""Tables of cases in one test: for many cheap cases that need nothing of their own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

Test = Callable[..., Any]


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each row, as `pytest.mark.parametrize` does, but as a single test.

    The first row that fails ends it, and is named below the traceback. Fixtures are shared.

    names: of the arguments: several, or one, whose values are the rows themselves.
    """
    rows = list(rows)
    assert rows

    def decorate(test: Test) -> Test:
        signature = inspect.signature(test)
        given = (names,) if isinstance(names, str) else names

        @contextmanager
        def case(row: Any) -> Iterator[dict[str, Any]]:
            values = dict(zip(given, (row,) if isinstance(names, str) else row, strict=True))
            try:
                yield values
            except BaseException as error:
                error.add_note(f"of the table of {test.__name__}: {values!r:.500}")
                raise

        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            for row in rows:
                with case(row) as values:
                    test(**fixtures, **values)

        @functools.wraps(test)
        async def every_async(**fixtures: Any) -> None:
            for row in rows:
                with case(row) as values:
                    await test(**fixtures, **values)

        left = [p for name, p in signature.parameters.items() if name not in given]
        made: Any = every_async if inspect.iscoroutinefunction(test) else every
        made.__signature__ = signature.replace(parameters=left)
        return made

    return decorate
