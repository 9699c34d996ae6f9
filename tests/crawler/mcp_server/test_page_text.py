"""Pages as text, hostile ones included."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.embedding.response import Response
from crawler.mcp_server import main_text
from crawler.mcp_server import page_text as module
from crawler.mcp_server.arguments import Format
from crawler.mcp_server.page_text import NoTextError, PageText, page_text, visible_text
from crawler.mcp_server.tools import BYTES_MAX, KEPT_S, PAGES_MAX, KeptPage, PageMemory
from tests.tables import each


def response(body: str | bytes, kind: str | None = "text/html; charset=utf-8") -> Response:
    headers = CIMultiDict({} if kind is None else {"Content-Type": kind})
    return Response(
        url="https://a.test/", status=200, headers=CIMultiDictProxy(headers),
        body=body.encode() if isinstance(body, str) else body, elapsed_s=0.1,
    )  # fmt: skip


def text_of(
    body: str | bytes, wanted: Format = "markdown", kind: str | None = "text/html"
) -> PageText:
    return page_text(response(body, kind), wanted, ("bot",))


def test_visible_text_has_a_line_for_each_block() -> None:
    html = (
        "<head><title>t</title><style>p{}</style></head><nav><a>Home</a> <a>Shop</a></nav>"
        "<p>Hello <b>wor</b>ld,\nagain</p>after<table><tr><td>a<td>b<tr><td>c</table>"
        "<script>x()</script>"
    )
    lines = visible_text(html.encode(), "text/html").split("\n")
    assert lines == ["Home Shop", "Hello world, again", "after", "a b", "c"]


@each(
    "body",
    [
        "", "\0", "<", "<div>" * 5_000 + "x", "<b>x" * 3_000, "<p>" + "\U000e0041" * 10,
        "<table>" * 300, "<a href='//['>x</a>", "<a href=x>" * 600, b"\xff\xfe\xfd",
    ],
)  # fmt: skip
@each("wanted", ["markdown", "text", "html"])
def test_hostile_markup_yields_text(body: str | bytes, wanted: Format) -> None:
    text = text_of(body, wanted)
    assert "\0" not in text.text.for_model()
    assert "\U000e0041" not in text.text.for_model()


def test_only_the_beginning_of_large_markup_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MARKUP_CHARS_MAX", 2_000)
    words = "Otters live in rivers and eat fish. "
    text = text_of(f"<article><p>{words * 20}</p><p>{words * 100}THE END</p></article>")
    assert "THE END" not in text.text.for_model()
    assert any("first 2,000 characters" in note for note in text.notes)


def test_links_are_resolved_against_the_page() -> None:
    words = "Otters live in rivers, and eat fish, which they catch at night. " * 5
    body = (
        f"<main><p>{words}</p><p>{words} This paragraph has links "
        "to <a href='b.html'>b</a>, <a href='../c?x=1&amp;y=2#part'>c</a>, "
        "<a href='//d.test/'>d</a>, <a href='/e'>e</a>, to <a href='#top'>the top</a>, "
        "<a href='mailto:x@y.test'>mail</a> and <a href='javascript:f()'>script</a>.</p></main>"
    )
    page = Response(
        url="https://a.test/docs/v1/a.html",
        status=200,
        headers=CIMultiDictProxy(CIMultiDict({"Content-Type": "text/html"})),
        body=body.encode(),
        elapsed_s=0.1,
    )
    text = page_text(page, "markdown", ("bot",)).text.for_model()
    assert "to the top, mail and script." in text
    assert "[b](https://a.test/docs/v1/b.html)" in text
    assert "[c](https://a.test/docs/c?x=1&y=2#part)" in text
    assert "[d](https://d.test/)" in text
    assert "[e](https://a.test/e)" in text
    based = response(f"<base href='https://b.test/x/'>{body}")
    assert "[b](https://b.test/x/b.html)" in page_text(based, "markdown", ("bot",)).text.for_model()


LARGE = (
    "<main>" + "<p>Otters live in rivers, and eat fish. <a href='b'>b</a></p>" * 2_000 + "</main>"
)


def test_large_pages_are_searched_in_another_process() -> None:
    assert len(LARGE) > main_text.SMALL_CHARS
    text = text_of(LARGE)
    assert text.kind == "the main text in Markdown"
    assert text.text.for_model().count("[b](https://a.test/b)") == 2_000


def test_a_search_that_takes_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_text, "SEARCH_S", 0.01)
    text = text_of(LARGE)
    assert "Otters live in rivers" in text.text.for_model()
    assert text.notes == ("The page is too complex to find its main text.",)


def test_links_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINKS_SHOWN_MAX", 2)
    links = "".join(f"<a href=/{n}>{n}</a>" for n in range(5))
    text = text_of(f"<p>x{links}</p>", "text")
    assert text.text.for_model().count("](") == 2
    assert text.text.for_model().endswith("- and 3 more links")


@each(
    ("kind", "shown"),
    [
        ("text/plain", True), ("text/csv; charset=utf-8", True), ("application/json", True),
        ("application/problem+json", True), ("application/atom+xml", True), ("image/svg+xml", True),
        ("image/png", False), ("application/pdf", False), ("application/octet-stream", False),
        ("nonsense", False),
    ],
)  # fmt: skip
def test_types(kind: str, shown: bool) -> None:
    if shown:
        assert text_of("otter\x1b[31m", kind=kind).text.for_model() == "otter\ufffd[31m"
    else:
        with pytest.raises(NoTextError):
            text_of("otter", kind=kind)


def page(body_bytes: int, kept_s: float = 0.0) -> KeptPage:
    return KeptPage(response=response(b"x" * body_bytes), fetched_at=0.0, kept_s=kept_s)


def test_the_memory_is_bounded_and_forgets() -> None:
    memory = PageMemory()
    for n in range(PAGES_MAX + 1):
        memory.put(f"https://a.test/{n}", page(10))
    assert memory.get("https://a.test/0", 1.0) is None
    assert memory.get("https://a.test/1", 1.0) is not None
    assert memory.get("https://a.test/1", KEPT_S + 1) is None
    memory.put("https://a.test/big", page(BYTES_MAX - 5))
    assert memory.get("https://a.test/big", 1.0) is not None
    assert memory.get("https://a.test/9", 1.0) is None
    memory.put("https://a.test/bigger", page(BYTES_MAX + 1))
    assert memory.get("https://a.test/bigger", 1.0) is None
