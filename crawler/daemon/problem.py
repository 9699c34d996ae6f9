"""Errors of the API, as problem details (RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from crawler.operator_commands import InvalidCommandError, UnknownHost

TYPES = "/problems/"  # RFC 9457 permits a reference that cannot be resolved
CONTENT_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """An error response.

    status: HTTP status, 400 to 599. detail: what is wrong, in a sentence. field: the key of the
    body or query that is wrong, if one is. retry_after_s: where waiting helps. problems: the
    sentences, where there are several. kind: the last segment of the type, "" for about:blank.
    attributes: further keys of the body.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        title: str = "",
        kind: str = "",
        attributes: Mapping[str, object] | None = None,
        retry_after_s: float | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.field = field
        self.kind = kind
        self.attributes = attributes or {}
        self.retry_after_s = retry_after_s
        self.problems = tuple(problems)

    def body(self) -> dict[str, object]:
        """The JSON body: type, title, status, detail; field, problems and attributes where they
        apply."""
        body: dict[str, object] = {
            **self.attributes,
            "type": f"{TYPES}{self.kind}" if self.kind else "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.field is not None:
            body["field"] = self.field
        if self.problems:
            body["problems"] = list(self.problems)
        return body


def invalid(field: str, message: str, status: int = 422) -> Problem:
    """A value of a request is wrong: "FIELD: MESSAGE"."""
    return Problem(status, f"{field}: {message}", field=field)


@contextmanager
def as_problems() -> Iterator[None]:
    """Raise Problem for what is wrong with a value or a host that was named."""
    try:
        yield
    except InvalidCommandError as error:
        raise invalid(error.field, error.message, 413 if error.too_large else 422) from None
    except UnknownHost as error:
        raise Problem(404, str(error), field="host") from None
