"""BOM, header, meta, and only then a guess."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.documents.charset import to_utf8
from crawler.documents.encoding_index import NAMES
from tests.tables import each

RUSSIAN = "Привет мир, это обычная страница на русском языке. " * 20
JAPANESE = "これは日本語のページです。ニュースと記事があります。<br>" * 900


@each(
    ("body", "content_type", "text", "name"),
    [
        (b"plain", None, "plain", "utf-8"),
        (b"plain", "text/html; charset=iso-8859-1", "plain", "windows-1252"),
        ("ü".encode(), None, "ü", "utf-8"),
        (b"\xfc", "text/html; charset=latin1", "ü", "windows-1252"),
        (b"\xfc", 'text/html; charset="ISO-8859-2"', "ü", "iso-8859-2"),
        (b"<meta charset=windows-1251>\xcf", "text/html", "<meta charset=windows-1251>П",
         "windows-1251"),
        (b"<meta charset=windows-1251>\xc3\xbc", "text/html; charset=UTF-8",
         "<meta charset=windows-1251>ü", "utf-8"),
        (codecs.BOM_UTF8 + "ü".encode(), "text/html; charset=latin1", "ü", "utf-8"),
        (codecs.BOM_UTF16_LE + "ü".encode("utf-16-le"), "text/html", "ü", "utf-16le"),
        (codecs.BOM_UTF16_BE + "ü".encode("utf-16-be"), None, "ü", "utf-16be"),
        ("ü".encode("utf-16-le"), "text/html; charset=utf-16le", "ü", "utf-16le"),
        ("<meta charset=utf-16>ü".encode(), None, "<meta charset=utf-16>ü", "utf-8"),
        ("日本".encode("iso2022_jp"), "text/html; charset=iso-2022-jp", "日本", "iso-2022-jp"),
        ("日本".encode("cp932"), "text/html; charset=Shift_JIS", "日本", "shift_jis"),
        (b"\xff", "text/html; charset=utf-8", "\ufffd", "utf-8"),
    ],
)  # fmt: skip
def test_declared(body: bytes, content_type: str | None, text: str, name: str) -> None:
    utf8, used = to_utf8(body, content_type)
    assert (utf8.decode(errors="replace"), used) == (text, name)


@each(
    "label",
    [
        "nonsense", "punycode", "idna", "unicode_escape", "zlib", "utf-7", "rot13", "mbcs", "ü",
        "_", "aliases",
    ],
)  # fmt: skip
def test_encodings_that_are_not_the_web_s_are_not_used(label: str) -> None:
    body = f"<meta charset={label}>".encode() + "ü".encode()
    assert to_utf8(body, f"text/html; charset={label}") == (body, "utf-8")


@pytest.mark.parametrize(
    ("text", "encoding"), [(RUSSIAN, "windows-1251"), (RUSSIAN, "koi8-r"), (JAPANESE, "shift_jis")]
)
def test_guessed(text: str, encoding: str) -> None:
    body = f"<p class='x'>{text}</p>".encode(encoding)
    utf8, used = to_utf8(body, "text/html")
    assert used == encoding
    assert utf8.decode() == f"<p class='x'>{text}</p>"


def test_utf8_cut_inside_a_character_is_still_utf8() -> None:
    assert to_utf8("aü".encode()[:-1], None)[1] == "utf-8"


@given(
    st.binary(max_size=200),
    st.none()
    | st.text(max_size=40)
    | st.text("0123456789-_abcdefiklorstuxz\x00 ;\"'", max_size=20).map("a/b;charset=".__add__),
)
@settings(max_examples=160, deadline=None)
def test_nothing_raises(body: bytes, content_type: str | None) -> None:
    utf8, name = to_utf8(body, content_type)
    assert name in NAMES
    if name != "utf-8":
        utf8.decode()


@each(
    ("parameters", "name"),
    [
        ("charset= koi8-r", "koi8-r"), ("charset=koi8-r ; x=y", "koi8-r"),
        ('charset=  "koi8-r"', "koi8-r"), ('charset="koi8-r', "koi8-r"),
        ('charset="koi8-r" foo', "koi8-r"), ("charset=; charset=koi8-r", "koi8-r"),
        ('x="charset=gbk"; Charset=koi8-r; charset=gbk', "koi8-r"),
        ("charset=koi8-r, text/plain", "koi8-r"), ('charset=""; charset=koi8-r', "windows-1250"),
        ("charset=koi8-r foo", "windows-1250"), ("charset = koi8-r", "windows-1250"),
        ('charset="koi8-r; x=y', "windows-1250"),
    ],
)  # fmt: skip
def test_the_header_is_read_as_browsers_read_it(parameters: str, name: str) -> None:
    body = b"<meta charset=windows-1250>\xc3"
    assert to_utf8(body, f"text/html; {parameters}")[1] == name
