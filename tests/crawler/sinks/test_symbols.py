"""Elements of drawings in the pages that use them; a browser shows them in tests/site/web."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.sinks.symbols import Symbols, drawings_used
from tests.crawler.sinks.test_mirror import mirror
from tests.growth import assert_linear
from tests.tables import each

if TYPE_CHECKING:
    from tests.crawler.sinks.conftest import MakePage

SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
ICON = f"""{SVG}<linearGradient id="blue"><stop offset="1"/></linearGradient>
<symbol id="icon" viewBox="0 0 9 9"><path d="M0 0h9" style="fill:url(#blue)"/></symbol></svg>"""
PAGE = '<svg><use href="icons.svg#icon"/></svg>'


class Files(dict[str, bytes]):
    """Files of a mirror by name."""

    def __init__(self, *files: dict[str, bytes]) -> None:
        super().__init__(*files)
        self.read_names: list[str] = []

    def read(self, name: str) -> bytes | None:
        self.read_names.append(name)
        return self.get(name)


def shown(drawing: str, page: str = PAGE) -> str | None:
    symbols = Symbols(Files({"a.test/icons.svg": drawing.encode()}))
    page_shown = symbols.shown(page.encode(), "a.test/index.html")
    return None if page_shown is None else page_shown.decode()


def put(sink: Any, make_page: MakePage, path: str, body: str, content_type: str) -> None:
    sink.put(make_page(f"https://a.test{path}", body=body.encode(), content_type=content_type))


def test_it_has_what_the_element_refers_to_under_ids_of_its_own() -> None:
    page = shown(ICON, PAGE + "<p id=icon>x</p>")
    assert page is not None
    icon, blue = re.findall(r'<(?:symbol|linearGradient) id="([^"]+)"', page)
    assert f'<use href="#{icon}"/>' in page
    assert f'style="fill:url(#{blue})"' in page
    assert "<p id=icon>" in page
    assert shown(ICON, page) is None, "once is enough"


@pytest.mark.parametrize("order", [("page", "drawing"), ("drawing", "page")])
@pytest.mark.parametrize("name", ["icons.svg", "icons?v=1"])
def test_the_end_of_a_run_copies_what_pages_use(
    tmp_path: Path, make_page: MakePage, order: tuple[str, str], name: str
) -> None:
    for one in order:
        sink = mirror(tmp_path)
        if one == "page":
            put(sink, make_page, "/", PAGE.replace("icons.svg", name), "text/html")
        else:
            put(sink, make_page, f"/{name}", ICON, "image/svg+xml")
        sink.flush()
        sink.close(threading.Event())  # in two runs
    page = (tmp_path / "a.test/index.html").read_text()
    assert page.count('<symbol id="courtly-') == 1
    mirror(tmp_path).close(threading.Event())
    assert (tmp_path / "a.test/index.html").read_text() == page


@each(
    "inner",
    [
        "<script>x</script>", "<image href='data:image/png;base64,x'/>", "<a href='https://e.test'/>",
        "<h:meta xmlns:h='http://www.w3.org/1999/xhtml' content='x'/>", "<meta content='x'/>",
        "<foreignObject><p>x</p></foreignObject>", "<style>x</style>", "<title>x</title>",
        "<set attributeName='href' to='x'/>", "<rect onload='x'/>", "<rect class='x'/>",
        "<use href='other.svg#x'/>", "<rect fill='url(x.svg#a)'/>",
        "<rect fill='\\75 rl(//e.test)'/>",
        "<rect style='fill:url(https://e.test)'/>", "<rect d='&quot;>&lt;img src=x>'/>",
        "<rect d=\"M0'onload=x\"/>", "<rect content='0;x' http-equiv='refresh'/>",
    ],
)  # fmt: skip
def test_what_is_no_shape_is_not_copied(inner: str) -> None:
    page = shown(f'{SVG}<g id="icon">{inner}</g></svg>')
    assert page is not None
    copy = page.partition("<defs>")[2].removesuffix("</defs></svg>")
    assert re.fullmatch(r'<g id="courtly-\w{16}">(<(rect|use|text)></\2>)?</g>', copy), copy


@given(st.lists(st.sampled_from(
    ["<g id='icon'>", "</g>", "<rect ", "fill='", "'", '"', "url(", "#a", ")", "\\", "&lt;", "/>",
     "&quot;", "=", " onload=", "style='", "<use href='#icon'/>", "<p>", "</p>", "<![CDATA[", "]]>"]
), max_size=30))  # fmt: skip
def test_a_copy_ends_no_value_and_no_tag(parts: list[str]) -> None:
    page = shown(f"{SVG}<g id='icon'><path d='M0'/>{''.join(parts)}</g></svg>")
    if page is not None:
        copy = page.partition("<defs>")[2].removesuffix("</defs></svg>")
        assert re.fullmatch(r'(?:<[A-Za-z]+(?: [\w-]+="[^"<>&=\\\'/]*")*>|</[A-Za-z]+>)*', copy)


@each(
    "href",
    ["../../x.svg", "/x.svg", "file:///x.svg", "../.courtly/x.svg", "x.svg/../../../y.svg"],
)  # fmt: skip
def test_it_reads_drawings_of_the_mirror_alone(href: str) -> None:
    files = Files()
    Symbols(files).shown(f'<svg><use href="{href}#a">'.encode(), "a.test/index.html")
    assert files.read_names == []
    assert drawings_used(f'<use href="{href}#a">'.encode(), "a.test/index.html") == []


@pytest.mark.parametrize(
    ("bound", "value"), [("DRAWING_BYTES_MAX", 99), ("COPIED_BYTES_MAX", 99), ("DRAWINGS_MAX", 0)]
)
def test_what_is_not_copied_is_logged(
    tmp_path: Path,
    make_page: MakePage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bound: str,
    value: int,
) -> None:
    sink = mirror(tmp_path)
    put(sink, make_page, "/", PAGE, "text/html")
    put(sink, make_page, "/icons.svg", ICON, "image/svg+xml")
    monkeypatch.setattr(f"crawler.sinks.symbols.{bound}", value)
    sink.close(threading.Event())
    (record,) = caplog.records
    assert "1 SVG elements" in record.getMessage()


@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        ('<g id="icon">', "<g>", ""),
        ('<g id="icon">', "<x/>", "</g>"),
        ("".join(f'<g id="i{n}">' for n in range(40)) + '<g id="icon"/>', "<x/>", "</g>" * 40),
    ],
    ids=["deep", "wide", "nested"],
)
def test_hostile_drawings_cost_little(before: str, unit: str, after: str) -> None:
    page = "<svg>" + "".join(f'<use href="icons.svg#i{n}"/>' for n in range(40)) + PAGE

    def drawing(size: int) -> str:
        count = size // len(unit)
        closed = "</g>" * count if unit == "<g>" else ""
        return f"{SVG}{before}{unit * count}{closed}{after}</svg>"

    assert_linear(lambda text: shown(text, page), drawing, 300_000)
    assert len(shown(drawing(2_000_000), page) or "") < 1_100_000
