"""The config that counts now, shared by those that judge by it."""

from __future__ import annotations

from crawler.config import Config
from policies.access import RobotsRules
from policies.scope import ScopeRules


class Effective:
    """A config is never changed; when a crawl reads its file again, the whole of it is exchanged
    for another, between two steps of the event loop. Who asks here each time always goes by one of
    them, and by the newest."""

    __slots__ = ("config",)

    def __init__(self, config: Config) -> None:
        self.config = config

    def slot_of(self, host: str) -> str:
        return self.config.slot_of(host)

    def robots_of(self, host: str) -> tuple[RobotsRules, tuple[str, ...]]:
        return self.config.robots_of(host)

    def scope_of(self, host: str) -> ScopeRules:
        return self.config.site(host).scope
