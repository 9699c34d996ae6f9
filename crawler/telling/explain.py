"""Everything known of one URL or host, in sentences (law 8)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from crawler.config import Config, ConfigError, seeds_of
from crawler.config.units import format_bytes
from crawler.telling import reasons
from crawler.telling.words import counted
from crawler.threads import in_thread
from policies import robots
from policies.robots_policy import Governed, robots_policy
from policies.scope import HOPS_MAX, SKIP_KEYS, Scope, Skip
from policies.url import (
    canonical,
    host_of,
    origin_of,
    parse_seed,
    path_of,
    registrable_domain,
    robots_url,
    without_userinfo,
)
from storage.store import Reader, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the options say."""

    config: Config
    again: str = ""  # the options that name database and config, for what is suggested
    default: bool = False  # no config was given: the crawl's own may judge otherwise
    named: bool = False  # a user agent was given
    scope: Scope | None = None  # of the crawl that runs; else it is made of all seeds there are

    @property
    def whose(self) -> str:
        return "the default config" if self.default else "this config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What is known of a URL, or of a host. `row` is that of `Reader.url` or `Reader.host`, None
    where nothing is known; `host` the row of a URL's host."""

    name: str  # the URL, or the host, as the database has it
    row: Row | None
    sentences: tuple[str, ...]
    host: Row | None = None


async def explain_url(
    reader: Reader,
    asked: Asked,
    text: str,
    *,
    now_s: float,
    waits: Callable[[Row], str] | None = None,
) -> Explained:
    """All that is known of a URL. `waits` gives what the URL's host waits for, where a living crawl
    says so ("" where it does not); else that is read from the host's row. Raises SeedError for what
    is no URL."""
    config = asked.config
    url = parse_seed(text)
    row = await reader.url(url)
    if row is None:  # perhaps it is known without the parameters that the config drops
        shorter = (await _scope(reader, asked)).admit(url)
        if shorter != url and (row := await reader.url(shorter)):
            url = shorter
    told: list[str] = []
    if row is None:
        told.append("unknown to this database: no seed or link that was followed leads to it")
        told += await _left_out(reader, asked, url, None)
        host = await known_host(reader, host_of(url))
    else:
        told += reasons.of_url(row, now_s, again=asked.again)
        if chain := await _chain(reader, row):
            told.append(reasons.redirects(chain))
        host = await reader.host(str(row["host"]))
        if row["state"] == "skipped" and row.get("reason") is None:
            told += await _left_out(reader, asked, url, None)
        if row["state"] == "queued" and host is not None:
            held = await _left_out(reader, asked, url, row) or _full(
                asked.config, host, it="its host", whose=asked.whose
            )
            told += held
            if waits is not None and (live := waits(host)):
                told.append(f"its host, in the crawl that runs now: {live}")
            elif asked.default or not held:
                told += reasons.waits(host, now_s)
    told += await _verdict(reader, config, url, row, host, now_s)
    return Explained(name=url, row=row, sentences=tuple(told), host=host)


async def _chain(reader: Reader, row: Row) -> list[str]:
    """The URLs whose redirects led to this one, and it, from the first; empty if none did."""
    urls = [str(row["url"])]
    before: Row | None = row
    while len(urls) <= HOPS_MAX and before is not None and before["hops"] and before["referrer"]:
        urls.append(str(before["referrer"]))
        before = await reader.url(urls[-1])
    return urls[::-1] if len(urls) > 1 else []


async def explain_host(
    reader: Reader, config: Config, name: str, *, now_s: float, waits: str = ""
) -> Explained:
    """All that is known of a host (lower case, no port). `waits`: what a living crawl says it waits
    for."""
    row = await known_host(reader, name)
    if row is None:
        unknown = "unknown to this database: no URL of this host was ever queued"
        return Explained(name=name, row=None, sentences=(unknown,))
    slot = str(row["host"])
    files = row["robots"] if isinstance(row["robots"], list | tuple) else ()
    (counts,) = [each async for each in reader.iterate("hosts", host=slot)]
    told = [*reasons.of_host(row, now_s)]
    held = _full(config, row, it="it", whose="the config") if counts["queued"] and not waits else []
    if waits or held:
        told = [each for each in told if not each.startswith("it may be contacted")]
        told += held or [f"in the crawl that runs now: {waits}"]
    told += reasons.contacts(counts, row["contacts"])  # the view's are their number
    if not files and reasons.out_of_reach(row):
        told.append("robots.txt: no connection could be made to ask for it")
    for each in files:
        copy = await reader.robots_copy(each["origin"])
        rules = config.site(host_of(f"{each['origin']}/")).robots
        stands = None if copy is None else robots_policy(copy, now_s=now_s, rules=rules)
        told += (reasons.of_robots(each, now_s), *reasons.without_rules(stands, now_s))
    return Explained(name=slot, row=row, sentences=tuple(told), host=row)


def host_named(text: str) -> str:
    """A host as the store names it: lower case, no port, no brackets. Raises ValueError."""
    text = text.strip()
    bare_address = text.count(":") > 1 and not text.startswith("[")
    url = None
    if text and "@" not in text:
        url = canonical(f"http://[{text}]/" if bare_address else f"http://{text}/")
    if url is None or url.count("/") > 3 or "?" in url:
        raise ValueError(f'"{without_userinfo(text)}" is not a host such as example.com')
    return host_of(url)


