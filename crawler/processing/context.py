"""The objects shared by the parts of one crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from crawler.clock import Clock, ContactDeadline
from crawler.config import Config
from crawler.config.model import CurrentConfig, Site
from crawler.frontier.frontier import Frontier
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.robots_cache import Pass
from crawler.observer import Observer, all_of
from crawler.processing.link_filter import LinkFilter
from crawler.processing.page_queue import PageQueue
from policies.holds import FaultOwner
from policies.scope import Scope
from storage.store import Queued, Store

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks


class CrawlContext(Struct, frozen=True, kw_only=True):
    """The ports of a crawl (config, clock, store), its frontier and scope, who gets its pages
    (sinks, and the queue of a caller that iterates over them), and what chooses among their
    links."""

    config: CurrentConfig
    clock: Clock
    store: Store
    session: int
    frontier: Frontier
    scope: Scope
    observer: Observer | None = None
    sinks: Sinks | None = None
    page_queue: PageQueue | None = None
    link_filter: LinkFilter | None = None


class PageRequest(Struct, frozen=True, eq=False):
    """A URL of a host that is being requested, and what has been determined for it: the name of its
    own host, with its rules; what its robots.txt says; and whether only its status is wanted."""

    host: HostQueue
    queued: Queued
    name: str
    site: Site
    passed: Pass
    external: bool


def crawl_context(
    config: Config,
    *,
    store: Store,
    session: int,
    clock: Clock,
    observer: Observer | None = None,
    sinks: Sinks | None = None,
    page_queue: PageQueue | None = None,
    link_filter: LinkFilter | None = None,
    deadline: ContactDeadline | None = None,
    faults: FaultOwner = FaultOwner.CRAWL,
) -> CrawlContext:
    """The context of a new crawl. faults: who handles faults of this machine. What `observer`
    raises is logged, and the crawl continues."""
    observer = None if observer is None else all_of([observer])
    effective = CurrentConfig(config)
    return CrawlContext(
        config=effective,
        clock=clock,
        store=store,
        session=session,
        frontier=Frontier(
            effective,
            clock,
            store,
            observer=observer,
            sinks=sinks,
            deadline=deadline,
            faults=faults,
            referrers=page_queue is not None,
        ),
        scope=Scope(effective.scope_of, max_depth=config.crawl.max_depth),
        observer=observer,
        sinks=sinks,
        page_queue=page_queue,
        link_filter=link_filter,
    )
