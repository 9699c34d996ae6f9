# ruff: noqa: E501 - markup as pages write it
"""Hostile pages in a mirror, opened in a browser that has a network, make no request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler.sinks.mirror_paths import file_of
from crawler.sinks.references import ReferenceRole
from crawler.testing import LocalWeb, Reply, html

if TYPE_CHECKING:
    from tests.site.conftest import Courtly
    from tests.site.web.conftest import Browser

POLITE = {"delay": 0, "latency_factor": 0}
SVG = "http://www.w3.org/2000/svg"


def hostile(net: str) -> str:
    """Markup that makes a browser load something; `net` is a URL that ends in "/"."""
    deep = net.replace("http:", "ht\ttp:")
    return f"""<!DOCTYPE html><html manifest="{net}manifest"><head><base href="{net}base/">
<meta http-equiv=refresh content="0;url={net}refresh"><meta HTTP-EQUIV='Refresh' content='0 {net}r2'>
<noscript><p title="</noscript><meta http-equiv=refresh content='0;url={net}noscript'>"></noscript>
<svg><style><img title="</style><meta http-equiv=refresh content='0;url={net}mutation'>"></svg>
<link rel=preload as=image href="{net}preload" imagesrcset="{net}preloadset 1x">
<link rel="stylesheet alternate" href="{net}alternate"><link rel=stylesheet href="{net}style.css">
<link rel=icon href="{net}icon"><link rel=manifest href="{net}app"><link rel=prefetch href="{net}pf">
<style>@import "{net}i1";@\\69mport url({net}i2);@import url("{net}i3") layer(x);
p{{background:url({net}bg);background:\\75rl({net}bg2);background:image-set("{net}is" 1x)}}
div{{background:u\\72 l("{net}bg3");cursor:url({net}cur),auto;list-style:url({net}ls)}}
@font-face{{font-family:f;src:url({net}font)}} h1{{font-family:f}}</style>
<script src="{net}script"></script><script type=module>import "{net}module";</script>
<script type=speculationrules>{{"prefetch":[{{"urls":["{net}speculation"]}}]}}</script>
</head><body background="{net}body"><h1>x</h1><p style="background:url({deep}p)">x</p><div>x</div>
<table background="{net}table"><tr background="{net}tr"><th background="{net}th">x</table>
<svg><script href="{net}s1"></script><script xlink:href="{net}s2"></script>
<image href="{net}s3"/><image xlink:href="{net}s4"/><use href="{net}s5#x"/>
<feImage href="{net}s6"/><foreignObject><img src="{net}s7"></foreignObject>
<image><set attributeName=href to="{net}s8"/></image><a><animate attributeName=href values="{net}s9"/></a></svg>
<iframe src="{net}frame"></iframe><iframe srcdoc="<img src={net}srcdoc><script src={net}ss></script>
<meta http-equiv=refresh content='0;url={net}sr'><script>top.location='{net}top'</script>"></iframe>
<iframe src="javascript:'<img src={net}js>'"></iframe>
<iframe src="data:text/html,<img src={net}data><meta http-equiv=refresh content=0;url={net}dr>"></iframe>
<object data="{net}object"><param name=src value="{net}param"></object><embed src="{net}embed">
<object data="/picture.svg"></object><object data="/fake.png"></object><iframe src="/doc.xml"></iframe>
<iframe src="/drawing"></iframe><embed src="/odd.html"><iframe src="/away"></iframe>
<applet code=x codebase="{net}applet"></applet><input type=image src="{net}input">
<video poster="{net}poster" src="{net}video" autoplay></video><audio src="{net}audio" autoplay></audio>
<video><source src="{net}source"><track default src="{net}track"></video>
<picture><source srcset="{net}pic 1x"><img src="{net}img" srcset="{net}set 2x" lowsrc="{net}low"></picture>
<img src="{deep}tab"><img src="//{net.partition("//")[2]}scheme"><img src="\\\\{net.partition("//")[2]}back">
<form action="{net}form" id=f><button formaction="{net}fa"></button></form>
<template shadowrootmode=open><img src="{net}shadow"></template>
<a id=a href="{net}a" ping="{net}ping" target=_blank>a</a><math href="{net}math"><mtext><img src="{net}mi"></math>
<img src=x onerror="new Image().src='{net}onerror'">
<script>
fetch("{net}fetch").catch(()=>{{}}); navigator.sendBeacon("{net}beacon"); new Image().src="{net}image";
try {{ new WebSocket("{net.replace("http", "ws")}ws") }} catch {{}}
try {{ new EventSource("{net}es") }} catch {{}}
try {{ new Worker("{net}worker") }} catch {{}}
const add = (tag, of) => document.body.append(Object.assign(document.createElement(tag), of));
add("img", {{src: "{net}d1"}}); add("iframe", {{src: "{net}d2"}}); add("script", {{src: "{net}d3"}});
add("link", {{rel: "stylesheet", href: "{net}d4"}}); add("object", {{data: "{net}d5"}});
open("{net}open"); setTimeout(() => a.click(), 50); setTimeout(() => f.submit(), 100);
setTimeout(() => {{ location = "{net}location" }}, 150); setTimeout(() => location.replace("{net}lr"), 200);
</script></body></html>"""


def drawing(net: str, prefix: str = "") -> str:
    return f"""<?xml version="1.0"?><?xml-stylesheet href="{net}{prefix}xs"?>
