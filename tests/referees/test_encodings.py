"""Encodings compared with the test data of encoding_rs (Firefox), html5lib's encoding tests, the
URLs of the Web Platform Tests, and Chromium itself."""

from __future__ import annotations

import json
import random
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from crawler.documents.decoders import decode, encoding_of
from crawler.documents.encoding_index import DOUBLE_BYTE, NAMES
from crawler.documents.prescan import declared_encoding
from crawler.documents.query import encoded_query, with_encoded_query
from policies.url import canonical
from tests.crawler.documents.standard_decoders import read_slowly
from tests.referees.browser import Answer, found_by
from tests.referees.conftest import Data

pytestmark = [pytest.mark.referee, pytest.mark.timeout(600)]


def _report(line: str) -> None:
    sys.stdout.write(line + "\n")


_FILES = {
    "big5": "big5", "euc_kr": "euc-kr", "gb18030": "gb18030", "iso_2022_jp": "iso-2022-jp",
    "jis0208": "euc-jp", "jis0212": "euc-jp", "shift_jis": "shift_jis",
}  # fmt: skip
_WRITTEN = b"document.write('<meta charset=\"ISO-8859-'"
_NOT_ASCII = re.compile(rb"[\x1b\x80-\xff]")
# Chromium 156 departs from the standard in these: characters of two code points, EUC-JP behind a
# broken sequence of three bytes, bytes behind a broken escape sequence.
_DEPARTS = frozenset({"big5", "euc-jp", "iso-2022-jp"})


def lines(folder: Path, name: str) -> Iterator[tuple[bytes, bytes]]:
    pair = [(folder / f"{name}{end}.txt").read_bytes().split(b"\n") for end in ("", "_ref")]
    return (
        (given, meant)
        for given, meant in zip(*pair, strict=True)
        if _NOT_ASCII.search(given + meant)
    )


def test_the_data_of_encoding_rs(data: Data) -> None:
    (folder,) = data("REFEREE_ENCODING_RS")
    for file, name in _FILES.items():
        read = [(given, text.decode()) for given, text in lines(folder, f"{file}_in")]
        assert [decode(given, name) for given, _ in read] == [text for _, text in read]
        written = []
        if file != "jis0212":
            written = [(text.decode(), sent) for text, sent in lines(folder, f"{file}_out")]
            assert [unquote_to_bytes(encoded_query(text, name)) for text, _ in written] == [
                sent for _, sent in written
            ]
        _report(f"{name} ({file}): {len(read):,} sequences decoded, {len(written):,} encoded")


def test_pages_that_declare_an_encoding(data: Data) -> None:
    """Without pages that begin with a byte order mark, and one that a script writes."""
    (folder,) = data("REFEREE_HTML5LIB_TESTS")
    compared = 0
    for file in sorted((folder / "encoding").glob("*.dat")):
        for found in re.finditer(
            rb"#data\n(.*?)\n#encoding\n(.*?)(?=\n|\Z)", file.read_bytes(), re.DOTALL
        ):
            if found[1].startswith(b"\xef\xbb\xbf") or _WRITTEN in found[1]:
                continue
            meant = encoding_of(found[2].decode())
            assert (declared_encoding(found[1]) or "windows-1252") == meant, found[1][:500]
            compared += 1
    _report(f"{compared} pages")
    assert compared > 70


def test_urls_of_the_web_platform_tests(data: Data) -> None:
    """In legacy encodings only queries differ, and only their non-ASCII characters."""
    (file,) = data("REFEREE_WPT_URLS")
    compared = 0
    for case in json.loads(file.read_text()):
        if isinstance(case, str) or case.get("failure") or not case["href"].startswith("http"):
            continue
        base = None if case.get("base") in (None, "about:blank") else case["base"]
        for encoding in ("windows-1252", "shift_jis", "gb18030"):
            found = canonical(with_encoded_query(case["input"], encoding), base)
            usual = canonical(case["input"], base)
            assert usual == canonical(case["href"])
            if found is not None and usual is not None:
                assert found.partition("?")[0] == usual.partition("?")[0]
            if case["input"].partition("?")[2].partition("#")[0].isascii():
                assert found == usual
            compared += 1
    _report(f"{compared} URLs")
    assert compared > 500


# ---------------------------------------------------------------- Chromium

_TURNING = bytes.fromhex(
    "000E1B212224283039 3C40424A495C7E7F8081848E8F909FA0A1A4ADB7C8DFE0E3F4FCFDFEFFEDD8DCBBBFEF4161"
)
_SEQUENCES = [
    *(bytes((byte,)) for byte in _TURNING),
    *(b"\x1b$B", b"\x1b(B", b"\x1b(J", b"\x1b(I", b"\x8f\xb0\xa1", b"\x81\x30\x81\x30"),
    *(b"\x00\xd8", b"\xd8\x00"),
]
_DECODING = """<script>(async () => { const found = {};
for (const name of NAMES) {
  const data = new Uint8Array(await (await fetch('/data/' + name)).arrayBuffer());
  const texts = [];
  for (let at = 0; at < data.length;) {
    const size = data[at] | data[at + 1] << 8;
    at += 2;
    texts.push(new TextDecoder(name, {ignoreBOM: true}).decode(data.subarray(at, at + size)));
    at += size;
  }
  found[name] = texts;
}
await fetch('/found', {method: 'POST', body: JSON.stringify(found)}); })()</script>"""


