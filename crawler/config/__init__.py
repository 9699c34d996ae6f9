"""The config: TOML, or a dict in its shape, as frozen sections.

The sections are the rule types of `policies` and those of `crawler.config.sections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from crawler.config.daemon_section import DaemonConfig
from crawler.config.lines import ConfigError, ConfigSource
from crawler.config.loading import read_toml, read_values
from crawler.config.model import Config, Site
from crawler.config.sections import (
    CrawlConfig,
    FetchConfig,
    NetworkConfig,
    SinkConfig,
    StorageConfig,
)
from crawler.config.seed_files import check_identity, lines_of, problems_of, seeds_of
from crawler.config.user_agent import product_token

__all__ = [
    "Config",
    "ConfigError",
    "CrawlConfig",
    "DaemonConfig",
    "FetchConfig",
    "NetworkConfig",
    "SinkConfig",
    "Site",
    "StorageConfig",
    "check_identity",
    "from_dict",
    "lines_of",
    "load",
    "problems_of",
    "product_token",
    "seeds_of",
]


def load(path: Path) -> Config:
    """Return the config of a TOML file. Raises ConfigError with every problem in it."""
    return Config.of(read_toml(path))


def from_dict(
    data: Mapping[str, object], *, where: str = "config", base: Path | None = None
) -> Config:
    """Return the config of a dict in the TOML's shape.

    where: the name of the source in messages. base: the directory where relative paths start;
    default: the working directory. Raises ConfigError.
    """
    return Config.of(read_values(data, ConfigSource(where=where, base=base or Path())))
