"""Remarks on files that are no robots.txt agree with what their rules do."""

from __future__ import annotations

from crawler.explain.explanation import remark_on, web_page_remark
from policies import robots
from tests.tables import each


@each(
    ("body", "word", "governs"),
    [
        ("", "empty", False),
        ("\ufeff \n", "empty", False),
        ("<!DOCTYPE html>\n<p>Disallow: /</p>\n", "a web page", False),
        ("<html><pre>\nUser-agent: *\nDisallow: /\n</pre>\n", "a web page", True),
        ("Disallow: /\n", "no rules", False),
        ("User-agent: *\nDisallow: /\n", "", True),
    ],
)
def test_a_file_without_rules_is_named(body: str, word: str, governs: bool) -> None:
    found, sentence = remark_on(body)
    assert found == word
    assert bool(sentence) is bool(word)
    assert robots.parse(body.encode()).decide("/x", agent="courtly").allowed is not governs
    if word == "a web page":
        assert ("are read as rules" in sentence) is governs
    assert web_page_remark(body.encode()) == (sentence if word == "a web page" else "")
