"""The tools: each takes checked arguments and returns text for a language model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from crawler.clock import Clock
from crawler.config import Config
from crawler.config.units import format_bytes, format_duration
from crawler.databases import looking_into
from crawler.documents.charset import media_type
from crawler.embedding.caller_verdicts import canonical_url
from crawler.embedding.response import Response
from crawler.embedding.session import PoliteSession
from crawler.errors import FetchFailed, WaitTooLong
from crawler.explain.explanation import ExplainContext, explain_url
from crawler.explain.formatting import at, plain
from crawler.explain.robots_tester import KnownRobots
from crawler.mcp_server.arguments import FetchArguments, Format, RobotsArguments, UrlArguments
from crawler.mcp_server.page_memory import KeptPage, PageMemory
from crawler.mcp_server.page_text import NoTextError, PageText, page_text
from crawler.mcp_server.refusals import Refusal
from crawler.mcp_server.robots_report import robots_report, verdict_sentences
from crawler.mcp_server.site_text import marked
from crawler.scheduling.robots_identity import reading
from crawler.threads import Threads, in_thread
from policies.url import host_of, origin_of, robots_url
from storage.location import Location

# Clients give up after 60 s by default; the request itself takes time as well.
WAIT_S: Final = 20.0
CONVERSIONS: Final = 2  # pages converted at the same time
REDIRECTS_SHOWN: Final = 5
TYPE_CHARS_SHOWN: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """failed: the text explains why the tool did not do what was asked."""

    text: str
    failed: bool = False


class Tools:
    """The tools on one session. `config`: by which verdicts are explained. `database`: of a crawl,
    which `why` reads; None: without one.

    Every method raises the errors of the session.
    """

    def __init__(
        self,
        session: PoliteSession,
        clock: Clock,
        *,
        config: Config,
        max_wait_s: float = WAIT_S,
        database: Location | None = None,
    ) -> None:
        self._session = session
        self._clock = clock
        self._config = config
        self._max_wait_s = max_wait_s
        self._database = database
        self._memory = PageMemory()
        # Not those that the session uses: converting a page may take seconds.
        self._threads = Threads(max_workers=CONVERSIONS, thread_name_prefix="courtly-page")
        self._fetching: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # ------------------------------------------------------------ fetch

    async def fetch(self, asked: FetchArguments) -> ToolAnswer:
        """Fetch a page, or take it from memory, and return a part of its text."""
        url = canonical_url(asked.url)
        # Calls for the same page at the same time, such as for two parts of it, share a request.
        lock = self._fetching.setdefault(url, asyncio.Lock())
        async with lock:
            page = None if asked.fresh else self._memory.get(url, self._clock.monotonic())
            age_s = None if page is None else self._clock.wall() - page.fetched_at
            if page is None:
                response = await self._get(url, asked.max_wait_s)
                page = KeptPage(
                    response=response, fetched_at=self._clock.wall(), kept_s=self._clock.monotonic()
                )
                self._memory.put(url, page)
        try:
            text = page.texts.get(asked.format) or await self._text(page, asked.format)
        except NoTextError as kind:
            return ToolAnswer(text=str(_no_text(page.response, str(kind))), failed=True)
        page.texts[asked.format] = text
        self._memory.put(url, page)
        return ToolAnswer(
            text=_page_part(page, text, asked, age_s=age_s), failed=page.response.status >= 400
        )

    async def _text(self, page: KeptPage, wanted: Format) -> PageText:
        tokens = self._config.token(host_of(page.response.url))
        return await self._threads.run(page_text, page.response, wanted, tokens)

    async def _get(self, url: str, max_wait_s: float | None) -> Response:
        # A model that gets an error decides itself whether to try again.
        max_wait_s = self._max_wait_s if max_wait_s is None else max_wait_s
        return await self._session.get(url, retry=False, max_wait_s=max_wait_s)

    # ------------------------------------------------------------ robots.txt

    async def may_fetch(self, asked: UrlArguments) -> ToolAnswer:
        """Answer yes or no, with the line that decides."""
        url = canonical_url(asked.url)
        known = await self._robots(url, asked.max_wait_s)
        allowed = await self._session.may_fetch(url)
        sentences = await in_thread(verdict_sentences, self._config, known, url)
        answer = f"{'Yes' if allowed else 'No'}: {url} may {'' if allowed else 'not '}be fetched."
        turn = [await self._turn(url)] if allowed else []
        return ToolAnswer(text="\n".join([answer, *sentences, *turn]))

    async def robots(self, asked: RobotsArguments) -> ToolAnswer:
        """Report what the robots.txt of the URL's origin says for this crawler."""
        url = canonical_url(asked.url)
        known = await self._robots(url, asked.max_wait_s)
        report = await in_thread(robots_report, self._config, known, url)
        return ToolAnswer(text=report)

    async def _robots(self, url: str, max_wait_s: float | None) -> KnownRobots:
        """What is known of the robots.txt; fetched if it is due."""
        max_wait_s = self._max_wait_s if max_wait_s is None else max_wait_s
        timeout_s = self._config.site(host_of(url)).fetch.timeout_s
        try:
            async with asyncio.timeout(max_wait_s + timeout_s):
                access = await self._session.robots(url)
        except TimeoutError:
            turn = await self._session.next_turn(url)
            raise WaitTooLong(url, turn.reason, self._clock.wall() + turn.in_s) from None
        return KnownRobots(
            where=robots_url(origin_of(url)),
            access=access,
            now_s=self._clock.wall(),
            fetched=True,
        )

    async def _turn(self, url: str) -> str:
        turn = await self._session.next_turn(url)
        if turn.in_s <= 0:
            return "The site may be contacted now."
        return f"The site may be contacted in {format_duration(turn.in_s)}: {turn.reason}."

    # ------------------------------------------------------------ why

    async def why(self, asked: UrlArguments) -> ToolAnswer:
        """Explain what is known of a URL: the verdict in full, its host's turn, and the crawl."""
        url = canonical_url(asked.url)
        lines = [url]
        if self._database is not None:
            lines += await self._in_the_crawl(self._database, url)
        try:
            known = await self._robots(url, asked.max_wait_s)
        except (FetchFailed, WaitTooLong) as error:
            lines.append(f"No verdict: {plain(str(error))}.")
        else:
            config = self._config
            lines += await in_thread(verdict_sentences, config, known, url, every_dialect=True)
            lines.append(await self._turn(url))
        page = self._memory.get(url, self._clock.monotonic())
        if page is not None:
            lines.append(
                f"Fetched here at {at(page.fetched_at)} with status {page.response.status}."
            )
        return ToolAnswer(text="\n".join(lines))

    async def _in_the_crawl(self, database: Location, url: str) -> list[str]:
        """What the crawl's database holds about the URL; read-only."""
        async with looking_into(database) as reader:
            config = self._config
            known = await reading(reader)
            if known:
                config = config.override({"robots": known}, where="the database")
            context = ExplainContext(config=config, default=True)
            explained = await explain_url(reader, context, url, now_s=self._clock.wall())
        return [f"In the crawl: {plain(sentence)}" for sentence in explained.sentences]


