"""Response: a value with readers of its body."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.embedding.response import Response


def response(body: bytes, content_type: str = "application/json") -> Response:
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": content_type}))
    return Response(url="http://a.test/a", status=200, headers=headers, body=body, elapsed_s=0.1)


def test_json_is_read_from_the_body_whatever_its_type() -> None:
    for encoding in ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]:
        body = '{"a": ["ä", null, 1.5]}'.encode(encoding)
        assert response(body, "text/html").json() == {"a": ["ä", None, 1.5]}, encoding


@pytest.mark.parametrize(
    ("body", "beginning"),
    [
        (b"", "''"),
        (b"<!DOCTYPE html><p>" + b"x" * 1000, "'<!DOCTYPE html><p>xxxxxxxxxxxx"),
        (b"\xff\xfe\xfa", r"'\xff\xfe\xfa'"),
        (b"[" * 100_000, "'[[[["),
        (b"1" * 5000, "'1111"),
    ],
)
def test_a_body_that_is_not_json_is_described(body: bytes, beginning: str) -> None:
    with pytest.raises(ValueError, match="is not JSON") as caught:
        response(body, "text/html").json()
    told = str(caught.value)
    assert told.startswith("the body of http://a.test/a (status 200, text/html) is not JSON: ")
    assert f"It begins with {beginning}" in told
    assert len(told) < 350
