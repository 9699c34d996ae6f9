# ruff: noqa: E501 - markup as pages write it
"""A page with one reference of each kind, displayed from a mirror without a network."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole
from crawler.testing import LocalWeb, ReceivedRequest, Reply, redirect

if TYPE_CHECKING:
    from tests.site.conftest import Courtly
    from tests.site.web.conftest import Browser

POLITE = {"delay": 0, "latency_factor": 0}
SVG = "http://www.w3.org/2000/svg"


def png(width: int) -> bytes:
    """An image that is recognized by its width."""
    rows = b"".join(b"\0" + b"\x80" * 3 * width for _ in range(2))

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    head = struct.pack(">IIBBBBB", width, 2, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


# Each shows a picture of its own; the class says how wide it is.
PAGE = """<!-- before --><!DOCTYPE html><html><head><meta charset=iso-8859-1>
<title>Kinds</title><base href="/deep/"><link rel=stylesheet href="link.css">
<link rel="alternate stylesheet" title=x href=other.css>
<link rel="shortcut icon" href=icon.png><link rel=apple-touch-icon href=touch.png>
<link rel=manifest href=app.webmanifest>
<link rel=preload as=image href=never.png imagesrcset="preloaded.png 1x">
<link rel=preload as=style href=late.css onload="this.rel='stylesheet'">
<style>@import "i1.css"; @\\69mport url(i2.css); @import/**/url( 'i3.css' ) screen;
@import url("i4.css") supports(display: grid) all;
@font-face { font-family: own; src: url(own.eot?#iefix) format("embedded-opentype"), url(own.woff2) }</style>
</head><body background="/body.png"><h1>Kinds</h1>
<img class=w11 src="11.png"><img class=w12 srcset="12.png 1x"><img class=w13 src=no.png srcset="13.png?a,b 1x, no.png 9x">
<picture><source srcset="14.png" type="image/png"><img class=w14 src=no.png></picture>
<img class=w15 src="&#47;%31%35.png"><img class=w16 src="
 16.png "><img class=w17 src=17><img class=w18 src=//b.test:PORT/18.png crossorigin integrity=x>
<img class=w19 src="moved.png"><img class=w20 src="20.php?x=1&amp;y=2"><img class=w21 loading=lazy src="BIG/21.PNG">
<img class=w22 src="22.svg"><img class=w23 src="badge/23"><img class=w24 src="d\xfcrer.png?q=\xfc">
<svg width=10 height=10><image class=svg href="s1.png" width=5 height=5 /><image class=svg xlink:href="s2.png" width=5 height=5></image>
<filter id=f><feImage href="s3.png" xlink:href="s4.png"/></filter><rect width=5 height=5 fill="url(#g)" filter="url(#f)" />
<use class=use href="sprite.svg#box"/><use class=use xlink:href="sprite.svg#box"></use><use href="#own"/><g id=own></g>
<a xlink:href="/page2">a</a></svg>
<table background=table.png><tr><td background=td.png>x</table>
<input class=input type=image src=input.png><object class=object data=object.png></object><embed class=embed src=embed.png>
<object class=objectsvg data="22.svg" type="image/svg+xml"></object>
<video poster=poster.png src=none.mp4><track src=t.vtt></video><audio><source src=none.ogg></audio>
<iframe class=frame src="/frame.html"></iframe>
<iframe class=srcdoc srcdoc="<style>p{color:rgb(1,1,9)}</style><p>x<img src='doc.png'><a href=&quot;/page2#x&amp;y&quot;>2</a><iframe srcdoc='&lt;img src=inner.png>'></iframe>"></iframe>
<p id=attr style="background:url(&quot;attr.png&quot;)">x</p><p id=c1>x</p><p id=c2>x</p><p id=c3>x</p><p id=c4>x</p><p id=c5>x</p>
<p id=i1>x</p><p id=i2>x</p><p id=i3>x</p><p id=i4>x</p><p id=late>x</p><p style="font-family: own">own</p>
<a id=two href="/page2#part">2</a><a id=self href="#part">here</a>
<map><area href="/page2"></map><noscript><img src=noscript.png></noscript>
<template><img src=template.png></template></body></html>"""
LINKED = """@charset "utf-8"; @import "chain/one.css"; @namespace svg url(http://www.w3.org/2000/svg);
#c1 { background: image-set("c1.png" 1x, url(no.png) 9x) } #c2 { background: -webkit-image-set(url(c2.png) 1x) }
#c3 { background: u\\72l(c3.png) } #c4 { background: url(c\\34 .png) } #c5 { background: url( "c\\35.png" ); content: "url(text.png)" }
/* url(comment.png) */ svg|rect { stroke: rgb(7, 7, 7) }"""
DRAWING = f'<svg xmlns="{SVG}" xmlns:xlink="http://www.w3.org/1999/xlink" width="22" height="9"><image href="inside.png" width="5" height="5"/><a xlink:href="/page2"><rect width="5" height="5"/></a></svg>'
BADGE = f'<svg xmlns="{SVG}" width="23" height="9"/>'
SPRITE = f'<svg xmlns="{SVG}"><symbol id="box" viewBox="0 0 9 9"><rect id="r" width="7" height="7" fill="red"/></symbol></svg>'
IMAGES = (
    "12.png", "14.png", "16.png", "preloaded.png", "never.png", "icon.png", "touch.png",
    "s1.png", "s2.png", "s3.png", "s4.png", "input.png", "object.png", "embed.png", "poster.png",
    "doc.png", "inner.png", "attr.png", "inside.png", "table.png", "td.png", "11.png",
    "noscript.png", "template.png",
)  # fmt: skip


def site(web_port: int) -> dict[str, Any]:
    def image(name: str) -> Reply:
        digits = "".join(c for c in name if c.isdigit())
        return Reply(body=png(int(digits or 9)), content_type="image/png")

    def css(text: str) -> Reply:
        return Reply(body=text, content_type="text/css")

    pages: dict[str, Any] = {f"/deep/{name}": image(name) for name in IMAGES}
    pages["/15.png"] = image("15")
    pages["/body.png"] = image("8")
    pages |= {
        "/": Reply(body=PAGE.replace("PORT", str(web_port)).encode("latin-1"), content_type="text/html"),
        "/page2": Reply(body="<title>2</title><p id=part>2"),
        "/frame.html": Reply(body="<p>frame</p>"),
        "/deep/13.png?a,b": image("13"), "/deep/17": image("17"),
        "/deep/moved.png": redirect("/hop.png"), "/hop.png": redirect("/19.png"), "/19.png": image("19"),
        "/deep/20.php?x=1&y=2": image("20"), "/deep/BIG/21.PNG": image("21"),
        "/deep/d%C3%BCrer.png?q=%FC": image("24"),
        "/deep/22.svg": Reply(body=DRAWING, content_type="image/svg+xml"),
        "/deep/badge/23": Reply(body=BADGE, content_type="image/svg+xml;charset=utf-8"),
        "/deep/sprite.svg": Reply(body=SPRITE, content_type="image/svg+xml"),
        "/deep/link.css": redirect("/styles/real.css"), "/styles/real.css": css(LINKED),
        "/styles/chain/one.css": css('@import url("../two") all;'), "/styles/two": css("#two { color: rgb(2, 2, 2) }"),
        "/deep/other.css": css("h1 { color: red }"),
        "/deep/late.css": css("#late { color: rgb(5, 5, 5) }"),
        "/deep/app.webmanifest": Reply(body='{"icons": [{"src": "m.png"}]}', content_type="application/manifest+json"),
        "/deep/m.png": image("9"),
        "/deep/own.woff2": Reply(body=b"wOF2", content_type="font/woff2"),
    }  # fmt: skip
    for n in range(1, 6):
        pages[f"/styles/c{n}.png"] = image(f"{n}")
    for n in range(1, 5):
        pages[f"/deep/i{n}.css"] = css(f"#i{n} {{ color: rgb({n}, {n}, {n}) }}")
    return pages


LOOK = """(async () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  for (const one of all("img")) one.loading = "eager";
  await new Promise((done) => setTimeout(done, 500));
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  const inner = document.querySelector(".srcdoc").contentDocument;
  return {
    mode: document.compatMode,
    images: Object.fromEntries(all("img[class]").map((one) => [one.className, one.naturalWidth])),
    sizes: Object.fromEntries(all(".input, .object, .embed").map((one) => [one.className, one.getBoundingClientRect().width])),
    uses: all("use.use").map((one) => one.getBoundingClientRect().width > 0),
    drawing: document.querySelector(".objectsvg").getBoundingClientRect().width,
    colors: Object.fromEntries(["#i1", "#i2", "#i3", "#i4", "#two", "#late", "h1"].map((one) => [one, style(one).color])),
    backgrounds: ["body", "table", "td", "#attr", "#c1", "#c2", "#c3", "#c4", "#c5"].map((one) => style(one).backgroundImage),
    frame: document.querySelector(".frame").src,
    inner: [inner.images[0].naturalWidth, inner.querySelector("a").href, inner.querySelector("iframe").contentDocument.images[0].naturalWidth],
    innerColor: getComputedStyle(inner.querySelector("p")).color,
    links: all("#two, #self, area").map((one) => one.href),
  };
})()"""


async def test_a_mirror_shows_what_the_page_showed(courtly: Courtly, browser: Browser) -> None:
    folder = courtly.sink("mirror", "mirror")
    pages: dict[str, Any] = {}
    other = {"/18.png": Reply(body=png(18), content_type="image/png")}

    def answer(asked: ReceivedRequest) -> Reply:
        found: Reply = pages.get(asked.path, Reply(status=404))
        return found

    async with LocalWeb({"a.test": answer, "b.test": other}) as web:
        pages |= site(web.port)
        await courtly.crawl(web, "a.test", politeness=POLITE)
        asked = web.log.paths("a.test")
        unasked = [path for path in pages if path not in asked]
        assert unasked == [], unasked
        web.log.clear()
        tab = await browser.tab()
        home = folder / file_of(web.url("a.test"), ReferenceRole.PAGE)
        await tab.goto(home.as_uri())
        seen = await tab.js(LOOK)
        assert web.log.paths() == [], "nothing is asked of the network"

    def file(path: str) -> str:
        return (folder / file_of(web.url("a.test", path), ReferenceRole.PAGE)).as_uri()

    assert seen["mode"] == "CSS1Compat", "the document type comes first"
    wrong = {name: width for name, width in seen["images"].items() if name != f"w{width}"}
    assert wrong == {}
    assert seen["sizes"] == {"input": 9, "object": 9, "embed": 9}
    assert seen["drawing"] == 22
    assert seen["uses"] == [True] * 2, "symbols are copied into the page"
    colors = {f"#i{n}": f"rgb({n}, {n}, {n})" for n in range(1, 5)}
    others = {"#two": "rgb(2, 2, 2)", "#late": "rgb(5, 5, 5)", "h1": "rgb(0, 0, 0)"}
    assert seen["colors"] == colors | others
    for background in seen["backgrounds"]:
        leads_to = background.removeprefix("image-set(").partition('"')[2].partition('"')[0]
        assert leads_to.startswith(folder.as_uri()), background
    assert seen["frame"] == file("/frame.html")
    assert seen["inner"] == [9, file("/page2") + "#x&y", 9]
    assert seen["innerColor"] == "rgb(1, 1, 9)"
    assert seen["links"] == [
        file("/page2") + "#part",
        web.url("a.test", "/deep/#part"),
        file("/page2"),
    ]
    missing = [error for error in tab.errors if "ERR_FILE_NOT_FOUND" in error]
    assert len(missing) <= 4, tab.errors  # never.png's like: what the site itself does not have
