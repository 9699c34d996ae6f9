"""The tools: each takes checked arguments and returns text for a language model."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
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
from crawler.explain.formatting import at, counted
from crawler.explain.robots_tester import KnownRobots
from crawler.explain.site_text import SiteText
from crawler.mcp_server.answers import (
    CALLS_OF_HOST_MAX,
    Answer,
    Refusal,
    ToolAnswer,
    TooManyCallsError,
)
from crawler.mcp_server.arguments import FetchArguments, Format, RobotsArguments, UrlArguments
from crawler.mcp_server.page_text import NoTextError, PageText, page_text
from crawler.mcp_server.robots_report import add_report, add_verdict
from crawler.scheduling.robots_identity import reading
from crawler.threads import Threads, in_thread
from policies.url import host_of, origin_of, robots_url
from storage.location import Location

# Clients give up after 60 s by default; the request itself takes time as well.
WAIT_S: Final = 20.0
CONVERSIONS: Final = 2  # pages converted at the same time
REDIRECTS_SHOWN: Final = 5
TYPE_CHARS_SHOWN: Final = 80
KEPT_S: Final = 600.0
PAGES_MAX: Final = 64
BYTES_MAX: Final = 32_000_000  # of bodies and texts


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
        self._waiting: Counter[str] = Counter()  # calls, by host

    # ------------------------------------------------------------ fetch

    async def fetch(self, asked: FetchArguments) -> ToolAnswer:
        """Fetch a page, or take it from memory, and return a part of its text."""
        url = canonical_url(asked.url)
        # Calls for the same page at the same time, such as for two parts of it, share a request.
        lock = self._fetching.setdefault(url, asyncio.Lock())
        with self._counted(url):
            async with lock:
                page = None if asked.fresh else self._memory.get(url, self._clock.monotonic())
                age_s = None if page is None else self._clock.wall() - page.fetched_at
                if page is None:
                    page = await self._requested(url, asked.max_wait_s)
        try:
            text = page.texts.get(asked.format) or await self._text(page, asked.format)
        except NoTextError as error:
            return _no_text(url, page.response, error.kind).answer()
        page.texts[asked.format] = text
        self._memory.put(url, page)
        return _page_part(url, page, text, asked, age_s=age_s)

    async def _requested(self, url: str, max_wait_s: float | None) -> KeptPage:
        response = await self._get(url, max_wait_s)
        page = KeptPage(
            response=response, fetched_at=self._clock.wall(), kept_s=self._clock.monotonic()
        )
        self._memory.put(url, page)
        return page

    @contextlib.contextmanager
    def _counted(self, url: str) -> Iterator[None]:
        """Count a call that may wait for the host of a URL. Raises TooManyCallsError: calls for a
        host that never answers must leave room for others."""
        host = host_of(url)
        if self._waiting[host] >= CALLS_OF_HOST_MAX:
            raise TooManyCallsError
        self._waiting[host] += 1
        try:
            yield
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host]

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
        answer = Answer()
        may = "Yes: {} may be fetched." if allowed else "No: {} may not be fetched."
        answer.say(may.format(url))
        await in_thread(add_verdict, answer, self._config, known, url)
        if allowed:
            await self._add_turn(answer, url)
        return answer.done()

    async def robots(self, asked: RobotsArguments) -> ToolAnswer:
        """Report what the robots.txt of the URL's origin says for this crawler."""
        url = canonical_url(asked.url)
        known = await self._robots(url, asked.max_wait_s)
        answer = Answer()
        await in_thread(add_report, answer, self._config, known, url)
        return answer.done()

    async def _robots(self, url: str, max_wait_s: float | None) -> KnownRobots:
        """What is known of the robots.txt; fetched if it is due."""
        max_wait_s = self._max_wait_s if max_wait_s is None else max_wait_s
        timeout_s = self._config.site(host_of(url)).fetch.timeout_s
        try:
            with self._counted(url):
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

    async def _add_turn(self, answer: Answer, url: str) -> None:
        turn = await self._session.next_turn(url)
        if turn.in_s <= 0:
            answer.say("The site may be contacted now.")
            return
        answer.say(f"The site may be contacted in {format_duration(turn.in_s)}.")
        answer.quote("Reason of the wait", SiteText(turn.reason))

    # ------------------------------------------------------------ why

    async def why(self, asked: UrlArguments) -> ToolAnswer:
        """Explain what is known of a URL: the verdict in full, its host's turn, and the crawl."""
        url = canonical_url(asked.url)
        answer = Answer()
        answer.say(url)
        if self._database is not None:
            await self._add_the_crawl(answer, self._database, url)
        try:
            known = await self._robots(url, asked.max_wait_s)
        except (FetchFailed, WaitTooLong) as error:
            answer.say("No verdict: robots.txt was not read.")
            answer.quote("No verdict", SiteText(str(error)))
        else:
            config = self._config
            await in_thread(add_verdict, answer, config, known, url, every_dialect=True)
            await self._add_turn(answer, url)
        page = self._memory.get(url, self._clock.monotonic())
        if page is not None:
            answer.say(f"Fetched here at {at(page.fetched_at)} with status {page.response.status}.")
        return answer.done()

    async def _add_the_crawl(self, answer: Answer, database: Location, url: str) -> None:
        """Add what the crawl's database holds about the URL; read-only."""
        async with looking_into(database) as reader:
            config = self._config
            known = await reading(reader)
            if known:
                config = config.override({"robots": known}, where="the database")
            context = ExplainContext(config=config, default=True)
            explained = await explain_url(reader, context, url, now_s=self._clock.wall())
        answer.say("What the crawl knows of it is quoted below.")
        for sentence in explained.sentences:
            answer.quote("In the crawl", SiteText(sentence))