async def known_host(reader: Reader, host: str) -> Row | None:
    """The row of a host, which may stand under its domain (`politeness.per = "domain"`)."""
    return await reader.host(host) or await reader.host(registrable_domain(host))


async def _scope(reader: Reader, asked: Asked) -> Scope:
    """The scope of the crawl that runs; else by this config, around the seeds that the database has
    and those of the config."""
    if asked.scope is not None:
        return asked.scope
    config = asked.config
    scope = Scope(lambda host: config.site(host).scope, max_depth=config.crawl.max_depth)
    seeds = [url async for urls in reader.seeds() for url in urls]
    with contextlib.suppress(ConfigError):  # a file of seeds that is gone is no matter here
        seeds += seeds_of(config)
    for seed in seeds:
        scope.add_root(seed)
    return scope


async def _left_out(reader: Reader, asked: Asked, url: str, row: Row | None) -> list[str]:
    """Whether scope, judged by the config at hand, does not want this URL (queued, or unknown)."""
    known = row or {}
    depth = known.get("depth")
    scope = await _scope(reader, asked)
    host = host_of(url)
    skip = scope.judge(
        url,
        host=host,
        depth=depth if isinstance(depth, int) else 0,
        seed=known.get("seed") is True,
        requisite=known.get("requisite") is True
        and (bool(asked.config.given.sinks) or asked.config.requisites),
        lead=known.get("seed") is True and known.get("hops") != 0,
    )
    if row is not None and row.get("sitemap"):  # it may be of any host
        skip = None if asked.config.site(host).scope.sitemaps else Skip.SITEMAPS
    if skip is not None:
        told = reasons.left_out(skip, asked.whose)
        return [f"{told}; the crawl's own is named with --config" if asked.default else told]
    return [] if row is not None else [f"{asked.whose} lets it in, if a link leads to it"]


def _full(config: Config, host: Row, *, it: str, whose: str) -> list[str]:
    """Whether its host has had all the pages that the config at hand grants it."""
    rules = config.site(str(host["host"])).scope
    visited, body_bytes = host["visited"], host["body_bytes"]
    if not isinstance(visited, int) or not isinstance(body_bytes, int):
        return []
    limit = rules.host_limit(visited, body_bytes)
    if limit is None:
        return []
    if limit is Skip.MAX_PAGES_PER_HOST:
        had, most = counted(visited, "page"), f"{rules.max_pages_per_host:,.0f}"
    else:
        had = f"pages of {format_bytes(body_bytes)}"
        most = format_bytes(int(rules.max_bytes_per_host))
    return [f"held back: {it} has had {had}, and {whose} grants it {most} ({SKIP_KEYS[limit]})"]


async def _verdict(
    reader: Reader,
    config: Config,
    url: str,
    row: Row | None,
    host_row: Row | None,
    now_s: float,
) -> list[str]:
    """The verdict: of a blocked URL by the copy it was made on, else by what is known now."""
    origin, host = origin_of(url), host_of(url)
    copy = await reader.robots_copy(origin)
    if copy is None or (copy.status is None and not copy.failures):
        if reasons.out_of_reach(host_row, row):
            return [reasons.no_connection(origin)]
        return [f"{robots_url(origin)}: not asked for yet"]
    known = {each["origin"]: each async for each in reader.iterate("robots", host=host)}
    lines = [reasons.of_robots(known[origin], now_s)] if origin in known else []
    rules = config.site(host).robots
    blocked = row if row is not None and row["state"] == "blocked" else None
    if blocked is not None and str(blocked["dialect"]) in robots.DIALECTS:
        rules = msgspec.structs.replace(rules, dialect=(str(blocked["dialect"]),))
    tokens = config.token(host)
    whose = f"for the token {', '.join(tokens)}"
    body = None if blocked is None else await reader.robots_body(url)

    def judged(body: bytes) -> tuple[int | None, str]:
        verdict = robots.parse(body).decide(path_of(url), agent=tokens, dialect=rules.dialect)
        return verdict.line, str(verdict)

    # In threads: a file made to be slow takes up to a second.
    if blocked is not None and body is not None:
        of_line = await in_thread(lambda: reasons.of_line(robots.parse(body), blocked))
        if blocked["reason"] == "redirect":  # judged was the URL at the end, by its own file
            return [*lines, *of_line]
        line, sentence = await in_thread(judged, body)
        if line != blocked["line"]:
            lines += of_line
            whose += " (not the one it was blocked for)"
        elif body != copy.body:
            lines.append("robots.txt has changed since; the copy that this was judged by says:")
        lines.append(f"{whose}: {sentence}")
        if body == copy.body:
            return lines
        whose = "the copy there is now says"
    stands = robots_policy(copy, now_s=now_s, rules=rules)
    if not isinstance(stands, Governed):
        return lines + reasons.without_rules(stands, now_s)
    _, sentence = await in_thread(judged, stands.body)
    return [*lines, f"{whose}: {sentence}"]
