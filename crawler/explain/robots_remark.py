"""What a robots.txt is instead of rules: nothing, a web page, or text without a group."""

from __future__ import annotations

import re

_AGENT = re.compile(r"[\ufeff\s]*user-?agent\s*:", re.IGNORECASE)
_PAGE_STARTS = ("<!doctype", "<html", "<head", "<?xml", "<body")


def remark_on(body: str) -> tuple[str, str]:
    """A word and a sentence about a file that is not what it seems; "" and "" if it is.

    Parsers read rules wherever they stand, so that those within a web page apply.
    """
    start = body.lstrip("\ufeff \t\r\n")
    if not start:
        return "empty", "The file is empty, so it forbids nothing."
    has_group = any(_AGENT.match(line) for line in body.splitlines())
    if start[:9].lower().startswith(_PAGE_STARTS):
        if has_group:
            return "a web page", "This is a web page, but some of its lines are read as rules."
        return "a web page", "This is a web page and no robots.txt: it has no rules."
    if not has_group:
        return "no rules", "The file names no User-agent, so none of its rules apply."
    return "", ""


def web_page_remark(body: bytes) -> str:
    """The sentence if a file is a web page, else ""."""
    word, sentence = remark_on(body.decode("utf-8", "replace"))
    return sentence if word == "a web page" else ""