def _page_part(
    page: KeptPage, text: PageText, asked: FetchArguments, *, age_s: float | None
) -> str:
    """A part of the text, after lines that describe it. `age_s`: of a page from memory."""
    response = page.response
    kind = plain(media_type(response.content_type) or "no type")[:TYPE_CHARS_SHOWN]
    age = "" if age_s is None else f" ({format_duration(age_s)} ago; fresh=true requests it again)"
    fetched = f"{kind}, {format_bytes(len(response.body))}, fetched at {at(page.fetched_at)}{age}"
    lines = [f"URL: {response.url}", f"Status: {response.status}, {fetched}"]
    if response.redirects:
        hops = [one.url for one in response.redirects[:REDIRECTS_SHOWN]]
        lines.append(f"Redirected from: {' -> '.join(hops)}")
    total = len(text.text)
    start = min(asked.start, total)
    end = min(start + asked.max_chars, total)
    whole = start == 0 and end == total
    more = f"; continue with start={end}" if end < total else ""
    part = f"all {total:,} characters" if whole else f"characters {start:,} to {end:,} of {total:,}"
    lines.append(f"Text: {text.kind}; {part}{more}")
    if asked.start > total:
        lines.append(f"Note: start={asked.start} is beyond the end of the text.")
    lines += [f"Note: {note}" for note in text.notes]
    if response.status >= 400:
        lines.append("Note: the status is an error, so this may not be the page you want.")
    about = f"Title: {text.title}\n" if text.title else ""
    if text.usage:
        about += f"Preferences on the use of this content: {plain(str(text.usage))}\n"
    shown = (f"{about}\n" if about and start == 0 else "") + text.text[start:end]
    lines.append(marked(shown, origin_of(response.url)))
    return "\n".join(lines)


def _no_text(response: Response, kind: str) -> Refusal:
    return Refusal(
        what=f"Fetched, but not shown: {response.url} (status {response.status})",
        why=f"The body is {kind}, {format_bytes(len(response.body))}, and not text.",
        again="No.",
        instead="Look for the same content as a web page, or give the URL to the user.",
    )
