"""Explain the state of a URL or host in sentences, for `courtly why`, the API and the web page."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from crawler.config import Config, ConfigError, seeds_of
from crawler.config.units import format_bytes
from crawler.explain import sentences
from crawler.explain.formatting import counted
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
from storage.reader import Reader
from storage.store import Row

_AGENT = re.compile(r"[\ufeff\s]*user-?agent\s*:", re.IGNORECASE)
_PAGE_STARTS = ("<!doctype", "<html", "<head", "<?xml", "<body")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainContext:
    """The config to judge by, and how to refer to it."""

    config: Config
    again: str = ""  # options that name the database and config, for the commands suggested
    default: bool = False  # no config was given: the crawl's own may judge otherwise
    named: bool = False  # a user agent was given
    scope: Scope | None = None  # of the running crawl; else built from all known seeds

    @property
    def whose(self) -> str:
        return "the default config" if self.default else "this config"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a URL or a host.

    `row` comes from `Reader.url` or `Reader.host`; None if it is unknown. `host` is the row of a
    URL's host.
    """

    name: str  # the URL, or the host, as the database has it
    row: Row | None
    sentences: tuple[str, ...]
    host: Row | None = None


async def explain_url(
    reader: Reader,
    context: ExplainContext,
    text: str,
    *,
    now_s: float,
    waits: Callable[[Row], str] | None = None,
) -> Explanation:
    """Explain the state of a URL.

    `waits` returns what the URL's host waits for in a running crawl, "" if that is unknown; without
    it, the host's row decides. Raises SeedError for an invalid URL.
    """
    config = context.config
    url = parse_seed(text)
    row = await reader.url(url)
    if row is None:  # it may be known without the parameters that the config drops
        shorter = (await _scope(reader, context)).admit(url)
        if shorter != url and (row := await reader.url(shorter)):
            url = shorter
    found: list[str] = []
    if row is None:
        found.append("unknown to this database: neither a seed nor a followed link leads to it")
        found += await _out_of_scope(reader, context, url, None)
        host = await known_host(reader, host_of(url))
    else:
        found += sentences.url_sentences(row, now_s, again=context.again)
        if chain := await _chain(reader, row):
            found.append(sentences.redirect_sentence(chain))
        host = await reader.host(str(row["host"]))
        if row["state"] == "skipped" and row.get("reason") is None:
            found += await _out_of_scope(reader, context, url, None)
        if row["state"] == "queued" and host is not None:
            held = await _out_of_scope(reader, context, url, row) or _host_limit(
                context.config, host, it="its host", whose=context.whose
            )
            found += held
            if waits is not None and (live := waits(host)):
                found.append(f"its host, in the running crawl: {live}")
            elif context.default or not held:
                found += sentences.wait_sentences(host, now_s)
    found += await _verdict(reader, config, url, row, host, now_s)
    return Explanation(name=url, row=row, sentences=tuple(found), host=host)


async def _chain(reader: Reader, row: Row) -> list[str]:
    """The URLs whose redirects led to this one, then the URL itself; empty if none did."""
    urls = [str(row["url"])]
    before: Row | None = row
    while len(urls) <= HOPS_MAX and before is not None and before["hops"] and before["referrer"]:
        urls.append(str(before["referrer"]))
        before = await reader.url(urls[-1])
    return urls[::-1] if len(urls) > 1 else []