def test_bytes_as_chromium_decodes_them(data: Data, tmp_path: Path) -> None:
    """All pairs of bytes, all beginnings of three-byte sequences of EUC-JP, and random
    sequences."""
    (chromium,) = data("REFEREE_CHROMIUM")
    source = random.Random(1)
    names = sorted(NAMES - {"replacement"})
    pairs = [bytes((first, second)) for first in range(256) for second in range(256)]
    given = {name: list(pairs) for name in names}
    given["euc-jp"] += [b"\x8f" + pair for pair in pairs if pair[0] > 0x7F]
    for name in names:
        given[name] += [
            b"".join(
                source.choice(_SEQUENCES) if source.random() < 0.8 else source.randbytes(2)
                for _ in range(source.randrange(1, 20))
            )
            for _ in range(20_000)
        ]
    answers = {"/": Answer(_DECODING.replace("NAMES", json.dumps(names)).encode())}
    for name in names:
        packed = b"".join(struct.pack("<H", len(one)) + one for one in given[name])
        answers[f"/data/{name}"] = Answer(packed, "application/octet-stream")
    found, _ = found_by(chromium, tmp_path / "profile", answers)
    for name in names:
        differing = [
            one
            for one, text in zip(given[name], found[name], strict=True)
            if decode(one, name) != text
        ]
        _report(f"{name}: {len(given[name]):,} sequences, {len(differing)} otherwise in Chromium")
        if name in _DEPARTS:
            assert all(decode(one, name) == read_slowly(one, name) for one in differing)
        else:
            assert not differing, [one.hex() for one in differing[:5]]
        if name in DOUBLE_BYTE - _DEPARTS:
            assert all(decode(one, name) == read_slowly(one, name) for one in given[name][-1_000:])


_PAGE = """<!DOCTYPE html><script>window.run = hrefs => {
  const link = document.body.appendChild(document.createElement('a'));
  return hrefs.map(href => { link.setAttribute('href', href); return link.href; });
}</script><body>"""
_LINKING = """<!DOCTYPE html><body><script>(async () => { const found = {};
const hrefs = await (await fetch('/hrefs')).json();
for (const name of NAMES) {
  const frame = document.createElement('iframe');
  frame.src = '/page/' + name;
  await new Promise(done => { frame.onload = done; document.body.append(frame); });
  found[name] = frame.contentWindow.run(hrefs);
  frame.remove();
}
await fetch('/found', {method: 'POST', body: JSON.stringify(found)}); })()</script>"""


def test_queries_as_chromium_writes_them(data: Data, tmp_path: Path) -> None:
    """Every character of the basic plane and some others alone, and random mixtures."""
    (chromium,) = data("REFEREE_CHROMIUM")
    source = random.Random(5)
    names = sorted(NAMES - {"replacement"})
    alone = [chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
    alone += map(chr, (0x10000, 0x1F600, 0x20087, 0x20089, 0x2A6D6, 0x2F9F4, 0x10FFFF))
    pool = "aZ0%~\\¥‾ あ漢字カﾊﾝ￥é€ñжЯ한中文\ue000\x0e\x1b\"'<>&+=\u2212＂₩①𠂉"
    mixed = ["".join(source.choices(pool, k=source.randrange(1, 12))) for _ in range(3_000)]
    hrefs = [
        *(f"/s?{one}" for one in alone),
        *(f"?q={one}#{one}" for one in mixed),
        *("p/é?é", "http://x.test/ü?ü;ü#ü", "?a=ж\t\nй ", "?ж?й", "#?ж"),
    ]
    answers = {
        "/": Answer(_LINKING.replace("NAMES", json.dumps(names)).encode()),
        "/hrefs": Answer(json.dumps(hrefs).encode(), "application/json"),
    }
    for name in names:
        text = _PAGE.encode({"utf-16le": "utf-16-le", "utf-16be": "utf-16-be"}.get(name, "ascii"))
        answers[f"/page/{name}"] = Answer(text, f"text/html; charset={name}")
    found, _ = found_by(chromium, tmp_path / "profile", answers)
    for name in names:
        for href, meant in zip(hrefs, found[name], strict=True):
            base = meant[: meant.index("/", 8)] + f"/page/{name}"
            assert canonical(with_encoded_query(href, name), base) == canonical(meant), (name, href)
        _report(f"{name}: {len(hrefs):,} hrefs")
