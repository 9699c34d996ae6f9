"""Errors of the middleware, which are errors of aiohttp as well: code that catches
`aiohttp.ClientError` around a request of its session works unchanged."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from crawler.errors import CourtlyError


@contextmanager
def client_errors() -> Iterator[None]:
    """Raise every CourtlyError of the block as an instance of its class and of ClientError."""
    try:
        yield
    except aiohttp.ClientError:
        raise
    except CourtlyError as error:
        meant = _as_client_error(type(error), error.args, error.__dict__)
        raise meant.with_traceback(error.__traceback__) from error.__cause__


def _as_client_error(
    kind: type[CourtlyError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> CourtlyError:
    both = _client_error_class(kind)  # type: ignore[arg-type]  # a class is hashable
    error = both.__new__(both)
    error.args = args
    error.__dict__.update(attributes)
    return error


@functools.cache
def _client_error_class(kind: type[CourtlyError]) -> type[CourtlyError]:
    """The class derived from this one and from ClientError. It has the name and the docstring of
    the first, and is pickled by it."""

    def reduce(error: CourtlyError) -> tuple[object, ...]:
        return _as_client_error, (kind, error.args, error.__dict__)

    return type(
        kind.__name__,
        (kind, aiohttp.ClientError),
        {"__doc__": kind.__doc__, "__module__": kind.__module__, "__reduce__": reduce},
    )
