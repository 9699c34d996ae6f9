"""The main text of a page as Markdown, found by trafilatura.

Its time grows with the square of the size of hostile markup, so a large page is searched in a
process of its own, which is killed after a time.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from configparser import ConfigParser
from functools import cache
from typing import Any, Final

from crawler.explain.formatting import printable
from policies.url import canonical

# Searched in this process, in at most 1.4 s (measured with lists, tables, formatting and others).
SMALL_CHARS: Final = 50_000
SEARCH_S: Final = 15.0
LOG_CHARS: Final = 2_000  # of an error in that process
_CHILD: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from crawler.mcp_server.main_text import search_for_parent; search_for_parent(sys.argv[2])"
)
_log = logging.getLogger("courtly.mcp")


def main_text(source: str, url: str) -> str | None:
    """Return the main text; "" if there is none, None if it was not found in time. Blocks for up
    to SEARCH_S: to be called in a thread."""
    if len(source) <= SMALL_CHARS:
        return _found(source, url)
    command = [sys.executable, "-P", "-c", _CHILD, json.dumps(sys.path), url]
    try:
        child = subprocess.run(  # noqa: S603 - our own program, without a shell
            command,
            input=source.encode("utf-8", "replace"),
            capture_output=True,
            timeout=SEARCH_S,
            check=True,
        )
    except (subprocess.SubprocessError, OSError) as error:
        _log.warning("no main text of %s: %s", url, type(error).__name__)
        return None
    if child.stderr:
        _log.warning("%s", printable(child.stderr.decode("utf-8", "replace"))[-LOG_CHARS:])
    return child.stdout.decode()


def search_for_parent(url: str) -> None:
    """Read the source from standard input, and write the main text to standard output."""
    source = sys.stdin.buffer.read().decode()
    sys.stdout.buffer.write(_found(source, url).encode("utf-8", "replace"))


def _found(source: str, url: str) -> str:
    from trafilatura import extract, load_html  # slow to import

    try:
        tree = load_html(source)
        if tree is None:
            return ""
        _resolve_links(tree, url)
        text = extract(
            tree,
            output_format="markdown",
            include_links=True,
            include_tables=True,
            include_comments=False,
            config=_extraction_config(),
        )
    except Exception:  # noqa: BLE001 - the library meets markup that its authors did not think of
        _log.warning("no main text of %s", url, exc_info=True)
        return ""
    return (text or "").strip()


def _resolve_links(tree: Any, url: str) -> None:
    """Make the targets of links absolute: trafilatura resolves them all against the host. Links
    to parts of the page itself, and those that are no http or https URLs, become text."""
    base = next((one.get("href") for one in tree.iter("base") if one.get("href")), None)
    base_url = (base and canonical(base, url)) or url
    for anchor in tree.iter("a"):
        target, _, fragment = (anchor.get("href") or "").strip().partition("#")
        found = canonical(target, base_url) if target else None
        if found is None:
            anchor.tag = "span"
        else:
            anchor.set("href", f"{found}#{fragment}" if fragment else found)


@cache
def _extraction_config() -> ConfigParser:
    """trafilatura's settings for short texts too: of those below 250 characters it would return
    all words of the page, without headings, tables and links."""
    from trafilatura.settings import DEFAULT_CONFIG

    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it logs pages without a text
    config = ConfigParser()
    config.read_dict({"DEFAULT": dict(DEFAULT_CONFIG["DEFAULT"])})
    config["DEFAULT"]["MIN_EXTRACTED_SIZE"] = "1"
    return config
