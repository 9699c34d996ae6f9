"""Macros are made once, with the templates. Those made for one page, from its context, are in a
cycle with all values of the page: its hosts and URLs would stay in memory for hours."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, nodes

FOLDER = resources.files("crawler.console").joinpath("templates")
MACROS = "parts.html"


def test_no_macro_is_made_for_a_page() -> None:
    for name in sorted(file.name for file in FOLDER.iterdir()):
        template = Environment(autoescape=True).parse(FOLDER.joinpath(name).read_text("utf-8"))
        assert not [one.lineno for one in template.find_all(nodes.Import) if one.with_context], name
        assert not [
            one.lineno for one in template.find_all(nodes.FromImport) if one.with_context
        ], name
        assert name == MACROS or template.find(nodes.Macro) is None


def test_charts_are_drawn_in_one_place() -> None:
    """By the macro `drawing`: other templates place labels, and no shapes."""
    for file in FOLDER.iterdir():
        found = [tag for tag in ("<path", "<rect", "<line", "viewBox") if tag in file.read_text()]
        assert (found != []) == (file.name == MACROS), (file.name, found)
    assert FOLDER.joinpath(MACROS).read_text("utf-8").count("viewBox") == 1
