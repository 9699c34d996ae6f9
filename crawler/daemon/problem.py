"""What a request is told when it cannot be served: a problem body (RFC 9457)."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

CONTENT_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 - the word of RFC 9457
    """An answer that says what is wrong, in a sentence, and in which field.

    `status` is an HTTP status of 400 to 599; `field` names the key of the body or of the query, or
    is None where none is to blame. `retry_after_s` is told where waiting helps;
    `problems` are the sentences where there are several.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        field: str | None = None,
        title: str = "",
        retry_after_s: float | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.field = field
        self.retry_after_s = retry_after_s
        self.problems = tuple(problems)

    def body(self) -> dict[str, object]:
        """`{"type", "title", "status", "detail", "field"}`, the last only where there is one."""
        body: dict[str, object] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.field is not None:
            body["field"] = self.field
        if self.problems:
            body["problems"] = list(self.problems)
        return body


def unknown_host(host: str) -> Problem:
    return Problem(404, f'no URL of a host "{host}" was ever queued here', field="host")
