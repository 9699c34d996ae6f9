"""Every key of the config file but those of sinks: its unit, what it accepts and what it means.

One table serves the reader, the JSON Schema and the tests that hold config.example.toml to it.
Defaults stand in the rule types themselves (`policies`) and in `crawler.config.sections`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crawler.config import checks, secrets
from crawler.config.key import NAMED_TEXTS, TEXTS, Key, as_given, whole_path
from crawler.config.readers import (
    at_least_one,
    count,
    duration_s,
    each,
    maybe,
    number,
    one_of,
    one_or_many,
    size_bytes,
    size_limit,
    size_or_none,
    whole,
)
from crawler.config.sections import LogLevel
from policies.access import Unreachable
from policies.pacing import Per
from policies.revisit import Revisit
from policies.robots import DIALECTS
from policies.scope import HOPS_MAX, Follow


def _dialects() -> Sequence[str]:
    return tuple(DIALECTS)


def _members(of: type[Per | Follow | Revisit | Unreachable | LogLevel]) -> tuple[str, ...]:
    return tuple(member.value for member in of)


CRAWL = {
    "user_agent": Key(
        accepts=str,
        read=checks.user_agent,
        note="the crawler's name and contact; required beyond loopback",
    ),
    "from": Key(
        accepts=str,
        read=maybe(checks.sender, ""),
        note="e-mail for the From header",
        field="from_",
    ),
    "seeds": Key(
        accepts=TEXTS,
        read=each(checks.seed),
        note='URLs; also files, one URL a line: "@seeds.txt"',
    ),
    "concurrency": Key(
        accepts=int,
        read=whole(least=1, most=65_536),
        note="requests in flight over all hosts",
    ),
    "max_pages": Key(accepts=float, read=count(), note="pages visited in this run"),
    "max_depth": Key(accepts=float, read=count(), note="links from a seed; a redirect adds none"),
    "patience": Key(
        accepts=float | str,
        read=duration_s(inf=True),
        note="a plain crawl ends when nothing can progress for this long",
        field="patience_s",
    ),
}
SCOPE = {
    "follow": Key(
        accepts=str,
        read=one_of(lambda: _members(Follow), Follow),
        note="which links are ours, relative to the seeds and to where they redirect",
        choices=_members(Follow),
    ),
    "include": Key(
        accepts=TEXTS,
        read=each(checks.url_pattern),
        note="glob patterns on whole URLs; empty: all",
    ),
    "exclude": Key(
        accepts=TEXTS, read=each(checks.url_pattern), note="glob patterns on whole URLs"
    ),
    "content_types": Key(
        accepts=TEXTS,
        read=each(checks.media_type),
        note='such as "text/html"; empty: all',
    ),
    "drop_params": Key(
        accepts=TEXTS,
        read=each(checks.parameter),
        note='query parameters to drop, such as "utm_*"',
    ),
    "max_pages_per_host": Key(accepts=float, read=count(), note="pages visited at one host"),
    "max_bytes_per_host": Key(
        accepts=float | str,
        read=size_limit,
        note="bytes of the decoded bodies of the pages visited at one host",
    ),
    "max_url_bytes": Key(
        accepts=int | str, read=size_bytes, note="longer URLs are left out, bytes"
    ),
    "max_path_segments": Key(accepts=int, read=whole(least=1), note="deeper paths are left out"),
    "max_repeated_segment": Key(
        accepts=int, read=whole(least=1), note="the same segment at most so often in a path"
    ),
    "max_queries_per_path": Key(
        accepts=int, read=whole(least=0), note="different queries of one path"
    ),
    "sitemaps": Key(
        accepts=bool,
        read=as_given,
        note="read the sitemaps that robots.txt names, and seeds that are such",
    ),
    "sitemap_paths": Key(
        accepts=TEXTS,
        read=each(checks.file_path),
        note="where to look for a sitemap if robots.txt names none",
    ),
    "requisites": Key(
        accepts=bool,
        read=as_given,
        note="fetch the images, styles, scripts, fonts and media of pages, on any host",
    ),
}
POLITENESS = {
    "delay": Key(
        accepts=float | str,
        read=duration_s(),
        note="the least rest after a contact, seconds",
    ),
    "latency_factor": Key(
        accepts=float,
        read=number(),
        note="rest at least this many times the host's recent response time",
    ),
    "per": Key(
        accepts=str,
        read=one_of(lambda: _members(Per), Per),
        note='what a delay counts for; "ip" adds a clock for each address',
        choices=_members(Per),
    ),
    "ip_delay": Key(
        accepts=float | str,
        read=duration_s(),
        note='the least rest of an address, with per = "ip", seconds',
    ),
    "concurrency_per_host": Key(
        accepts=int,
        read=whole(least=1, most=1_000),
        note="requests in flight at one host, each resting the delay",
    ),
    "visit_window": Key(
        accepts=str, read=maybe(checks.window), note='"22:00-06:00" UTC; empty: all day'
    ),
}
ROBOTS = {
    "dialect": Key(
        accepts=str | TEXTS,
        read=at_least_one(one_or_many(one_of(_dialects))),
        note="how robots.txt is read; of a list the strictest counts",
        choices=tuple(DIALECTS),
    ),
    "token": Key(
        accepts=str | TEXTS,
        read=maybe(one_or_many(checks.robots_token), ()),
        note="our name in robots.txt; default: the user agent's product token; or a list",
    ),
    "unreachable": Key(
        accepts=str,
        read=maybe(one_of(lambda: _members(Unreachable), Unreachable)),
        note="what a robots.txt that cannot be had means; empty: as the dialect says",
        choices=("", *_members(Unreachable)),
    ),
    "crawl_delay": Key(
        accepts=bool,
        read=as_given,
        note="honour Crawl-delay; false only per site, for sites you own",
        only_in_site=True,
    ),
    "obey": Key(
        accepts=bool,
        read=as_given,
        note="obey robots.txt; false only per site, for sites you own",
        only_in_site=True,
    ),
}
FETCH = {
    "timeout": Key(
        accepts=float | str,
        read=duration_s(above=True),
        note="whole request, seconds",
        field="timeout_s",
    ),
    "max_body": Key(
        accepts=int | str,
        read=size_bytes,
        note="after decompression, bytes",
        field="max_body_bytes",
    ),
    "max_attempts": Key(
        accepts=int, read=whole(least=1, most=1_000), note="tries before a URL fails"
    ),
    "unreachable_for": Key(
        accepts=float | str,
        read=duration_s(inf=True),
        note="how long a host that cannot be connected to is tried before its URLs fail",
        field="unreachable_for_s",
    ),
    "max_redirects": Key(
        accepts=int, read=whole(most=HOPS_MAX), note="redirects in a row before a URL fails"
    ),
    "headers": Key(accepts=NAMED_TEXTS, read=checks.headers, note="further request headers"),
    "proxy": Key(accepts=str, read=maybe(checks.proxy), note="http(s) URL of a proxy"),
    "connect_timeout": Key(
        accepts=float | str,
        read=duration_s(above=True),
        note="the name's lookup, and then TCP and TLS, seconds",
        field="connect_timeout_s",
    ),
    "first_byte_timeout": Key(
        accepts=float | str,
        read=duration_s(above=True, inf=True),
        note="from the request to the end of the answer's header, seconds",
        field="first_byte_timeout_s",
    ),
    "min_rate": Key(
        accepts=float,
        read=number(),
        note="what a body must bring over 10 s, bytes a second; 0: any",
        field="min_rate_bytes_per_s",
    ),
    "max_header": Key(
        accepts=int | str,
        read=size_bytes,
        note="an answer's header, bytes",
        field="max_header_bytes",
    ),
    "max_markup": Key(
        accepts=int | str,
        read=size_bytes,
        note="how much of a page is read for links, bytes",
        field="max_markup_bytes",
    ),
    "cookies": Key(
        accepts=bool, read=as_given, note="keep cookies for this run, each site's apart"
    ),
    "credentials": Key(
        accepts=NAMED_TEXTS,
        read=secrets.credentials,
        note='origin and where its "user:password" or "Bearer TOKEN" is: "env:NAME", "file:PATH"',
        rooted=secrets.rooted,
    ),
    "tls_verify": Key(
        accepts=bool,
        read=as_given,
        note="look at certificates; false only per site, for sites you own",
        only_in_site=True,
    ),
    "ca_file": Key(
        accepts=str,
        read=maybe(checks.path_text),
        note="further authorities to trust, a PEM file; relative to the config file",
        rooted=whole_path,
    ),
}
NETWORK = {
    "allow": Key(
        accepts=TEXTS,
        read=each(checks.address_range),
        note='private ranges that may be connected to, such as "127.0.0.0/8"',
    ),
    "resolve": Key(
        accepts=NAMED_TEXTS,
        read=checks.static_names,
        note='static names, such as { "*.test" = "127.0.0.1" }',
    ),
}
STORAGE = {
    "url": Key(
        accepts=str,
        read=checks.storage_url,
        note="the database; a relative path is relative to the config file",
    ),
    "links": Key(
        accepts=bool, read=as_given, note="keep every link of every page, with anchor and rel"
    ),
    "fragments": Key(
        accepts=bool,
        read=as_given,
        note="keep every link with a fragment, and the ids that fragments can point to",
    ),
    "file_mode": Key(
        accepts=str,
        read=checks.file_mode,
        note="permissions of the files that are created, octal; the umask applies as well",
    ),
    "min_free": Key(
        accepts=float | str,
        read=size_or_none,
        note="hold the crawl while less disk space is free, bytes; 0: no minimum",
        field="min_free_bytes",
    ),
    "max_size": Key(
        accepts=float | str,
        read=size_limit,
        note="hold the crawl when the files of the database and of all sinks take more, bytes",
        field="max_size_bytes",
    ),
}
DAEMON = {
    "listen": Key(accepts=str, read=checks.listen, note="address and port"),
    "token": Key(accepts=str, read=checks.secret, note="required when listening beyond loopback"),
    "hosts": Key(
        accepts=TEXTS,
        read=each(checks.authority),
        note="further names accepted in Host and Origin",
    ),
    "log": Key(
        accepts=str,
        read=maybe(checks.path_text),
        note="the log, JSON lines; empty: standard error; relative to the config file",
        rooted=whole_path,
    ),
    "log_level": Key(
        accepts=str,
        read=one_of(lambda: _members(LogLevel), LogLevel),
        note="the least level that is logged",
        choices=_members(LogLevel),
    ),
}
REVISIT = {
    "mode": Key(
        accepts=str,
        read=one_of(lambda: _members(Revisit), Revisit),
        note="whether pages are visited again, at a fixed pace or at that of their changes",
        choices=_members(Revisit),
    ),
    "interval": Key(
        accepts=float | str,
        read=duration_s(above=True),
        field="interval_s",
        note="between visits of a page, seconds; where an adaptive one begins",
    ),
    "min_interval": Key(
        accepts=float | str,
        read=duration_s(above=True),
        field="min_interval_s",
        note="of a page that changes often, seconds",
    ),
    "max_interval": Key(
        accepts=float | str,
        read=duration_s(above=True),
        field="max_interval_s",
        note="of a page that does not change, seconds",
    ),
}
SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "crawl": CRAWL,
    "scope": SCOPE,
    "politeness": POLITENESS,
    "robots": ROBOTS,
    "fetch": FETCH,
    "revisit": REVISIT,
    "network": NETWORK,
    "storage": STORAGE,
    "daemon": DAEMON,
}

# What a [site."…"] table may hold: key -> its section. The names are flat there, so no two of these
# sections may have a key of the same name (a test holds them to it).
SITE_SECTIONS = ("scope", "politeness", "robots", "fetch", "revisit")
SITE_KEYS: Mapping[str, str] = {
    key: section for section in SITE_SECTIONS for key in SECTIONS[section]
}
