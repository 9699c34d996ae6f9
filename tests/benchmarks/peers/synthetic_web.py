"""The synthetic web that the crawlers of `compare.py` crawl: static files, and what a crawl of
them must find.

A host is an address, `127.N.x.y`, so that no crawler needs a resolver. A page has 20 to 30 KB and
about 52 links, 46 of them distinct, four fifths to its own host. Every allowed page is reachable.
One page in ten lies under `/private/`, which most hosts forbid, in one of several ways. Four
redirects and one dead link a host, a `<base>`, and links in comments and scripts, which are none,
make it less regular.
"""

from __future__ import annotations

import html
import json
import posixpath
import random
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

# The second byte of the addresses, the number of hosts, and the pages of each.
SIZES: Final = {"small": (1, 20, 100), "medium": (2, 200, 100), "large": (3, 1000, 100)}
SYLLABLES: Final = (
    "ka", "to", "ri", "mo", "ne", "su", "la", "pe", "di", "gra",
    "ston", "ver", "ing", "tal", "mar", "cor", "ent", "pro", "lis", "bed",
)  # fmt: skip


class Site(NamedTuple):
    """A web in a folder: `www` for the server; `seeds` and `expected` have one URL a line."""

    www: Path
    seeds: Path
    expected: Path


def write_site(folder: Path, size: str, port: int) -> Site:
    """Write the web of a size, the same for each call, or keep the one that is there."""
    site = Site(folder / "www", folder / "seeds.txt", folder / "expected.txt")
    if site.expected.exists():  # it is written last
        return site
    net, n_hosts, n = SIZES[size]
    hosts = [f"127.{net}.{i // 250}.{i % 250 + 1}" for i in range(n_hosts)]
    paragraphs = _paragraphs(random.Random(1))
    expected = []
    for i, host in enumerate(hosts):
        robots, allows = _robots(i, n)
        if robots is not None:
            _write(site.www / host / "robots.txt", robots)
        rng = random.Random(f"{i} of {size}")
        for k in range(n):
            path = path_of(k, n)
            page = _page(rng, paragraphs, (host, k, n), hosts, port)
            _write(site.www / host / _file_of(path), page)
            if allows(path):
                expected.append(f"http://{host}:{port}{path}\n")
    site.seeds.write_text("".join(f"http://{host}:{port}/\n" for host in hosts))
    site.expected.write_text("".join(expected))
    return site


def path_of(k: int, n: int) -> str:
    """Return the path of page k of n: its position decides its shape."""
    percent = k * 100 // n
    if k == 0:
        return "/"
    if percent < 70:
        return f"/s{k % 7}/page-{k}.html"
    if percent < 85:
        return f"/list?cat={k % 5}&page={k}"
    return f"/deep/{k}/" if percent < 90 else f"/private/page-{k}.html"


def _file_of(path: str) -> str:
    name = path[1:].replace("?", "@")  # as the server's configuration looks it up
    return name + "index.html" if path.endswith("/") else name


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _robots(i: int, n: int) -> tuple[str | None, Callable[[str], bool]]:
    """Return the robots.txt of host i (None: 404), and whether it allows a path."""
    kind = i % 10
    if kind <= 6:
        delay = "Crawl-delay: 0\n" if kind >= 5 else ""
        rules = f"User-agent: *\n{delay}Disallow: /private/\n"
        return rules, lambda path: not path.startswith("/private/")
    if kind == 7:
        kept = f"/private/page-{n - 1}.html"
        rules = (
            "# a longer file\nUser-agent: BadBot\nDisallow: /\n\nUser-agent: *\n"
            f"Allow: {kept}\nDisallow: /private/\nDisallow: /*.pdf$\n\nSitemap: /sitemap.xml\n"
        )
        return rules, lambda path: path == kept or not path.startswith("/private/")
    return None if kind == 8 else "", lambda path: True


def _paragraphs(rng: random.Random) -> list[str]:
    words = [
        "".join(rng.choice(SYLLABLES) for _ in range(rng.choice((1, 2, 2, 3, 3, 4))))
        for _ in range(3000)
    ]
    return [
        " ".join(_word(rng, words) for _ in range(rng.randint(50, 110))) + "." for _ in range(600)
    ]


def _word(rng: random.Random, words: list[str]) -> str:
    word = words[min(int(rng.paretovariate(0.7)), len(words)) - 1]
    chance = rng.random()
    if chance < 0.02:
        return f"<em>{word}</em>"
    if chance < 0.035:
        return f'<strong class="k">{word}</strong>'
    if chance < 0.045:
        return word + " &amp; &eacute;t&eacute;"
    return (
        f'<span class="hl" data-id="{rng.randint(1, 9999)}">{word}</span>'
        if chance < 0.05
        else word
    )


