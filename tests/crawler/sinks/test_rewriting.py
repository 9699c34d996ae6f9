"""Markup rewritten in place: as the reader without a tree sees it, and in linear time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crawler.documents.markup import tags_with_attributes, tokens
from crawler.sinks.offline import OfflineReferences, offline_page
from crawler.sinks.relinking import relinked
from tests.growth import assert_linear
from tests.tables import each

PIECES = st.sampled_from(
    [
        "<a href=x>", "<p>", "</p>", "<p class='a' id=b>", '<p class="a" x=1>', "<style>",
        "</style>", "<title x=1>", "</title>", "<svg>", "</svg>", "<svg x=1/>", "<select>",
        "</select>", "<![CDATA[", "]]>", "<!--", "-->", "<script y>", "</script>", "<frameset>",
        "<math>", "</math>", "<", ">", '"', "x", "<textarea>", "</textarea>", "<plaintext>",
        "<img src=y>", "<td z=1>", "</", "<P Q=R>",
    ]
)  # fmt: skip
HOSTILE = [
    '<a href=x class="', "<a href='", "<a href=x ", "<", "</", "<!--", "<![CDATA[", "<svg>",
    "<b x=", "<svg><style>", "<a href=x>", "<iframe srcdoc='", '<p class="', '<p class="" ',
    "<select><title>", '<a href="x" data-courtly-url="x">', ' href="" data-courtly-url="',
    "href=&quot;", 'src="" ', "http-equiv", " srcdoc", "<link", "<!doctype", "<!doctype x>",
    "<!-- -->", "<?x>", "<base ", "&amp;", "<style>url(", "<p style='url(x)'>", "<script><link",
]  # fmt: skip


@given(st.lists(PIECES, max_size=20).map("".join).map(str.encode))
def test_every_tag_with_attributes_is_found(html: bytes) -> None:
    def of_interest(name: bytes, raw: bytes) -> bool:
        return name[:1] not in (b"", b"/", b"!") and b"=" in raw and b"class" not in raw

    found = [tag[:4] for tag in tags_with_attributes(html) if of_interest(tag[0], tag[1])]
    assert found == [tag[:4] for tag in tokens(html) if of_interest(tag.name, tag.attributes)]


@each("unit", HOSTILE)
def test_rewriting_takes_linear_time(unit: str) -> None:
    def rewrite(body: bytes) -> None:
        links = OfflineReferences("http://a.test/", "a.test/index.html", files=(), scripts=True)
        page = offline_page(body, "text/html", links)
        relinked(page, "a.test/index.html", (), {"a.test/x.part"})

    assert_linear(rewrite, lambda size: (unit * (size // len(unit))).encode(), 40_000)
