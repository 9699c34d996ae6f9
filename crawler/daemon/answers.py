"""What the daemon answers: the JSON routes, the socket and the HTML pages all stand on this.

Every method gives JSON-ready values of `crawler.daemon.shapes` or raises `Problem`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crawler.clock import Clock
from crawler.control import Control
from crawler.daemon import shapes
from crawler.daemon.stream import Stream
from policies.access import Access
from storage.base import Reader

LIMIT_DEFAULT = 100  # rows of a page
LIMIT_MAX = 1000  # more is a burden for whoever renders it, and holds up the event loop
SEEDS_MAX = 10_000  # of one request; more come in several
CHECKED_MAX = 1000  # URLs of one robots check, times dialects
HOST_SORTS = (
    "host", "queued", "visited", "blocked", "failed", "body_bytes", "delay_s", "next_at",
    "backoff_until", "contacts", "latency_s", "connect_failures",
)  # fmt: skip
HOST_STATES = (
    "all",  # every host
    "queued",  # has URLs to visit
    "waiting",  # has URLs to visit, and may not be contacted yet
    "paused",  # by hand
    "slowed",  # by hand
    "backing-off",  # after a refusal, or as Retry-After asks
    "failing",  # cannot be connected to, or has URLs that failed
    "done",  # nothing is left to visit
)


class Answers:
    """Answers of one living crawl. `fetch_robots` asks for an origin's robots.txt politely, at its
    host's turn in the crawl, and gives what is known then; None: it could not be asked."""

    def __init__(
        self,
        control: Control,
        reader: Reader,
        *,
        clock: Clock,
        stream: Stream,
        fetch_robots: Callable[[str], Awaitable[Access | None]] | None = None,
    ) -> None:
        self._control = control
        self._reader = reader
        self._clock = clock
        self._fetch_robots = fetch_robots
        self.stream = stream

    # ------------------------------------------------------------ looking

    async def status(self) -> shapes.Status:
        """The whole crawl at this moment. Cheap for some seconds' worth of callers: made at most
        four times a second, whoever asks."""
        raise NotImplementedError

    async def hosts(
        self,
        *,
        search: str = "",
        state: str = "all",
        sort: str = "host",
        limit: int = LIMIT_DEFAULT,
        after: str = "",
    ) -> shapes.Hosts:
        """A page of hosts. `search`: part of a name, case ignored. `state`: of HOST_STATES. `sort`:
        of HOST_SORTS (`name` is `host`), "-" before it turns it round; equal ones by name. `after`:
        what the page before gave, asked with the same words."""
        raise NotImplementedError

    async def host(self, host: str) -> shapes.Host:
        """One host, by its name in the hosts view or by any host name that it stands for."""
        raise NotImplementedError

    async def url(self, url: str) -> shapes.UrlAnswer:
        """All that is known of a URL, as `courtly why` says it; 404 if nothing is."""
        raise NotImplementedError

    async def blocked(
        self, *, host: str = "", rule: str = "", limit: int = LIMIT_DEFAULT, after: str = ""
    ) -> shapes.BlockedPage:
        """A page of blocked URLs, of one host and by rules that contain a text (case ignored)."""
        raise NotImplementedError

    async def robots(self, origin: str) -> shapes.RobotsCopy:
        """The robots.txt kept for an origin ("https://example.com"), line by line."""
        raise NotImplementedError

    async def config(self, host: str = "") -> shapes.Settings:
        """The settings that count now, for one host where it is named; secrets are "…"."""
        raise NotImplementedError

    # ------------------------------------------------------------ steering

    async def pause(self) -> shapes.StateAnswer:
        """The whole crawl: no contact begins."""
        raise NotImplementedError

    async def resume(self) -> shapes.StateAnswer:
        """The whole crawl goes on; hosts paused one by one stay so."""
        raise NotImplementedError

    async def host_pause(self, host: str) -> shapes.Controlled:
        raise NotImplementedError

    async def host_resume(self, host: str) -> shapes.Controlled:
        """Clears pause and slow."""
        raise NotImplementedError

    async def host_slow(self, host: str, delay_s: float) -> shapes.Controlled:
        raise NotImplementedError

    async def seeds(self, urls: Sequence[str], priority: float = 0.0) -> shapes.SeedsAnswer:
        """Queue seeds; those that are none are named with the reason, the others are queued."""
        raise NotImplementedError

    async def reload(self, *, dry_run: bool = False) -> shapes.Reloaded:
        """Read the config again. 422 with the config's errors: nothing changed then."""
        raise NotImplementedError

    async def robots_check(
        self,
        *,
        urls: Sequence[str],
        robots: str | None = None,
        url: str | None = None,
        agent: Sequence[str] = (),
        dialect: Sequence[str] = (),
    ) -> shapes.Checked:
        """Verdicts on URLs (or paths) by a robots.txt: the text given, or that of the origin of
        `url`, fetched politely. `agent`: tokens, else the crawl's. `dialect`: several count as the
        strictest of them; ("all",) is one verdict by each; none is the crawl's."""
        raise NotImplementedError
