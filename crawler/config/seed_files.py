"""Where a crawl starts, and whether it may: seeds with their files, and law 10."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from crawler.config.given import ConfigError
from crawler.config.loading import parse_toml, read_toml, read_values
from crawler.config.model import Config
from policies.url import SeedError, host_of, parse_seed

_PROBLEMS_SHOWN = 20  # of one file of seeds: a wrong file must not fill the terminal
_LINE_CHARS_MAX = 1_000_000  # a device has no end of line
_EXAMPLE = "examplebot/1.0 (+https://example.com/bot)"


def seeds_of(config: Config, extra: Sequence[str] = ()) -> list[str]:
    """The canonical URLs to start from: the config's, then `extra`, each once.

    `@FILE` stands for the URLs of a file, one a line; blank lines and lines that begin with `#` are
    passed over. Files in `extra` are relative to the working directory. Raises ConfigError with
    every seed that is none.
    """
    seeds: dict[str, None] = {}
    problems: list[str] = []
    place = config.given.places.get("crawl.seeds", "config")
    for number, text in enumerate((*config.crawl.seeds, *extra)):
        if text.startswith("@"):
            found, wrong = _read(Path(text[1:].strip()))
            seeds |= dict.fromkeys(found)
            if wrong and not found and number < len(config.crawl.seeds):
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


def _read(path: Path) -> tuple[list[str], list[str]]:
    good: list[str] = []
    wrong: list[str] = []
    try:
        with path.open(encoding="utf-8-sig") as lines:
            pieces = iter(partial(lines.readline, _LINE_CHARS_MAX), "")
            for number, line in enumerate(pieces, start=1):
                if len(line) == _LINE_CHARS_MAX:
                    wrong.append(f"{path}:{number}: this line is too long for a URL")
                    break
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                try:
                    good.append(parse_seed(text))
                except SeedError as error:
                    wrong.append(f"{path}:{number}: {error}")
    except UnicodeDecodeError:
        wrong = [f"{path}: is not a text file in UTF-8, as a file of seeds has to be"]
    except FileNotFoundError:
        wrong = [f"{path}: there is no such file of seeds"]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        wrong = [f"{path}: the seeds cannot be read: {reason}"]
    if len(wrong) > _PROBLEMS_SHOWN:
        rest = len(wrong) - _PROBLEMS_SHOWN
        wrong = [*wrong[:_PROBLEMS_SHOWN], f"{path}: and {rest} more lines that are not seeds"]
    return good, wrong


def problems_of(path: Path) -> list[str]:
    """All that a crawl would refuse a config file for, whatever its other options; a missing file
    of seeds, too, where the config itself cannot be read."""
    try:
        return _refusals(Config.of(read_toml(path)))
    except ConfigError as error:
        problems = list(error.problems)
    with contextlib.suppress(ConfigError):
        data, source = parse_toml(path)
        crawl = data.get("crawl")
        seeds = crawl.get("seeds") if isinstance(crawl, Mapping) else None
        files = [text for text in seeds if str(text)[:1] == "@"] if isinstance(seeds, list) else []
        with contextlib.suppress(ConfigError):
            problems += _refusals(Config.of(read_values({"crawl": {"seeds": files}}, source)))
    return sorted(problems, key=_line)


def _refusals(config: Config) -> list[str]:
    try:
        seeds_of(config)
    except ConfigError as error:
        return [*error.problems]
    return []


def _line(problem: str) -> int:
    found = re.match(r"[^'\"]+?:(\d+): ", problem)
    return int(found[1]) if found else 0


def check_identity(config: Config, urls: Sequence[str], *, resolves: bool = True) -> None:
    """Check that a crawler without a contact in its user agent stays on this machine.

    resolves: whether `[network] resolve` decides what is connected to; False where the connections
    are someone else's. Raises ConfigError.
    """
    if config.has_contact:
        return
    beyond = next(
        (url for url in urls if not config.leads_to_loopback(host_of(url), resolves=resolves)), None
    )
    if beyond is None:
        return
    has = f'"{config.crawl.user_agent}" carries' if config.crawl.user_agent else "there is"
    raise ConfigError(
        f"{beyond} is beyond this machine, and {has} no contact for its owner: set "
        "crawl.user_agent (or --user-agent) to a name with a URL or an e-mail address, such as "
        f'"{_EXAMPLE}"'
    )