<!DOCTYPE svg [<!ENTITY e "{net}{prefix}entity"><!ATTLIST image href CDATA "{net}{prefix}attlist">]>
<svg xmlns="{SVG}" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:h="http://www.w3.org/1999/xhtml">
<style>@import url({net}{prefix}import); rect {{ fill: url({net}{prefix}fill#a) }}</style>
<style><![CDATA[rect {{ mask: \\75rl({net}{prefix}mask) }}]]></style>
<style><x/>@import "htt<!-- -->p:/<![CDATA[/]]>{net[7:]}{prefix}pieces";</style>
<script href="{net}{prefix}script"/><script>fetch("{net}{prefix}fetch")</script>
<image href="{net}{prefix}image" width="9" height="9"/><image href="&e;"/><image/>
<image xlink:href="ht&#9;tp:{net[5:]}{prefix}tab"/><use href="{net}{prefix}use#x"/>
<image><set attributeName="href" to="{net}{prefix}set"/></image><rect style="fill:url('{net}{prefix}st')"/>
<foreignObject><h:img src="{net}{prefix}himg"/><h:iframe src="{net}{prefix}hif"/></foreignObject>
<h:script src="{net}{prefix}hs"/><h:link rel="stylesheet" href="{net}{prefix}hl"/>
<rect width="9" height="9" onload="fetch('{net}{prefix}onload')"/><text>kept</text></svg>"""


def document(net: str) -> str:
    return f"""<?xml version="1.0"?><?xml-stylesheet type="text/xsl" href="{net}xsl"?>
<!DOCTYPE r [<!ENTITY x "<image xmlns='{SVG}' href='{net}xe'/>">]>
<r xmlns:h="http://www.w3.org/1999/&#120;html"><h:img src="{net}xi"/><h:script src="{net}xj"/>
<svg xmlns="{SVG}"><image href="{net}xk"/></svg>&x;<item href="http://kept.test/">kept</item></r>"""


def site(net: str) -> dict[str, Any]:
    links = "/hostile", "/picture.svg", "/doc.xml", "/fake.png", "/drawing", "/odd.html", "/tangled"
    return {
        "/": html("Home", *links, "/utf16.svg", "/away"),
        "/hostile": Reply(body=hostile(net)),
        "/tangled": Reply(body="<b><i>" * 5_000 + hostile(net)),
        "/picture.svg": Reply(body=drawing(net), content_type="image/svg+xml"),
        "/utf16.svg": Reply(body=drawing(net, "u").encode("utf-16"), content_type="image/svg+xml"),
        "/drawing": Reply(body=drawing(net, "x"), content_type="application/xml"),
        "/doc.xml": Reply(body=document(net), content_type="application/xml"),
        "/fake.png": Reply(body=hostile(net), content_type="image/png"),
        "/odd.html": Reply(body=hostile(net), content_type="application/pdf"),
        "/away": Reply(status=302, headers={"Location": net + "away"}),
    }  # fmt: skip


async def look_at(browser: Browser, file: Path) -> None:
    """Wait until everything that scripts could have deferred would have happened."""
    tab = await browser.tab()
    await tab.goto(file.as_uri())
    await tab.js("new Promise((done) => setTimeout(done, 400))")


async def test_a_mirror_asks_the_network_for_nothing(
    courtly: Courtly, browser: Browser, tmp_path: Path
) -> None:
    folder = courtly.sink("mirror", "mirror", requisites=False)
    pages: dict[str, Any] = {}
    async with LocalWeb({"a.test": lambda asked: pages.get(asked.path, Reply(status=404))}) as web:
        net = web.url("127.0.0.1", "/net/")
        pages |= site(net)
        await courtly.crawl(web, "a.test", politeness=POLITE, scope={"follow": "host"})

        def file(path: str, role: ReferenceRole = ReferenceRole.PAGE) -> Path:
            return folder / file_of(web.url("a.test", path), role)

        files = [
            file("/hostile"), file("/picture.svg", ReferenceRole.PART), file("/doc.xml", ReferenceRole.PART),
            file("/odd.html"), file("/tangled"), file("/utf16.svg", ReferenceRole.PART), file("/away"),
            file("/drawing", ReferenceRole.PART).with_suffix(".xml"),
        ]  # fmt: skip
        for one in files:
            assert one.is_file(), one
        for one in files:
            web.log.clear()
            await look_at(browser, one)
            assert web.log.paths() == [], one
        # Without a mirror it asks for much.
        bare = tmp_path / "bare.html"
        bare.write_text(hostile(net).replace("refresh", "fresh").replace("location", "l"))
        web.log.clear()
        tab = await browser.tab()
        await tab.goto(bare.as_uri())
        async with asyncio.timeout(20):
            while len(web.log) <= 10:  # noqa: ASYNC110 - a browser, in real time
                await asyncio.sleep(0.05)
        assert "kept" in file("/picture.svg", ReferenceRole.PART).read_text()
        assert "http://kept.test/" in file("/doc.xml", ReferenceRole.PART).read_text()
