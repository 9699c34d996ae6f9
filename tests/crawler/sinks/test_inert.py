# ruff: noqa: E501 - markup as it is written
"""XML in a mirror: what it says stays, what it would load goes."""

from __future__ import annotations

import re
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from crawler.sinks.inert import inert_xml, is_markup, is_xml
from tests.growth import assert_linear
from tests.tables import each

SVG = "<svg xmlns='http://www.w3.org/2000/svg'>"


def inert(text: str) -> str:
    return inert_xml(text.encode()).decode().partition("?>\n")[2]


@each(
    ("written", "kept"),
    [
        (SVG + "<path d='M0 0'/><text>a &amp; b</text></svg>",) * 2,
        (SVG + "<use href='#a'/><image href='data:image/png;base64,x'/></svg>",) * 2,
        (SVG + "<a href='http://b.test/'>x</a></svg>",) * 2,
        (SVG + "<script>x</script><g onload='x'/></svg>", SVG + "<g/></svg>"),
        (SVG + "<style>@import 'x';</style></svg>", SVG + "<style></style></svg>"),
        (SVG + "<style>p{fill:url(#a)}</style></svg>",) * 2,
        (SVG + "<style><![CDATA[p{fill:url(#a)}]]></style></svg>",) * 2,
        (SVG + "<style><x/>@import 'x';</style><text>//</text></svg>", SVG + "<style></style><text>//</text></svg>"),
        (SVG + "<style><x>y</x>p{}<style>q{}</style></style></svg>", SVG + "<style>p{}</style></svg>"),
        (SVG + "<style>@im<!-- -->port 'x'", SVG + "<style>"),
        (SVG + "<image href='ht&#9;tp://b.test/x'/></svg>", SVG + "<image/></svg>"),
        (SVG + "<image href='//b.test/x'/></svg>", SVG + "<image/></svg>"),
        (SVG + "<rect style='fill:\\75rl(x)'/></svg>", SVG + "<rect/></svg>"),
        ("<!DOCTYPE svg [<!ENTITY s 'http://www.w3.org/2000/svg'>]><svg xmlns='&s;'/>",
         "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ("<r><x href='http://b.test/'>http://b.test/</x></r>",) * 2,
        ("<r xmlns:h='http://www.w3.org/1999/&#120;html'/>", "<r xmlns:h='urn:x-courtly:inert'/>"),
        ("<?xml-stylesheet href='x'?><r><!-- <y> -->z<![CDATA[<w>]]></r>", "<r>z<![CDATA[<w>]]></r>"),
        ("<r><x", "<r>"),
    ],
)  # fmt: skip
def test_what_stays(written: str, kept: str) -> None:
    assert inert(written) == kept


def test_every_encoding_becomes_utf8() -> None:
    text = "<r>\u00fc\u65e5</r>"
    for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-8-sig"):
        assert "\u00fc\u65e5" in inert_xml(text.encode(encoding)).decode()
    declared = "<?xml version='1.0' encoding='iso-8859-1'?><r>\u00fc</r>"
    assert "<r>\u00fc</r>" in inert_xml(declared.encode("latin-1")).decode()


PIECES = [
    "<svg>", "<svg xmlns='http://www.w3.org/2000/svg'>", "</svg>", "<script>", "</script>", "<image ",
    "href='http://b.test/'", "/>", ">", "<", "&", "<!--", "-->", "<![CDATA[", "]]>", "<?x ", "?>",
    "<!DOCTYPE x [", "]>", "<!ENTITY a 'http://b.test/'>", "&a;", "<style>", "</style>", "url(//b)",
    "'", '"', "xmlns:h='http://www.w3.org/1999/xhtml'", "<h:img src='http://b.test/'", "\0", "x",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_an_svg_keeps_no_reference_to_the_network(text: str) -> None:
    out = inert("<svg>" + text)
    for tag in re.findall(
        r"<image\b[^<>]*>", re.sub(r"<!\[CDATA\[.*?\]\]>", "", out, flags=re.DOTALL)
    ):
        assert "//" not in tag
    assert "<?" not in re.sub(r"<!\[CDATA\[.*?\]\]>", "", out, flags=re.DOTALL)
    assert inert(inert(out)) == inert(out)


@given(
    st.sampled_from(
        ["@import url(http://b.test/x);", "p{fill:url(//b.test)}", "p{fill:url(\\68ttp:x)}"]
    ),
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.sampled_from(["<!-- x -->", "<?x?>", "<x/>", "<x>y</x>", "]]><![CDATA["]),
        ),
        max_size=8,
    ),
)
def test_a_style_in_pieces_leads_nowhere(css: str, cuts: list[tuple[int, str]]) -> None:
    cuts = [(min(place, len(css)), gap) for place, gap in cuts]
    for place, gap in sorted(cuts, reverse=True):
        gap = gap if gap[0] == "]" else f"]]>{gap}<![CDATA["
        css = css[:place] + gap + css[place:]
    assert inert(f"{SVG}<style><![CDATA[{css}]]></style>k</svg>") == f"{SVG}<style></style>k</svg>"


@given(st.binary(max_size=300))
def test_no_bytes_fail(body: bytes) -> None:
    inert_xml(body)
    is_markup(body)
    is_xml("", body)


@each(
    ("before", "unit", "behind"),
    [
        ("<svg ", "a", ""),  # a tag that is not closed
        ("<svg ", "a", ">"),
        ("<svg ", "a ", ">"),
        ("<svg a", " ", ">"),
        ("<svg ", "a=", ">"),
        ("<svg ", "'", ""),
        ("<svg ", "\"'", ""),
        ("<svg><g a='", "a:", "'/>"),
        ("<!DOCTYPE a[", "] ", ""),
        ("<!DOCTYPE a[", "<!ENTITY a ", "]>"),
        ("<!DOCTYPE a[<!ENTITY a '" + "x" * 500 + "'>]><a>", "&a;", "</a>"),
        ("<!DOCTYPE a[<!ENTITY a '" + "x" * 500 + "'>]><a b='", "&a;", "'/>"),
        ("<svg><style>", "&amp;", "</style>"),
    ],
)
def test_time_memory_and_output_are_bounded(before: str, unit: str, behind: str) -> None:
    def body(size: int) -> bytes:
        return (before + unit * (size // len(unit)) + behind).encode()

    assert_linear(inert_xml, body, 100_000)
    large = body(200_000)
    tracemalloc.start()
    out = inert_xml(large)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 12_000_000
    assert len(out) < 3 * len(large) + 1_100_000


def test_further_document_types_expand_no_more_entities():
    declared = f'<!DOCTYPE svg [<!ENTITY a "{"x" * 500}">]>'
    body = (declared + "&a;" * 1_900).encode() * 5
    assert len(inert_xml(body)) <= 3 * len(body) + 1_100_000