def _page_part(
    url: str, page: KeptPage, text: PageText, asked: FetchArguments, *, age_s: float | None
) -> ToolAnswer:
    """A part of the text, after lines that describe it. url: that the caller asked for. `age_s`: of
    a page from memory."""
    response = page.response
    answer = Answer()
    age = "" if age_s is None else f" ({format_duration(age_s)} ago; fresh=true requests it again)"
    fetched = f"{format_bytes(len(response.body))}, fetched at {at(page.fetched_at)}{age}"
    answer.say(f"URL: {url}", f"Status: {response.status}, {fetched}")
    if response.redirects:
        answer.say(f"Redirected: {counted(len(response.redirects), 'time')}, as quoted below.")
    total = len(text.text)
    start = min(asked.start, total)
    end = min(start + asked.max_chars, total)
    whole = start == 0 and end == total
    more = f"; continue with start={end}" if end < total else ""
    part = f"all {total:,} characters" if whole else f"characters {start:,} to {end:,} of {total:,}"
    answer.say(f"Text: {text.kind}; {part}{more}")
    if asked.start > total:
        answer.say(f"Note: start={asked.start} is beyond the end of the text.")
    answer.say(*(f"Note: {note}" for note in text.notes))
    if response.status >= 400:
        answer.say("Note: the status is an error, so this may not be the page you want.")
    if start == 0:
        _add_facts(answer, response, text)
    answer.quote_text(text.text.cut(start, end))
    return answer.done(failed=response.status >= 400)


def _add_facts(answer: Answer, response: Response, text: PageText) -> None:
    """What the site says of the page beside its text."""
    if response.redirects:
        hops = [one.url for one in response.redirects[1:REDIRECTS_SHOWN]]
        answer.quote("Redirected to", SiteText(" -> ".join([*hops, response.url])))
    kind = media_type(response.content_type) or "no type"
    answer.quote("Type", SiteText(kind[:TYPE_CHARS_SHOWN]))
    if text.title:
        answer.quote("Title", text.title)
    if text.usage:
        answer.quote("Preferences on the use of this content", SiteText(str(text.usage)))


def _no_text(url: str, response: Response, kind: SiteText) -> Refusal:
    return Refusal(
        what=f"Fetched, but not shown: {url} (status {response.status})",
        why=f"The body is not text. It has {format_bytes(len(response.body))}.",
        again="No.",
        instead="Look for the same content as a web page, or give the URL to the user.",
        quoted={"Type": kind},
    )


@dataclass(slots=True, kw_only=True)
class KeptPage:
    """A response and the texts made of it so far. fetched_at: Unix seconds."""

    response: Response
    fetched_at: float
    kept_s: float  # on the monotonic clock
    texts: dict[Format, PageText] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        texts = sum(len(each.text) for each in self.texts.values())
        return len(self.response.body) + 2 * texts


class PageMemory:
    """Keeps recent pages by the URL that was asked for, the oldest of which is forgotten first."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, KeptPage] = OrderedDict()

    def get(self, url: str, now_s: float) -> KeptPage | None:
        """The page, if it is at most KEPT_S old. now_s: of the monotonic clock."""
        page = self._pages.get(url)
        if page is None or now_s - page.kept_s > KEPT_S:
            return None
        return page

    def put(self, url: str, page: KeptPage) -> None:
        """Keep a page, also after a text was added to it, and forget others beyond the limits."""
        self._pages[url] = page
        self._pages.move_to_end(url)
        while len(self._pages) > PAGES_MAX or (
            self._pages and sum(each.size_bytes for each in self._pages.values()) > BYTES_MAX
        ):
            self._pages.popitem(last=False)
