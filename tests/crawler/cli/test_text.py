"""Wrapping of sentences."""

from __future__ import annotations

from crawler.cli.text import wrapped


def test_sentences_are_wrapped_with_a_hanging_indent() -> None:
    text = "  one two three four five six\nshort"
    assert wrapped(text, 20).splitlines() == ["  one two three four", "    five six", "short"]
    assert wrapped(text, None) == text


def test_urls_and_commands_are_not_broken() -> None:
    url = "http://a.test/" + "x-y " * 3 + "/" + "z-" * 20
    assert "z-" * 20 in wrapped(f"found on {url}", 30)
    text = "  to queue them again: courtly retry failed --db /a/long/path/crawl.db"
    assert wrapped(text, 40).splitlines() == [
        "  to queue them again:",
        "    courtly retry failed --db /a/long/path/crawl.db",
    ]
    assert wrapped(text, 80) == text
