"""What `help()` prints about a public name refers to nothing that a reader cannot follow."""

from __future__ import annotations

import pydoc
import re

import pytest

import crawler
import crawler.testing

# Documents of this repository are not installed with it.
REFERENCE = re.compile(r"\blaws? \d|\bdecision \d|\bdocs/|\b[A-Z]+\.md\b")
NAMES = [(module, name) for module in (crawler, crawler.testing) for name in module.__all__]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[name for _, name in NAMES])
def test_it_can_be_understood_by_itself(module: object, name: str) -> None:
    shown = pydoc.plain(pydoc.render_doc(getattr(module, name)))
    assert shown.strip()
    assert not REFERENCE.findall(shown)
