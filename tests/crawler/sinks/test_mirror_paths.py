"""Where a URL's file is: safe on every file system, and no two at one place."""

from __future__ import annotations

import posixpath
import re

from hypothesis import given
from hypothesis import strategies as st

from crawler.sinks.mirror_paths import file_of, relative
from crawler.sinks.references import ReferenceRole
from policies.url import canonical
from tests.tables import each

PIECES = st.sampled_from(
    ["a", "A", "b.html", "index", "index.html", "", ".", "..", "%2e%2e", "%2F", "con", "nul.txt",
     "x" * 300, "a.b", "a_b", "~", "a~", "é", " ", "a.png", "A.PNG", "y.php", "?", "?x=1", "lpt1"]
)  # fmt: skip
AUTHORITIES = st.sampled_from(
    [
        "a.test", "a.test:8080", "[::1]", "[::1]:80", "con", "xn--bcher-kva.test", "a..test",
        "a_b.test",
    ]
)  # fmt: skip


@st.composite
def urls(draw: st.DrawFn) -> str:
    path = "/".join(draw(st.lists(PIECES, max_size=5)))
    scheme = draw(st.sampled_from(["http", "https"]))
    found = canonical(f"{scheme}://{draw(AUTHORITIES)}/{path}")
    return found or "http://a.test/"


@given(urls(), st.sampled_from(ReferenceRole))
def test_every_name_is_safe(url: str, role: ReferenceRole) -> None:
    path = file_of(url, role)
    assert len(path) <= 220
    assert not posixpath.isabs(path)
    assert path == path.lower(), "case does not count everywhere"
    for name in path.split("/"):
        assert re.fullmatch(r"[a-z0-9_][a-z0-9._~+-]*|[-~][a-z0-9._~+-]+", name), name
        assert name not in (".", "..")
        assert not name.endswith((".", " "))
        assert len(name) <= 120
        assert not re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", name)
    *folders, name = path.split("/")
    assert "." in name, "a file has an ending"
    assert not [folder for folder in folders[1:] if "." in folder], "and so is no folder's"


@given(urls(), urls())
def test_no_two_urls_share_a_file(one: str, other: str) -> None:
    for role in ReferenceRole:
        if one != other:
            assert file_of(one, role) != file_of(other, role)


@each(
    ("url", "path"),
    [
        ("https://a.test/", "a.test/index.html"),
        ("https://a.test/docs/", "a.test/docs/index.html"),
        ("https://a.test/docs", "a.test/docs~.html"),
        ("https://a.test/x/y.html", "a.test/x/y.html"),
        ("http://a.test:8080/x.html", "a.test+http+8080/x.html"),
    ],
)
def test_what_is_plain_stays_so(url: str, path: str) -> None:
    assert file_of(url, ReferenceRole.PAGE) == path


def test_from_file_to_file() -> None:
    assert relative("a.test/x/y.html", "a.test/x/z.html") == "y.html"
    assert relative("b.test/i.png", "a.test/x/z.html") == "../../b.test/i.png"
    assert relative("a.test/index.html", "index.html") == "a.test/index.html"


def test_no_host_has_the_place_of_the_first_page() -> None:
    assert not file_of("https://index.html/x", ReferenceRole.PAGE).startswith("index.html")
