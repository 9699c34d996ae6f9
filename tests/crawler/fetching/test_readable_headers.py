"""Headers whose bytes are no text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.fetching.request import Headers, readable
from tests.tables import each


def received(*fields: tuple[str, bytes]) -> Headers:
    """As aiohttp gives them."""
    return CIMultiDictProxy(
        CIMultiDict((name, value.decode("utf-8", "surrogateescape")) for name, value in fields)
    )


def test_what_is_text_stays_as_it_is() -> None:
    plain = received(("X", b"plain"), ("Y", b"a\tb"))
    assert readable(plain) is plain
    assert readable(received(("X", "ü ∞".encode())))["x"] == "ü ∞"


@each(
    ("name", "value", "text"),
    [
        ("Location", b"/caf\xe9?q=\xff", "/caf%E9?q=%FF"),
        ("link", b"<\xe9>; rel=next", "<%E9>; rel=next"),
        ("Refresh", b"0; url=/\x80", "0; url=/%80"),
        ("Content-Type", b"text/html; charset=\xe9", "text/html; charset=é"),
        ("X-Robots-Tag", b"no\x80index", "no\ufffdindex"),
        ("X", b"\xed\xa0\x80", "í\xa0\ufffd"),  # a surrogate encoded as if it were a character
    ],
)
def test_hidden_bytes(name: str, value: bytes, text: str) -> None:
    assert readable(received((name, value)))[name] == text


def test_order_and_repetition_are_kept() -> None:
    headers = readable(received(("A", b"1"), ("B", b"\xff"), ("a", b"2")))
    assert list(headers.items()) == [("A", "1"), ("B", "ÿ"), ("a", "2")]


@given(st.lists(st.tuples(st.sampled_from(["Location", "Link", "ETag", "X"]), st.binary())))
def test_any_bytes_can_be_kept(fields: list[tuple[str, bytes]]) -> None:
    for value in readable(received(*fields)).values():
        value.encode()
