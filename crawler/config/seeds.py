"""Where a crawl starts, and whether it may: seeds with their files, and law 10."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from crawler.config.given import ConfigError
from crawler.config.model import Config
from policies.url import SeedError, host_of, parse_seed

_PROBLEMS_SHOWN = 20  # of one file of seeds: a wrong file must not fill the terminal
_EXAMPLE = "examplebot/1.0 (+https://example.com/bot)"


def seeds_of(config: Config, extra: Sequence[str] = ()) -> list[str]:
    """The canonical URLs to start from: the config's, then `extra`, each once.

    `@FILE` stands for the URLs of a file, one a line; blank lines and lines that begin with `#` are
    passed over. Files in `extra` are relative to the working directory. Raises ConfigError with
    every seed that is none.
    """
    seeds: dict[str, None] = {}
    problems: list[str] = []
    for text in (*config.crawl.seeds, *extra):
        if text.startswith("@"):
            found, wrong = _read(Path(text[1:].strip()))
            seeds |= dict.fromkeys(found)
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
            for number, line in enumerate(lines, start=1):
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


def check_identity(config: Config, seeds: Sequence[str]) -> None:
    """Law 10: beyond loopback only with a contact in the user agent. Raises ConfigError."""
    if config.has_contact:
        return
    beyond = next((s for s in seeds if not config.network.leads_to_loopback(host_of(s))), None)
    if beyond is None:
        return
    has = f'"{config.crawl.user_agent}" carries' if config.crawl.user_agent else "there is"
    raise ConfigError(
        f"{beyond} is beyond this machine, and {has} no contact for its owner: set "
        "crawl.user_agent (or --user-agent) to a name with a URL or an e-mail address, such as "
        f'"{_EXAMPLE}"'
    )


def unsupported(config: Config) -> tuple[str, ...]:
    """What is configured that this version does not do yet, one sentence each: better refused than
    silently left out."""
    if not config.sinks:
        return ()
    kinds = ", ".join(f'"{sink.kind}"' for sink in config.sinks)
    return (f"sink: this version writes no sinks yet ({kinds}): remove [[sink]] from the config",)
