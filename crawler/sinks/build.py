"""Construction of sinks from the config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crawler.clock import Clock
from crawler.config import Config, ConfigError, SinkConfig, from_dict
from crawler.fetching.content_coding import ACCEPT_ENCODING
from crawler.fetching.fetcher import ACCEPT
from crawler.sinks.dispatch import (
    PageCallback,
    PageFunction,
    SinkFilter,
    SinkRoute,
    Sinks,
    WithdrawnFunction,
)
from crawler.sinks.sink import Sink
from crawler.version import __version__


def build_sinks(
    config: Config, called: Sequence[PageCallback] = (), *, clock: Clock | None = None
) -> Sinks:
    """Build the configured sinks, unopened. A sink kind is imported only when it is configured."""
    return Sinks(
        [SinkRoute(sink=_sink(one, config), filter=_filter(one)) for one in config.sinks],
        called,
        clock=clock,
    )


def page_callback(
    call: PageFunction, *, withdrawn: WithdrawnFunction | None = None, **options: Any
) -> PageCallback:
    """Create a callback with options as in a `[[sink]]`. Raises ConfigError."""
    return PageCallback(call=call, withdrawn=withdrawn, filter=page_filter(**options))


def page_filter(**options: object) -> SinkFilter:
    """Create a filter of pages from options as in a `[[sink]]`. Raises ConfigError."""
    data = {"kind": "jsonl", "path": "of a function", **options}
    try:
        (sink,) = from_dict({"sink": [data]}, where="add_sink").sinks
    except ConfigError as error:
        raise ConfigError(*(text.replace(": sink.", ": ", 1) for text in error.problems)) from None
    return _filter(sink)


def _filter(sink: SinkConfig) -> SinkFilter:
    return SinkFilter(
        include=sink.include,
        exclude=sink.exclude,
        statuses=frozenset(sink.status),
        content_types=sink.content_types,
        noindex=sink.noindex,
        body=sink.body != "none",
        links=sink.kind == "jsonl" and sink.links,
        requisites=sink.kind == "mirror" and sink.requisites,
        scripts=sink.scripts,
        session_headers=sink.session_headers,
    )


def _sink(sink: SinkConfig, config: Config) -> Sink:
    if sink.kind == "warc":
        from crawler.sinks.warc import Warc

        return Warc(sink, about=_about(config), sent=_sent(config), mode=config.storage.mode)
    if sink.kind == "mirror":
        from crawler.sinks.mirror import Mirror

        return Mirror(sink, mode=config.storage.mode)
    from crawler.sinks.jsonl import JsonLines

    return JsonLines(sink, mode=config.storage.mode)


def _sent(config: Config) -> dict[str, str]:
    """Return the request headers that are sent to every host and are not secret."""
    sent = {
        "User-Agent": config.user_agent_sent,
        "Accept": ACCEPT,
        "Accept-Encoding": ACCEPT_ENCODING,
    }
    if config.crawl.from_:
        sent["From"] = config.crawl.from_
    return sent


def _about(config: Config) -> dict[str, str]:
    """Return the warcinfo fields: the operator and the robots policy (ISO 28500, section 6.3)."""
    robots = config.robots
    policy = f"obeyed (dialect {', '.join(robots.dialect)}; as {', '.join(config.token(''))}"
    if robots.unreachable is not None:
        policy += f"; {robots.unreachable} while unavailable"
    own = [name for name in config.sites if config.given.sites[name].get("robots", {})]
    if own:
        policy += f"; otherwise for {', '.join(own)}"
    return {
        "software": f"courtly/{__version__}",
        "format": "WARC File Format 1.1",
        "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        "operator": config.crawl.from_ or config.user_agent_sent,
        "robots": policy + ")",
        "http-header-user-agent": config.user_agent_sent,
        "http-header-from": config.crawl.from_,
    }