async def explain_host(
    reader: Reader, config: Config, name: str, *, now_s: float, waits: str = ""
) -> Explanation:
    """Explain the state of a host (lower case, no port).

    `waits`: what it waits for in a running crawl.
    """
    row = await known_host(reader, name)
    if row is None:
        unknown = "unknown to this database: no URL on this host has ever been queued"
        return Explanation(name=name, row=None, sentences=(unknown,))
    slot = str(row["host"])
    files = row["robots"] if isinstance(row["robots"], list | tuple) else ()
    (counts,) = [each async for each in reader.iterate("hosts", host=slot)]
    held: list[str] = []
    if waits:
        held = [f"in the running crawl: {waits}"]
    elif counts["queued"]:
        held = _host_limit(config, row, it="it", whose="the config")
    found = [*sentences.host_sentences(row, now_s, waits=held)]
    found += sentences.contact_sentences(counts, row["contacts"])  # the view counts all of them
    if not files and (waits.startswith(sentences.FORBIDDEN) or await _is_forbidden(reader, slot)):
        found.append(f"robots.txt: not fetched, because {sentences.FORBIDDEN} its address")
    elif not files and sentences.is_unreachable(row):
        found.append("robots.txt: not fetched, because no connection could be made")
    for each in files:
        copy = await reader.robots_copy(each["origin"])
        rules = config.site(host_of(f"{each['origin']}/")).robots
        policy = None if copy is None else robots_policy(copy, now_s=now_s, rules=rules)
        found.append(sentences.robots_sentence(each, now_s))
        found += sentences.policy_sentences(policy, now_s)
    return Explanation(name=slot, row=row, sentences=tuple(found), host=row)


async def _is_forbidden(reader: Reader, slot: str) -> bool:
    """Whether the config did not allow the address of a host, as one of its failed URLs tells."""
    async with aclosing(reader.iterate("failed", host=slot, limit=1)) as rows:
        return any([sentences.is_forbidden(row) async for row in rows])


def host_named(text: str) -> str:
    """The host as the store names it: lower case, no port, no brackets. Raises ValueError."""
    text = text.strip()
    bare_address = text.count(":") > 1 and not text.startswith("[")
    url = None
    if text and "@" not in text:
        url = canonical(f"http://[{text}]/" if bare_address else f"http://{text}/")
    if url is None or url.count("/") > 3 or "?" in url:
        raise ValueError(f'"{without_userinfo(text)}" is not a host such as example.com')
    return host_of(url)


async def known_host(reader: Reader, host: str) -> Row | None:
    """The row of a host, which may be stored under its domain (`politeness.per = "domain"`)."""
    return await reader.host(host) or await reader.host(registrable_domain(host))


async def _scope(reader: Reader, context: ExplainContext) -> Scope:
    """The scope of the running crawl; without one, the config's, around the seeds of the database
    and of the config."""
    if context.scope is not None:
        return context.scope
    config = context.config
    scope = Scope(lambda host: config.site(host).scope, max_depth=config.crawl.max_depth)
    seeds = [url async for urls in reader.seeds() for url in urls]
    with contextlib.suppress(ConfigError):  # a missing seed file does not matter here
        seeds += seeds_of(config)
    for seed in seeds:
        scope.add_root(seed)
    return scope


async def _out_of_scope(
    reader: Reader, context: ExplainContext, url: str, row: Row | None
) -> list[str]:
    """Why scope, judged by the config at hand, excludes a queued URL, or would exclude an unknown
    one; for an unknown URL, also that it would be admitted."""
    known = row or {}
    depth = known.get("depth")
    scope = await _scope(reader, context)
    host = host_of(url)
    skip = scope.judge(
        url,
        host=host,
        depth=depth if isinstance(depth, int) else 0,
        seed=known.get("seed") is True,
        requisite=known.get("requisite") is True
        and (bool(context.config.given.sinks) or context.config.requisites),
        lead=known.get("seed") is True and known.get("hops") != 0,
        link=True,
    )
    if row is not None and row.get("sitemap"):  # it may be of any host
        skip = None if context.config.site(host).scope.sitemaps else Skip.SITEMAPS
    if skip is not None:
        found = sentences.skip_sentence(skip, context.whose)
        hint = "; name the crawl's own config with --config"
        return [found + hint if context.default else found]
    return [] if row is not None else [f"{context.whose} admits it, if a link leads to it"]


