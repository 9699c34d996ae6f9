"""The small web that `courtly demo` serves and crawls: one host for each thing a crawler meets."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from html import escape

from crawler.testing import LocalWeb, ReceivedRequest, Reply, Site, not_found, redirect, text

PORTAL = "portal.test"  # the one seed; everything is found from here
ROBOTS_DOWN_S = 1.5  # for so long after it is first asked, late.test cannot give its robots.txt

# Its rules are those of the Slurp help page's examples: `*` is any sequence of characters, `$` the
# end of the URL, a trailing `*` says nothing, and the longest matching rule wins.
SHOP_ROBOTS = """\
User-agent: SomeOtherBot
Disallow: /

User-agent: the Courtly-Demo robot  # contains our name: the first such record is ours
Allow: /public*/
Disallow: /*_print*.html   # anything with "_print" and then ".html"
Disallow: /*?sessionid
Disallow: /*.gif$          # /logo.gif, and not /logo.gif?size=2
Disallow: /private*

User-agent: *
Disallow: /sale/           # not for us: we have a record of our own
"""

LATE_ROBOTS = """\
User-agent: *
Disallow: /staff/
"""


def build(web: LocalWeb) -> None:
    """Put the demo's hosts on `web`, which is serving already (pages carry its port)."""
    for make in (
        _portal,
        _library,
        _shop,
        _blog,
        _late,
        _careful,
        _slow,
        _moved,
        _members,
        _garden,
        _busy,
    ):
        web.sites.update(make(web))


def _portal(web: LocalWeb) -> Mapping[str, Site]:
    links = {
        "The library": web.url("library.test"),
        "The shop": web.url("shop.test"),
        "A blog": web.url("blog.test"),
        "A site whose robots.txt comes late": web.url("late.test"),
        "A site that asks for patience": web.url("careful.test"),
        "A slow site": web.url("slow.test"),
        "A site that has moved things": web.url("moved.test"),
        "Members only": web.url("members.test"),
        "A garden with broken links": web.url("garden.test"),
        "A site that is busy": web.url("busy.test"),
        "A site that is out for lunch": web.url("lunch.test"),
        "A site that is gone": f"http://gone.test:{web.dead_port}/",
        "A machine of a private network": "http://10.0.0.1/admin",
        "The rest of the world (scope.include leaves it out)": "https://outside.example/",
    }
    return {PORTAL: {"/": _page("A very small web", "One host for each thing you meet.", links)}}


def _library(web: LocalWeb) -> Mapping[str, Site]:
    shelves = ("history", "maps", "poetry", "travel")
    pages: dict[str, Reply | Callable[[ReceivedRequest], Reply]] = {
        "/robots.txt": text(
            "User-agent: *\nDisallow: /staff-only/\nDisallow: /search\n"
            f"Sitemap: {web.url('library.test', '/sitemap.xml')}\n"
        ),
        # the only way to the rare book
        "/sitemap.xml": Reply(
            body="<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>"
            + web.url("library.test", "/rare/book.html?copy=1&edition=1")
            + "</loc><priority>0.9</priority></url></urlset>\n",
            content_type="application/xml",
        ),
        "/rare/book.html?copy=1&edition=1": _page("A rare book", "Only the sitemap has it.", {}),
        "/": _page(
            "The library",
            "Four shelves, five books on each.",
            {
                **{f"The {shelf} shelf": f"/shelf/{shelf}/" for shelf in shelves},
                "Search the catalogue": "/search?q=robots",
                "The stacks": "/staff-only/stacks.html",
            },
        ),
    }
    for shelf in shelves:
        books = {f"{shelf.title()}, volume {n}": f"book-{n}.html" for n in range(1, 6)}
        pages[f"/shelf/{shelf}/"] = _page(f"The {shelf} shelf", "In order.", books | {"Home": "/"})
        for title, file in books.items():
            pages[f"/shelf/{shelf}/{file}"] = _page(title, "A quiet book.", {"Back": "./"})
    return {"library.test": pages}


def _shop(web: LocalWeb) -> Mapping[str, Site]:
    items = {f"Teapot no. {n}": f"/item-{n}.html" for n in range(1, 7)}
    other = {
        "For printing": "/item-1_print.html",
        "The list, for printing": "/list_print_all.html",
        "Your basket": "/basket?sessionid=8f3a",
        "Our logo": "/logo.gif",
        "Our logo, small": "/logo.gif?size=2",
        "Offers": "/public-offers/",
        "Private sale": "/private-sale/",
        "The sale": "/sale/",
    }
    pages = {
        href: _page(title, "Holds a litre.", {"Home": "/"})
        for title, href in {**items, **other}.items()
        if not href.startswith("/logo.gif")
    }
    pages["/"] = _page("The shop", "Teapots.", {**items, **other})
    pages["/logo.gif"] = Reply(
        body=b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", content_type="image/gif"
    )
    return {"shop.test": {**pages, "/robots.txt": text(SHOP_ROBOTS)}}


def _blog(web: LocalWeb) -> Mapping[str, Site]:
    posts = {f"Post {n}": f"/2026/post-{n}.html" for n in range(1, 7)}
    hidden = _page("Hidden", "Only a nofollow page links here.", {})
    return {
        "blog.test": {
            "/robots.txt": text("User-agent: *\nDisallow:\n"),
            "/": _page(
                "A blog",
                "About robots.",
                {
                    **posts,
                    "Tags": "/tags.html",
                    "Guest book": "/guests.html",
                    "Notes": "/notes.txt",
                },
            ),
            **{href: _page(title, "Words.", {"Home": "/"}) for title, href in posts.items()},
            # read for its links, kept out of indexes
            "/tags.html": _page(
                "Tags",
                "A page of links.",
                {"robots": "/tag/robots.html"},
                head='<meta name="robots" content="noindex">',
            ),
            "/tag/robots.html": _page("Tag: robots", "One post.", {"Post 1": "/2026/post-1.html"}),
            # indexed, its links left alone
            "/guests.html": _page(
                "Guest book",
                "Anybody may write here.",
                {"buy now": "/hidden-1.html", "cheap": "/hidden-2.html"},
                head='<meta name="robots" content="nofollow">',
            ),
            "/hidden-1.html": hidden,
            "/hidden-2.html": hidden,
            "/notes.txt": Reply(
                body="Plain.\n", content_type="text/plain", headers={"X-Robots-Tag": "noindex"}
            ),
        }
    }


def _late(web: LocalWeb) -> Mapping[str, Site]:
    first_asked_s: list[float] = []

    def robots(_: ReceivedRequest) -> Reply:
        first_asked_s.append(time.monotonic())
        if first_asked_s[-1] - first_asked_s[0] < ROBOTS_DOWN_S:
            return text("Service unavailable\n", status=503)
        return text(LATE_ROBOTS)

    names = [f"/{room}/{n}.html" for n in range(1, 11) for room in ("public", "staff")]
    links = {f"Room {name}": name for name in names}
    return {
        "late.test": {
            "/robots.txt": robots,
            "/": _page("A site that was down", "Half of it is for staff.", links),
            **{name: _page(f"Room {name}", "A room.", {"Home": "/"}) for name in names},
        }
    }


def _careful(web: LocalWeb) -> Mapping[str, Site]:
    links = {f"Page {n}": f"/{n}.html" for n in range(1, 6)}
    return {
        "careful.test": {
            "/robots.txt": text("User-agent: *\nCrawl-delay: 1.2\n"),
            "/": _page("Please take your time", "Crawl-delay: 1.2", links),
            **{href: _page(title, "Thank you.", {}) for title, href in links.items()},
        }
    }


def _slow(web: LocalWeb) -> Mapping[str, Site]:
    links = {f"Page {n}": f"/{n}.html" for n in range(1, 5)}
    return {
        "slow.test": {
            "/": _page("A slow site", "It is left alone for as long as it took.", links),
            **{href: _page(title, "At last.", {}, delay_s=0.6) for title, href in links.items()},
        }
    }


def _moved(web: LocalWeb) -> Mapping[str, Site]:
    return {
        "moved.test": {
            "/": _page(
                "We have moved things",
                "",
                {
                    "Old news": "/old.html",
                    "Twice moved": "/older.html",
                    "Round and round": "/round.html",
                    "The stacks": "/stacks.html",
                },
            ),
            "/old.html": redirect("/new.html", status=301),
            "/older.html": redirect("/old.html", status=301),
            "/new.html": _page("New", "Here it is.", {}),
            "/round.html": redirect("/and-round.html"),
            "/and-round.html": redirect("/round.html"),
            # leads, by way of another redirect, to what the library's robots.txt disallows
            "/stacks.html": redirect("/stacks-2.html"),
            "/stacks-2.html": redirect(web.url("library.test", "/staff-only/stacks.html")),
        }
    }


def _members(web: LocalWeb) -> Mapping[str, Site]:
    return {
        "members.test": {
            "/robots.txt": text("# Members only.\nUser-agent: *\nDisallow: /\n"),
            "/": _page("Members only", "Nobody of us will ever read this.", {}),
        }
    }


def _garden(web: LocalWeb) -> Mapping[str, Site]:
    return {
        "garden.test": {
            "/": _page(
                "The garden",
                "Some paths lead nowhere.",
                {"Roses": "/roses.html", "A hole": "/hole.html", "The shed": "/shed.html"},
            ),
            "/roses.html": _page("Roses", "Red.", {"Home": "/"}),
            "/hole.html": not_found(),
            "/shed.html": Reply(status=500, body="<title>Oh</title>The shed has fallen in.\n"),
        }
    }


def _busy(web: LocalWeb) -> Mapping[str, Site]:
    refused: list[ReceivedRequest] = []

    def once_too_busy(asked: ReceivedRequest) -> Reply:
        if refused:
            return _page("Opening hours", "Thank you for coming back.", {})
        refused.append(asked)
        return Reply(status=429, headers={"Retry-After": "2"})

    return {
        "busy.test": {
            "/": _page("A busy site", "429 at first.", {"Opening hours": "/hours.html"}),
            "/hours.html": once_too_busy,
        },
        "lunch.test": {
            "/": _page("A small office", "At times there is nobody.", {"The desk": "/desk.html"}),
            "/desk.html": Reply(status=503, headers={"Retry-After": "3600"}),
        },
    }


def _page(
    title: str, words: str, links: Mapping[str, str], *, head: str = "", delay_s: float = 0.0
) -> Reply:
    items = "\n".join(
        f'    <li><a href="{escape(href)}">{escape(name)}</a></li>' for name, href in links.items()
    )
    return Reply(
        delay_s=delay_s,
        body=f"""<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <title>{escape(title)}</title>{head}
</head>
<body>
  <h1>{escape(title)}</h1>
  <p>{escape(words)}</p>
  <ul>
{items}
  </ul>
</body>
</html>
""",
    )
