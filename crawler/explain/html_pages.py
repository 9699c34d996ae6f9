"""The template environment of every page and HTML report."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from crawler.explain.formatting import printable


def html_environment(**options: Any) -> Environment:
    """An environment that escapes by default, and in which every value that a template writes is
    without characters that reorder or hide text. options: of jinja2.Environment."""
    return Environment(autoescape=True, finalize=_shown, **options)


def _shown(value: object) -> object:
    if isinstance(value, Markup):  # our own markup, with the text of others in it
        return Markup(printable(value))  # noqa: S704 - removes characters only
    return printable(value) if isinstance(value, str) else value
