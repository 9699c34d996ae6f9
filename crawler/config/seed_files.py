"""Seeds, the files that list them, and the check that a crawler beyond loopback names a contact."""

from __future__ import annotations

import contextlib
import errno
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Final, TextIO

from crawler.config.lines import ConfigError
from crawler.config.loading import parse_toml, read_toml, read_values
from crawler.config.model import Config
from policies.url import SeedError, host_of, parse_seed

STDIN: Final = ("@-", "-")
_PROBLEMS_SHOWN = 20  # of one seed file: the wrong file must not fill the terminal
_LINE_CHARS_MAX = 1_000_000  # a device may never end a line


def seeds_of(config: Config, extra: Sequence[str] = (), *, stdin: bool = False) -> list[str]:
    """Return the canonical URLs to start from, without duplicates: the config's, then `extra`.

    `@FILE` stands for the URLs of a file, one per line; blank lines and lines that begin with `#`
    are ignored. Files in `extra` are relative to the working directory. stdin: `@-` or `-` in
    `extra` stands for the lines of standard input. Raises ConfigError with every invalid seed.
    """
    seeds: dict[str, None] = {}
    problems: list[str] = []
    for number, text in enumerate((*config.crawl.seeds, *extra)):
        if stdin and number >= len(config.crawl.seeds) and text in STDIN:
            found, wrong = _read(None, parse_seed)
            seeds |= dict.fromkeys(found)
            problems += wrong or ([] if found else ["standard input contains no seed"])
            continue
        if text.startswith("@"):
            found, wrong = _read(Path(text[1:].strip()), parse_seed)
            seeds |= dict.fromkeys(found)
            if not found and number < len(config.crawl.seeds):
                place = config.given.place("crawl.seeds")
                wrong = [f"{place}: crawl.seeds: {problem}" for problem in wrong]
            problems += wrong
            continue
        try:
            seeds[parse_seed(text)] = None
        except SeedError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(*problems)
    return list(seeds)


def lines_of(file: Path | None) -> list[str]:
    """Return the URLs in a file, or on standard input, one per line, as they are written; without
    blank lines and lines that begin with `#`. Raises ConfigError."""
    found, wrong = _read(file, str)
    if wrong:
        raise ConfigError(*wrong)
    return found


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """The lines of a file, or of standard input. Raises OSError."""
    if path is not None:
        with path.open(encoding="utf-8-sig") as lines:
            yield lines
        return
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    lines = TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
    try:
        yield lines
    finally:
        lines.detach()


def _read(file: Path | None, parse: Callable[[str], str]) -> tuple[list[str], list[str]]:
    """Return the URLs of a file, or of standard input, and its problems."""
    good: list[str] = []
    wrong: list[str] = []
    path = file or "standard input"
    try:
        with _opened(file) as lines:
            pieces = iter(partial(lines.readline, _LINE_CHARS_MAX), "")
            for number, line in enumerate(pieces, start=1):
                if len(line) == _LINE_CHARS_MAX:
                    wrong.append(f"{path}:{number}: this line is too long for a URL")
                    break
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                try:
                    good.append(parse(text))
                except SeedError as error:
                    wrong.append(f"{path}:{number}: {error}")
    except UnicodeDecodeError:
        wrong = [f"{path}: not UTF-8, as a file of URLs must be"]
    except FileNotFoundError:
        wrong = [f"{path}: there is no such file"]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        wrong = [f"{path}: cannot be read: {reason}"]
    if len(wrong) > _PROBLEMS_SHOWN:
        rest = len(wrong) - _PROBLEMS_SHOWN
        wrong = [*wrong[:_PROBLEMS_SHOWN], f"{path}: and {rest} more lines that are not seeds"]
    return good, wrong


def problems_of(path: Path) -> list[str]:
    """Return every problem for which a crawl would refuse a config file, whatever its options.

    If the config itself has problems, missing seed files are reported as well.
    """
    try:
        config = Config.of(read_toml(path))
    except ConfigError as error:
        return sorted([*error.problems, *_seed_file_problems(path)], key=_line)
    return _seed_problems(config)


def _seed_file_problems(path: Path) -> list[str]:
    with contextlib.suppress(ConfigError):
        data, source = parse_toml(path)
        crawl = data.get("crawl")
        seeds = crawl.get("seeds") if isinstance(crawl, Mapping) else None
        files = [one for one in seeds if str(one)[:1] == "@"] if isinstance(seeds, list) else []
        return _seed_problems(Config.of(read_values({"crawl": {"seeds": files}}, source)))
    return []


def _seed_problems(config: Config) -> list[str]:
    try:
        seeds_of(config)
    except ConfigError as error:
        return [*error.problems]
    return []


def _line(problem: str) -> int:
    found = re.match(r"[^'\"]+?:(\d+): ", problem)
    return int(found[1]) if found else 0


def check_identity(config: Config, urls: Sequence[str], *, resolves: bool = True) -> None:
    """Check that a crawler without a contact in its user agent does not leave this machine.

    resolves: whether connections follow `[network] resolve`; False if the caller connects itself.
    Raises ConfigError.
    """
    if config.has_contact:
        return
    for url in urls:
        if not config.leads_to_loopback(host_of(url), resolves=resolves):
            agent = config.crawl.user_agent
            has = f'"{agent}" contains' if agent else "the user agent contains"
            raise ConfigError(
                f"{url} is not on this machine, and {has} no contact for site owners: set "
                "crawl.user_agent (or --user-agent) to a name with a URL or an e-mail address, "
                'such as "examplebot/1.0 (+https://example.com/bot)"'
            )
