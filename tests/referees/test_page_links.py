"""The links of a page, in order, with and without a tree, compared with parse5 and with the
trees that html5lib's tests expect."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from crawler.documents import markup, open_elements, page
from crawler.documents.charset import to_utf8
from crawler.documents.links import PageLinks, collapsed
from crawler.documents.nesting import is_tangled
from crawler.documents.tree import build_tree

pytestmark = [pytest.mark.referee, pytest.mark.timeout(7_200)]

URL = "http://a.test/dir/page.html"
HEADERS = CIMultiDictProxy(CIMultiDict([("Content-Type", "text/html; charset=utf-8")]))
PAGES = 5_000  # of each folder, at random; REFEREE_PAGES_MAX overrides
SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
SHOWN = 40

Element = tuple[str, dict[str, str], str | None]
Data = Callable[[str], list[Path]]


def urls(reader: page._Reader) -> list[str]:
    return [link.url for link in reader.links.found()]


def expected(elements: Iterable[Element]) -> page._Reader:
    """The links and the title according to these elements, in document order."""
    reader = page._Reader(URL, PageLinks(URL))
    elements = list(elements)
    for tag, attributes, _ in elements:
        if tag == "base" and "href" in attributes:
            reader.links.set_base(attributes["href"])
            break
    for tag, attributes, text in elements:
        if tag == "a":
            if "href" in attributes:
                reader.links.add(attributes["href"])
        elif tag == "title":
            if text is not None and reader.title is None:
                reader.title = collapsed(text, page.TITLE_CHARS_MAX)
        elif tag in ("iframe", "frame"):
            reader._add_element(tag, attributes)
        elif tag == "meta":
            if "content" in attributes:
                reader._add_element(tag, attributes)
        elif tag != "base" and "href" in attributes:
            reader._add_element(tag, attributes)
    return reader


def by_tree(html: bytes) -> page._Reader:
    reader = page._Reader(URL, PageLinks(URL))
    reader.read_tree(build_tree(html))
    return reader


def by_tokens(html: bytes) -> page._Reader:
    reader = page._Reader(URL, PageLinks(URL))
    reader.read_tokens(html)
    return reader


# ---------------------------------------------------------------- parse5


@pytest.fixture
def parse5(data: Data) -> Iterator[Callable[[bytes], list[Element]]]:
    script = Path(__file__).with_name("parse5_elements.mjs")
    (modules,) = data("REFEREE_NODE_MODULES")
    command = ["node", "--stack-size=8000", str(script), str(modules.resolve())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        into, out = process.stdin, process.stdout
        assert into is not None
        assert out is not None

        def elements(html: bytes) -> list[Element]:
            into.write(json.dumps(html.decode(errors="replace")).encode() + b"\n")
            into.flush()
            return [tuple(element) for element in json.loads(out.readline())]

        yield elements
        into.close()


def sample(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    paths = [path for path in paths if path.is_file()]
    count = int(os.environ.get("REFEREE_PAGES_MAX", PAGES))
    return paths if len(paths) <= count else random.Random(0).sample(paths, count)


def test_links_of_saved_pages(data: Data, parse5: Callable[[bytes], list[Element]]) -> None:
    """In order, as pages are usually read; without a tree, as sets."""
    figures: Counter[str] = Counter()
    different: list[str] = []
    for folder in data("REFEREE_PAGES"):
        for path in sample(folder):
            html, _ = to_utf8(path.read_bytes()[: page.MARKUP_BYTES_MAX], None)
            theirs = expected(parse5(html))
            read = page.parse_page(URL, HEADERS, html, tokens=())
            ours = [link.url for link in read.links]
            tangled = is_tangled(html)
            flat = by_tokens(html)
            figures["pages"] += 1
            figures["tangled"] += tangled
            figures["links"] += len(theirs.links)
            figures["titles differ"] += read.title != theirs.title
            if ours == urls(theirs):
                figures["equal"] += 1
            else:
                figures["the same links in another order"] += sorted(ours) == sorted(urls(theirs))
                different.append(_difference(path, "tangled" if tangled else "", ours, theirs))
            if set(urls(flat)) == set(urls(theirs)):
                figures["equal as a set without a tree"] += 1
            else:
                different.append(_difference(path, "without a tree", urls(flat), theirs))
    report(figures, different)
    assert figures["pages"]
    assert figures["equal"] >= 0.999 * figures["pages"]
    assert figures["equal as a set without a tree"] >= 0.999 * figures["pages"]


def _difference(path: Path, how: str, ours: list[str], theirs: page._Reader) -> str:
    extra = [url for url in ours if url not in set(urls(theirs))]
    missing = [url for url in urls(theirs) if url not in set(ours)]
    return f"{path} {how}: {len(extra)} more {extra[:3]}, {len(missing)} missing {missing[:3]}"


def report(figures: Counter[str], different: list[str]) -> None:
    for name, count in figures.items():
        sys.stdout.write(f"\n{name}: {count:,}")
    sys.stdout.write("\n" + "\n".join(different[:SHOWN]) + "\n")


# ---------------------------------------------------------------- html5lib's tests

_LINE = re.compile(
    r'\| ( *)(?:<(?:svg |math )?([^ >]+)>|([^=]+)="(.*)"|(content)|(.*))\Z', re.DOTALL
)


def elements_of(tree: str) -> list[Element]:
    """The elements of a tree in the notation of the tests, without those in templates."""
    found: list[Element] = []
    template: int | None = None  # how deep the one is that is being passed over
    for line in re.split(r"\n(?=\| )", tree):
        parts = _LINE.match(line)
        if parts is None:
            continue
        depth = len(parts[1])
        if template is not None and depth > template:
            continue
        template = None
        if parts[5] is not None:
            template = depth
        elif parts[2] is not None:
            found.append((parts[2].lower(), {}, None))
        elif parts[3] is not None and found:
            found[-1][1].setdefault(parts[3].strip(), parts[4])
    return found


def cases(folder: Path) -> Iterator[tuple[str, str]]:
    """(document, tree) of the tests of whole documents with scripting off."""
    for path in sorted(folder.rglob("tree-construction/*.dat")):
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        for test in re.split(r"(?:\A|\n)#data\n", text)[1:]:
            document, _, rest = test.partition("\n#errors")
            if "#document-fragment" in rest or "#script-on" in rest or "\n#document\n" not in rest:
                continue
            yield document, rest.partition("\n#document\n")[2].rstrip("\n")


# Elements that a parser also makes where no tag stands, or copies.
NOT_COUNTED = frozenset(
    ["html", "head", "body", "tbody", "tr", "colgroup", "p", "br"]
    + [name.decode() for name in open_elements.FORMATTING]
)


def elements_by_tokens(html: bytes) -> Counter[str]:
    """The number of elements of each name outside templates, according to the tags."""
    found: Counter[str] = Counter()
    for tag in markup.tokens(html):
        if tag.name[:1] not in b"/!" and not tag.ignored and not tag.in_template:
            name = tag.name.replace(b"\x00", b"\xef\xbf\xbd").decode("utf-8", "surrogateescape")
            name = "img" if name == "image" and not tag.foreign else name
            if name not in NOT_COUNTED:
                found[name] += 1
    return found


def test_links_of_the_trees_of_html5lib(data: Data) -> None:
    figures: Counter[str] = Counter()
    different: list[str] = []
    for folder in data("REFEREE_HTML5LIB_TESTS"):
        for document, tree in cases(folder):
            html = document.encode("utf-8", "surrogateescape")
            theirs = set(urls(expected(elements_of(tree))))
            figures["documents"] += 1
            figures["documents with links"] += bool(theirs)
            for how, ours in (("tree", by_tree(html)), ("no tree", by_tokens(html))):
                if set(urls(ours)) == theirs:
                    figures[f"equal, {how}"] += 1
                else:
                    different.append(f"{how}: {document!r}: {set(urls(ours)) ^ theirs}")
            written = Counter(tag for tag, _, _ in elements_of(tree) if tag not in NOT_COUNTED)
            if written == elements_by_tokens(html):
                figures["the same elements, no tree"] += 1
            else:
                beyond, short = (
                    elements_by_tokens(html) - written,
                    written - elements_by_tokens(html),
                )
                different.append(f"elements: {document!r}: +{dict(beyond)} -{dict(short)}")
    report(figures, different)
    assert figures["documents"] > 1_000
    assert figures["equal, tree"] >= 0.99 * figures["documents"]
    assert figures["equal, no tree"] >= 0.99 * figures["documents"]
    assert figures["the same elements, no tree"] >= 0.98 * figures["documents"]
