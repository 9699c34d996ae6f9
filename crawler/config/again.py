"""Files that a config is made of, read again while a crawl runs: nothing is waited for then, so
they have to be regular files. At the start a pipe will do, such as a shell's `<(…)`."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from crawler.config.given import ConfigError
from crawler.config.model import Config


def check_again(paths: Iterable[Path]) -> None:
    """Raise ConfigError for what could keep who reads it waiting: a FIFO, a terminal, a device.
    What is not there, or cannot be read, says so when it is read."""
    problems = [
        f"{path}: is not a regular file, and cannot be read again while the crawl runs"
        for path in paths
        if _may_wait(path)
    ]
    if problems:
        raise ConfigError(*problems)


def files_of(config: Config) -> Iterator[Path]:
    """Those that a config names: of seeds, secrets and certificates."""
    for text in config.crawl.seeds:
        if text.startswith("@"):
            yield Path(text[1:].strip())
    for sections in (config.given.values, *config.given.sites.values()):
        fetch = sections.get("fetch", {})
        sources = fetch.get("credentials")
        if isinstance(sources, Mapping):
            for source in sources.values():
                kind, _, name = str(source).partition(":")
                if kind == "file":
                    yield Path(name)
        ca_file = fetch.get("ca_file")
        if isinstance(ca_file, Path):
            yield ca_file


def _may_wait(path: Path) -> bool:
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(kind) and not stat.S_ISDIR(kind)
