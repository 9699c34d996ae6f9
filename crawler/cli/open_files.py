"""How many files this process may have open: as many as it may ask for, and no more requests than
fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from crawler.cli.text import say

if TYPE_CHECKING:
    from crawler.config import Config

FILES_MAX: Final = 65_536  # more is of no use, and slow where children close all they might have
# For the database, sinks, libraries, name lookups, and who looks at the page.
OTHERS_MAX: Final = 128


def fitted(config: Config, *, quiet: bool = False) -> Config:
    """Raise the soft limit of open files to the hard one. Where even that is too few for
    `crawl.concurrency`, the config with as many requests in flight as fit, and a warning."""
    files = _raised()
    room = max(1, files - min(OTHERS_MAX, files // 2))
    if config.crawl.concurrency <= room:
        return config
    if not quiet:
        say(
            f"warning: {files} files may be open (ulimit -n): at most {room} requests are in "
            f"flight at once, not crawl.concurrency = {config.crawl.concurrency}",
            err=True,
        )
    return config.override({"crawl": {"concurrency": room}}, where="open files")


def _raised() -> int:
    """The soft limit, raised as far as it goes."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return FILES_MAX
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < least:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (least, hard))
        except (OSError, ValueError):  # some systems cap it below what they call the hard limit
            return soft
        return least
    return FILES_MAX if soft == resource.RLIM_INFINITY else soft