def _href(rng: random.Random, base: str, host: str, target: tuple[str, str], port: int) -> str:
    """Return one of the spellings of a link to (host, path), escaped."""
    other, path = target
    way = rng.random()
    if other != host or 0.25 <= way < 0.40:
        url = f"http://{other}:{port}{path}"
    elif way < 0.25:
        name, mark, query = path.partition("?")
        url = posixpath.relpath(name, base) + "/" * name.endswith("/") + mark + query
    elif way < 0.45:
        url = f"//{host}:{port}{path}"
    else:
        url = f"/x/..{path}" if way < 0.52 else path
    return html.escape(url + (f"#sec-{rng.randint(1, 9)}" if rng.random() < 0.15 else ""))


def _links(
    rng: random.Random, page: tuple[str, int, int], base: str, hosts: list[str], port: int
) -> list[str]:
    """Return the hrefs of a page; the first six are its navigation."""
    host, k, n = page
    allowed = n - n // 10
    targets = [(host, j) for j in range(6)]
    targets += [(host, (k + 1) % allowed)] * 2  # so that every page is reachable
    targets += [(host, int(allowed * rng.random() ** 1.5)) for _ in range(26)]
    targets += [(host, allowed + rng.randrange(n - allowed)) for _ in range(2)]
    targets += [(other, 0) for other in rng.sample(hosts, 4)]
    targets += [(other, rng.randrange(n)) for other in rng.sample(hosts, 6)]
    if k == 0:
        targets += [(host, j) for j in range(allowed, n)]
    links = [_href(rng, base, host, (other, path_of(j, n)), port) for other, j in targets]
    if k % 25 == 3:
        links.append("/r" + html.escape(path_of(1 + rng.randrange(n // 2), n)))  # redirected
    if k == 7:
        links.append("/dead/gone.html")
    return links + rng.sample(links[6:], 4)


def _page(
    rng: random.Random,
    paragraphs: list[str],
    page: tuple[str, int, int],
    hosts: list[str],
    port: int,
) -> str:
    host, k, n = page
    base = "/s6" if k == 13 else posixpath.dirname(path_of(k, n).partition("?")[0])
    links = _links(rng, page, base, hosts, port)
    menu, rest = links[:6], links[6:]
    rng.shuffle(rest)
    data = json.dumps({"@type": "Article", "name": f"page {k}", "id": k})
    out = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<base href="/s6/">' if k == 13 else "",
        f"<title>{host} page {k}</title>",
        f'<meta name="description" content="Page {k} of {host}">',
        '<meta name="viewport" content="width=device-width">',
        f'<script type="application/ld+json">{data}</script>',
        "<style>body{margin:0}.k{color:#333}.hl{background:#ff0}</style>",
        '</head>\n<body class="t">\n<header><nav><ul class="menu">',
    ]
    out += [
        f'<li class="menu-item menu-{i}"><a class="nav-link" href="{url}" title="Menu {i}">'
        f"Menu <b>{i}</b></a></li>"
        for i, url in enumerate(menu)
    ]
    out.append('</ul></nav><a name="top"></a></header>\n<main id="content">')
    half, goal, size, i = len(rest) // 2, rng.randint(20_000, 30_000), 0, 0
    while size < goal - 6500:
        text = rng.choice(paragraphs)
        if i < half:
            text += f' <a href="{rest[i]}">read {i}</a> and'
        short = text[:80].split("<")[0]
        out.append(
            f'<section id="sec-{i}"><h2>Section {i}</h2>\n<p>{text}</p>\n</section>'
            if i % 3
            else f"<p>{text}\n<p>second: {short}"
        )
        size += len(out[-1])
        i += 1
    out.append("</main>\n<aside><ul>")
    out += [
        f"<li><a href='{url}' data-pos=\"{j}\">item {j}</a>"
        if j % 3
        else f'<li><a rel="bookmark" class="c c-{j}" href="{url}">item {j}</a></li>'
        for j, url in enumerate(rest[min(i, half) :])
    ]
    out.append(
        '</ul><a href="mailto:a@example.test">mail</a> <a href="javascript:void(0)">js</a></aside>'
    )
    if k % 10 == 2:
        out.append(
            f'<!-- <a href="/ghost/c{k}.html">old</a> -->\n'
            f"<script>var t='<a href=\"/ghost/s{k}.html\">x</a>';</script>"
        )
    rows = (f'<tr><td>{j}</td><td class="n">{rng.randint(1, 99999)}</td></tr>' for j in range(25))
    out.append(f'<table class="data">{"".join(rows)}</table>')
    out.append("<footer><p>&copy; synthetic</p></footer>\n</body>\n</html>\n")
    return "\n".join(out)