def _host_limit(config: Config, host: Row, *, it: str, whose: str) -> list[str]:
    """Whether a host has reached a limit on its pages or bytes in the config at hand."""
    rules = config.site(str(host["host"])).scope
    visited, body_bytes = host["visited"], host["body_bytes"]
    if not isinstance(visited, int) or not isinstance(body_bytes, int):
        return []
    limit = rules.host_limit(visited, body_bytes)
    if limit is None:
        return []
    if limit is Skip.MAX_PAGES_PER_HOST:
        used, most = counted(visited, "page"), f"{rules.max_pages_per_host:,.0f}"
    else:
        used = f"{format_bytes(body_bytes)} of pages"
        most = format_bytes(int(rules.max_bytes_per_host))
    return [f"held back: {it} has delivered {used}, and {whose} allows {most} ({SKIP_KEYS[limit]})"]


async def _verdict(
    reader: Reader,
    config: Config,
    url: str,
    row: Row | None,
    host_row: Row | None,
    now_s: float,
) -> list[str]:
    """The verdict of robots.txt: for a blocked URL by the copy that blocked it, else by the latest
    one."""
    origin, host = origin_of(url), host_of(url)
    copy = await reader.robots_copy(origin)
    if copy is None or (copy.status is None and not copy.failures):
        if sentences.is_forbidden(row):
            return [f"{robots_url(origin)}: not fetched, because {sentences.FORBIDDEN} its address"]
        if sentences.is_unreachable(host_row, row):
            return [f"{robots_url(origin)}: not fetched, because no connection could be made"]
        return [f"{robots_url(origin)}: not fetched yet"]
    known = {each["origin"]: each async for each in reader.iterate("robots", host=host)}
    lines = [sentences.robots_sentence(known[origin], now_s)] if origin in known else []
    if lines and known[origin]["state"] in ("rules", "stale") and copy.body is not None:
        remark = await in_thread(lambda: web_page_remark(copy.body or b""))
        lines += [remark[:1].lower() + remark[1:].rstrip(".")] if remark else []
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

    # In threads: a hostile file takes up to a second.
    if blocked is not None and body is not None:
        of_line = await in_thread(lambda: sentences.deciding_line(robots.parse(body), blocked))
        if blocked["reason"] == "redirect":  # the target was judged, by its own robots.txt
            return [*lines, *of_line]
        line, sentence = await in_thread(judged, body)
        if line != blocked["line"]:
            lines += of_line
            whose += " (not the one it was blocked for)"
        elif body != copy.body:
            lines.append("robots.txt has changed since; verdict of the copy that blocked it:")
        lines.append(f"{whose}: {sentence}")
        if body == copy.body:
            return lines
        whose = "by the current copy"
    policy = robots_policy(copy, now_s=now_s, rules=rules)
    if not isinstance(policy, Governed):
        return lines + sentences.policy_sentences(policy, now_s)
    _, sentence = await in_thread(judged, policy.body)
    return [*lines, f"{whose}: {sentence}"]


def remark_on(body: str) -> tuple[str, str]:
    """A word and a sentence about a file that is not what it seems; "" and "" if it is.

    Parsers read rules wherever they stand, so that those within a web page apply.
    """
    start = body.lstrip("\ufeff \t\r\n")
    if not start:
        return "empty", "The file is empty, so it forbids nothing."
    has_group = any(_AGENT.match(line) for line in body.splitlines())
    if start[:9].lower().startswith(_PAGE_STARTS):
        if has_group:
            return "a web page", "This is a web page, but some of its lines are read as rules."
        return "a web page", "This is a web page and no robots.txt: it has no rules."
    if not has_group:
        return "no rules", "The file names no User-agent, so none of its rules apply."
    return "", ""


def web_page_remark(body: bytes) -> str:
    """The sentence if a file is a web page, else ""."""
    word, sentence = remark_on(body.decode("utf-8", "replace"))
    return sentence if word == "a web page" else ""
