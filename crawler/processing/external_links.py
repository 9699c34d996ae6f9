"""External links of a link check: requested once, without the body, and not followed."""

from __future__ import annotations

from crawler.config.model import Config
from crawler.fetching.request import BodySink, Head
from policies.scope import Scope
from storage.store import Looked, Queued


def is_external(scope: Scope, queued: Queued, host: str) -> bool:
    """Whether a URL of this host was queued only to find out its status."""
    return not queued.seed and not queued.requisite and scope.is_external(queued.url, host)


def looked(config: Config) -> Looked:
    """What a report could miss of a page if it had been parsed: an external page has nothing to
    store, but its fragments are unknown."""
    found = Looked(0)
    if config.storage.links:
        found |= Looked.LINKS
    if config.storage.fragments:
        found |= Looked.POINTERS
    if config.requisites:
        found |= Looked.REQUISITES
    return found


class NoBody:
    """A `BodyReader`: the status is all that counts."""

    def wants_body(self, _head: Head) -> bool:
        return False

    def sink(self, _head: Head) -> BodySink | None:
        return None
