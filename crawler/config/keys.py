"""The tables of the config file and the keys that each may hold."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import NODEFAULT, Struct

from crawler.config.daemon_section import DaemonConfig
from crawler.config.sections import (
    CrawlConfig,
    FetchConfig,
    NetworkConfig,
    SinkConfig,
    StorageConfig,
)
from crawler.config.webhook import WebhookConfig
from policies.config_key import Key, keys_of
from policies.pacing import PacingRules
from policies.recrawl import RecrawlRules
from policies.robots_state import RobotsRules
from policies.scope import ScopeRules

Keys = Mapping[str, Key]  # by the name in the config file

SECTION_TYPES: Final[Mapping[str, type[Struct]]] = MappingProxyType(
    {
        "crawl": CrawlConfig,
        "scope": ScopeRules,
        "politeness": PacingRules,
        "robots": RobotsRules,
        "fetch": FetchConfig,
        "revisit": RecrawlRules,
        "network": NetworkConfig,
        "storage": StorageConfig,
        "daemon": DaemonConfig,
        "webhook": WebhookConfig,
    }
)
SECTIONS: Final[Mapping[str, Keys]] = MappingProxyType(
    {name: keys_of(section) for name, section in SECTION_TYPES.items()}
)
# A [site."…"] table holds the keys of these sections without the sections: no two of them may share
# the name of a key or of a field.
SITE_SECTIONS: Final = ("scope", "politeness", "robots", "fetch", "revisit")
SITE_KEYS: Final[Keys] = MappingProxyType(
    {name: key for section in SITE_SECTIONS for name, key in SECTIONS[section].items()}
)
SECTION_OF_FIELD: Final[Mapping[str, str]] = MappingProxyType(
    {key.field: section for section in SITE_SECTIONS for key in SECTIONS[section].values()}
)
SINK: Final[Keys] = keys_of(SinkConfig)
SINK_REQUIRED: Final = tuple(name for name, key in SINK.items() if key.default is NODEFAULT)


def sink_keys(kind: object) -> Keys:
    """Return the keys of a kind of sink; all keys if there is no such kind."""
    if kind not in SINK["kind"].choices:
        return SINK
    return {name: key for name, key in SINK.items() if not key.kinds or kind in key.kinds}
