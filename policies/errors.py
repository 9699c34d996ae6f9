"""The base class of the public exceptions, in the lowest package, so that all three can derive from
it."""

from __future__ import annotations

from typing import Any


class CourtlyError(Exception):
    """Base class of courtly's public exceptions. The message is one sentence.

    They can be pickled and copied, whatever the arguments of a subclass: the copy has the same
    message and attributes, and `__init__` is not called again.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    kind: type[CourtlyError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> CourtlyError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error
