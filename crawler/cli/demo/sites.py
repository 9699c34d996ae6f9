"""The small web that `courtly demo` crawls: one host for each situation that a crawler meets."""

from __future__ import annotations

import time
from dataclasses import replace

from crawler.testing import (
    LocalWeb,
    ReceivedRequest,
    Reply,
    Site,
    html,
    not_found,
    redirect,
    text,
)

PORTAL = "portal.test"  # the only seed
ROBOTS_DOWN_S = 1.5  # how long late.test's robots.txt is unavailable after its first request

# The rules are those of the examples on Slurp's help page: `*` matches any characters, `$` the end
# of the URL, a trailing `*` has no effect, and the longest matching rule wins.
SHOP_ROBOTS = """\
User-agent: SomeOtherBot
Disallow: /

User-agent: the Courtly-Demo robot  # contains our name, so this group applies to us
Allow: /public*/
Disallow: /*_print*.html   # any path with "_print" and then ".html"
Disallow: /*?sessionid
Disallow: /*.gif$          # /logo.gif, but not /logo.gif?size=2
Disallow: /private*

User-agent: *
Disallow: /sale/           # does not apply to us, because we have our own group
"""


def build(web: LocalWeb) -> dict[str, Site]:
    """The hosts of the demo on `web`, which is already serving (pages contain its port)."""
    sites: dict[str, Site] = {
        "library.test": _library(web),
        "shop.test": _shop(),
        "blog.test": _blog(),
        "late.test": _late(),
        "careful.test": _careful(),
        "slow.test": _slow(),
        "moved.test": _moved(web),
        "members.test": {
            "/robots.txt": text("# Members only.\nUser-agent: *\nDisallow: /\n"),
            "/": html("Members only"),
        },
        "garden.test": {
            "/": html("A garden with broken links", "/roses.html", "/hole.html", "/shed.html"),
            "/roses.html": html("Roses", "/"),
            "/hole.html": not_found(),
            "/shed.html": Reply(status=500, body="<title>Error</title>The shed has collapsed.\n"),
        },
        "busy.test": _busy(),
        "lunch.test": {
            "/": html("An office that is closed for lunch", "/desk.html"),
            "/desk.html": Reply(status=503, headers={"Retry-After": "3600"}),
        },
    }
    links = [
        *map(web.url, sites),
        f"http://gone.test:{web.dead_port}/",  # refuses connections
        "http://10.0.0.1/admin",  # a private address
        "https://outside.example/",  # excluded by scope.include
    ]
    return {PORTAL: {"/": html("A very small web", *links)}, **sites}


def _library(web: LocalWeb) -> Site:
    rare = "/rare/book.html?copy=1&edition=1"  # linked only by the sitemap
    pages: dict[str, Reply] = {
        "/robots.txt": text(
            "User-agent: *\nDisallow: /staff-only/\nDisallow: /search\n"
            f"Sitemap: {web.url('library.test', '/sitemap.xml')}\n"
        ),
        "/sitemap.xml": Reply(
            body="<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>"
            + web.url("library.test", rare.replace("&", "&amp;"))
            + "</loc><priority>0.9</priority></url></urlset>\n",
            content_type="application/xml",
        ),
        rare: html("A rare book"),
    }
    shelves = [f"/shelf/{shelf}/" for shelf in ("history", "maps", "poetry", "travel")]
    for shelf in shelves:
        books = [f"{shelf}book-{n}.html" for n in range(1, 6)]
        pages[shelf] = html("A shelf", *books, "/")
        pages |= {book: html("A book", "./") for book in books}
    pages["/"] = html("The library", *shelves, "/search?q=robots", "/staff-only/stacks.html")
    return pages


def _shop() -> Site:
    paths = [
        *(f"/item-{n}.html" for n in range(1, 7)), "/item-1_print.html", "/list_print_all.html",
        "/basket?sessionid=8f3a", "/public-offers/", "/private-sale/", "/sale/",
    ]  # fmt: skip
    return {
        "/robots.txt": text(SHOP_ROBOTS),
        "/": html("The shop", *paths, "/logo.gif", "/logo.gif?size=2"),
        "/logo.gif": Reply(body=b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", content_type="image/gif"),
        **{path: html("A teapot", "/") for path in paths},
    }


def _blog() -> Site:
    posts = [f"/2026/post-{n}.html" for n in range(1, 7)]
    noindex = '<meta name="robots" content="noindex">'
    nofollow = '<meta name="robots" content="nofollow">'
    return {
        "/robots.txt": text("User-agent: *\nDisallow:\n"),
        "/": html("A blog", *posts, "/tags.html", "/guests.html", "/notes.txt"),
        **{post: html("A post", "/") for post in posts},
        "/tags.html": html("Tags", "/tag/robots.html", head=noindex),
        "/tag/robots.html": html("Tag: robots", posts[0]),
        "/guests.html": html("Guest book", "/hidden-1.html", "/hidden-2.html", head=nofollow),
        "/hidden-1.html": html("Hidden"),
        "/hidden-2.html": html("Hidden"),
        "/notes.txt": Reply(
            body="Plain.\n", content_type="text/plain", headers={"X-Robots-Tag": "noindex"}
        ),
    }


def _late() -> Site:
    requested_s: list[float] = []

    def robots(_: ReceivedRequest) -> Reply:
        requested_s.append(time.monotonic())
        if requested_s[-1] - requested_s[0] < ROBOTS_DOWN_S:
            return text("Service unavailable\n", status=503)
        return text("User-agent: *\nDisallow: /staff/\n")

    paths = [f"/{room}/{n}.html" for n in range(1, 11) for room in ("public", "staff")]
    return {
        "/robots.txt": robots,
        "/": html("A site with a late robots.txt", *paths),
        **{path: html("A room", "/") for path in paths},
    }


def _careful() -> Site:
    paths = [f"/{n}.html" for n in range(1, 6)]
    return {
        "/robots.txt": text("User-agent: *\nCrawl-delay: 1.2\n"),
        "/": html("A site that asks for patience", *paths),
        **{path: html("Thank you") for path in paths},
    }


def _slow() -> Site:
    paths = [f"/{n}.html" for n in range(1, 5)]
    return {
        "/": html("A slow site, whose delay is its response time", *paths),
        **{path: replace(html("At last"), delay_s=0.6) for path in paths},
    }


def _moved(web: LocalWeb) -> Site:
    return {
        "/": html("A site that moved", "/old.html", "/older.html", "/round.html", "/stacks.html"),
        "/old.html": redirect("/new.html", status=301),
        "/older.html": redirect("/old.html", status=301),
        "/new.html": html("New"),
        "/round.html": redirect("/and-round.html"),
        "/and-round.html": redirect("/round.html"),
        # Redirects twice, to a page that the library's robots.txt disallows.
        "/stacks.html": redirect("/stacks-2.html"),
        "/stacks-2.html": redirect(web.url("library.test", "/staff-only/stacks.html")),
    }


def _busy() -> Site:
    refused: list[ReceivedRequest] = []

    def hours(request: ReceivedRequest) -> Reply:
        if refused:
            return html("Opening hours")
        refused.append(request)
        return Reply(status=429, headers={"Retry-After": "2"})

    return {"/": html("A busy site", "/hours.html"), "/hours.html": hours}
