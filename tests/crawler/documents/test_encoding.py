"""Labels from outside, and the decoders that they may choose."""

from __future__ import annotations

import ast
import codecs
import encodings
import encodings.aliases
import pkgutil
from pathlib import Path

from crawler.documents.charset import style_text, to_text, to_utf8
from crawler.documents.decoders import decode, encoding_of
from crawler.documents.encoding_index import NAME_BY_LABEL, NAMES
from crawler.documents.prescan import xml_encoding

ROOT = Path(__file__).parents[3]
PYTHONS = sorted(
    {module.name for module in pkgutil.iter_modules(encodings.__path__)}
    | set(encodings.aliases.aliases)
    | set(encodings.aliases.aliases.values())
    | {"undefined", "idna", "punycode", "mbcs", "oem", "raw_unicode_escape", "aliases", "_", ""}
)
BODY = "grüße € <p>日本".encode() + bytes(range(0x80, 0x100)) + b"a.b.c-xn--"


def test_labels_stand_for_the_encodings_of_the_standard() -> None:
    assert len(NAME_BY_LABEL) == 228  # as the table of the standard has
    assert len(NAMES) == 40
    assert encoding_of(" \tUTF8\n") == "utf-8"
    assert encoding_of("Latin1") == encoding_of("us-ascii") == "windows-1252"
    assert encoding_of("gb2312") == "gbk" != encoding_of("gb18030")
    assert encoding_of("iso-2022-kr") == "replacement"
    assert encoding_of("utf-32") is encoding_of("utf-7") is None
    assert encoding_of("gb\N{KELVIN SIGN}") is encoding_of("utf-8\N{NO-BREAK SPACE}") is None


def test_labels_that_are_not_of_the_web_are_as_good_as_none() -> None:
    unlabelled = to_text(BODY, None), style_text(BODY, None)
    for label in [*PYTHONS, "ü", "a\0b", "x" * 10_000, "../aliases", "os.path"]:
        known = encoding_of(label)
        assert known is None or known in NAMES, label
        for quoted in (label, f'"{label}"'):
            content_type = f"text/html; charset={quoted}"
            read = to_text(BODY, content_type), style_text(BODY, content_type)
            if known is None:
                assert read == unlabelled, label
            inside = f"<meta charset={quoted}>".encode() + BODY
            assert to_utf8(inside, None)[1] in NAMES, label
            assert style_text(f'@charset "{label}";'.encode() + BODY, None), label
            xml_encoding(f'<?xml version="1.0" encoding="{label}"?>'.encode("utf-8", "replace"))


def test_pythons_registry_is_not_asked_for_labels_from_outside() -> None:
    asked: list[str] = []

    def note(name: str) -> None:
        asked.append(name)

    codecs.register(note)
    try:
        for label in ("nonsense-1", "nonsense-2", "nonsense_3"):
            content_type = f"text/html; charset={label}"
            page = f'<meta charset="{label}">'.encode() + BODY
            to_text(page, content_type)
            style_text(f'@charset "{label}";'.encode(), content_type)
            xml_encoding(f'<?xml version="1.0" encoding="{label}"?>'.encode())
    finally:
        codecs.unregister(note)
    assert not [name for name in asked if "nonsense" in name]


def test_large_bodies_are_decoded_as_small_ones() -> None:
    text = "a\U0001f600ü" * 100_000
    assert decode(text.encode("utf-16-le"), "utf-16le") == text
    assert decode(b"\x80" + "中".encode("gbk") * 9, "gb18030") == "€" + "中" * 9


def test_only_one_module_chooses_decoders_by_name() -> None:
    """No other module decodes by anything but a name that it has written down itself."""
    allowed = {"policies/robots/syntax.py"} | {
        f"crawler/documents/{name}.py" for name in ("decoders", "encoding", "encoding_index")
    }
    found = []
    for folder in ("crawler", "storage", "policies"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if name in allowed:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                of_codecs = (
                    isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "codecs"
                    and not all(isinstance(one, ast.Constant) for one in node.args)
                )
                by_name = node.func.attr in ("decode", "encode") and any(
                    not isinstance(one, ast.Constant)
                    for one in [
                        *node.args[:1],
                        *(k.value for k in node.keywords if k.arg == "encoding"),
                    ]
                )
                decoding_json = isinstance(node.func.value, ast.Attribute | ast.Call)
                if of_codecs or (by_name and not decoding_json):
                    found.append(f"{name}:{node.lineno} {ast.unparse(node)[:60]}")
    assert not found
