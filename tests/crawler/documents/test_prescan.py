"""What a page declares of its encoding (WHATWG HTML, "prescan a byte stream")."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.documents.encoding_index import NAMES
from crawler.documents.prescan import declared_encoding
from tests.growth import assert_linear, repeated
from tests.tables import each

K = "koi8-r"


@each(
    ("head", "declared"),
    [
        ("<meta charset=koi8-r>", K),
        ("<META\fCHARSET = 'KOI8-R'>", K),
        ("<meta/charset=koi8-r>", K),
        ("<meta charset=koi8-r", None),  # cut off
        ("<metacharset=koi8-r>", None),
        ("<meta name=a content='text/html; charset=koi8-r'>", None),
        ("<meta http-equiv=content-type content='text/html; charset=koi8-r'>", K),
        ("<meta content='text/html; charset = \"koi8-r\" x' http-equiv=Content-Type>", K),
        ("<meta content='charset=\"koi8-r' http-equiv=Content-Type>", None),
        ("<meta content='charset charset=koi8-r;x' http-equiv=Content-Type>", K),
        ("<meta http-equiv=content-type content='charset=utf-7'><meta charset=koi8-r>", K),
        # A charset goes before a content, and one that is unknown hides it.
        ("<meta http-equiv=content-type content='charset=big5' charset=koi8-r>", K),
        ("<meta charset=nonsense content='charset=big5' http-equiv=content-type>", None),
        ("<meta charset=koi8-r charset=big5>", K),
        ("<!-- <meta charset=big5> --><meta charset=koi8-r>", K),
        ("<!--><meta charset=koi8-r>-->", K),
        ("<!-- <meta charset=koi8-r>", None),
        ("<a title='<meta charset=big5>'><meta charset=koi8-r>", K),
        ('<a title="><meta charset=big5>', None),
        ("</p x='<meta charset=big5>'><meta charset=koi8-r>", K),
        ("<? <meta charset=big5><meta charset=koi8-r>", K),
        ("<! <meta charset=big5><meta charset=koi8-r>", K),
        ("<script>'<meta charset=koi8-r>'</script>", K),  # the prescan knows no scripts
        ("<body><p><meta charset=koi8-r>", K),
        ("<meta charset=utf-16>", "utf-8"),
        ("<meta charset=x-user-defined>", "windows-1252"),
        ("<meta charset=iso-2022-kr>", "replacement"),
        ("<?xml version='1.0' encoding='koi8-r'?>", K),
        ("<?xml version='1.0' encoding = \"koi8-r\"?><meta charset=big5>", "big5"),
        (" <?xml version='1.0' encoding='koi8-r'?>", None),
        ("<?xml version='1.0' encoding='koi8 r'?>", None),
        ("<?xml version='1.0'?> encoding='koi8-r'", None),
        ("<?xml version='1.0' encoding='utf-16'?>", "utf-8"),
        ("<\0?\0x\0", "utf-16le"),
        ("\0<\0?\0x", "utf-16be"),
        ("", None),
    ],
)
def test_declarations(head: str, declared: str | None) -> None:
    assert declared_encoding(head.encode("latin-1")) == declared


def test_a_long_head_is_read_on_and_a_body_is_not() -> None:
    meta = b"<meta charset=koi8-r>"
    script = b"<script>" + b"x" * 5_000 + b"</script>"
    assert declared_encoding(b"<html><head><title>x</title>" + script + meta) == K
    assert declared_encoding(b"<!--" + b"x" * 5_000 + b"-->" + meta) == K
    assert declared_encoding(b"<p>" + b"x" * 900 + meta) == K
    assert declared_encoding(b"<p>" + b"x" * 1_100 + b"<i>" + meta) is None
    assert declared_encoding(b"<head></head>" + b"x" * 1_100 + b"<i>" + meta) is None
    assert declared_encoding(b"<head>" + b" " * 20_000 + meta) is None


@given(
    st.lists(
        st.sampled_from(
            [b"<", b">", b"meta", b"<meta ", b"charset", b"=", b"big5", b'"', b"'", b" ", b"/",
             b"<!--", b"-->", b"<?xml", b"encoding", b"content", b"http-equiv", b"content-type",
             b"a", b"!", b"?", b"\0"]
        ),
        max_size=60,
    ).map(b"".join)
)  # fmt: skip
def test_nothing_raises_and_only_encodings_are_found(head: bytes) -> None:
    found = declared_encoding(head)
    assert found is None or found in NAMES


def test_hostile_heads_are_read_in_little_time() -> None:
    for unit in (b"<", b"<a ", b"<!", b"<!--", b"<meta ", b"<meta charset='", b"a=", b"<a b ",
                 b"</", b"<?xml encoding", b"charset", b"<meta content=charset "):  # fmt: skip
        for before in (b"<meta http-equiv=content-type content='", b"", b"charset"):
            assert_linear(declared_encoding, repeated(before, unit), 60_000, name=before + unit)
