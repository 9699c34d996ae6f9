"""Sentences folded to a terminal."""

from __future__ import annotations

from crawler.cli.text import wrapped


def test_a_sentence_is_folded_between_words_and_hangs() -> None:
    text = "  one two three four five six\nshort"
    assert wrapped(text, 20).splitlines() == ["  one two three four", "    five six", "short"]
    assert wrapped(text, None) == text


def test_urls_and_commands_stay_whole() -> None:
    url = "http://a.test/" + "x-y " * 3 + "/" + "z-" * 20
    assert "z-" * 20 in wrapped(f"found on {url}", 30)
    text = "  to queue them again: courtly retry failed --db /a/long/path/crawl.db"
    assert wrapped(text, 40).splitlines() == [
        "  to queue them again:",
        "    courtly retry failed --db /a/long/path/crawl.db",
    ]
    assert wrapped(text, 80) == text
