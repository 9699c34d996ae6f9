"""Simulated sites, which behave differently over time, and the log of what was requested of them.

The log is what the oracles judge by: it is kept here, at the other end of the wire, and nothing in
it comes from the program.
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from crawler.clock import Clock
from crawler.fetching.request import Answer, Failure, Request
from crawler.testing import FakeFetcher, Reply
from policies.retries import FailureCode
from policies.url import host_of, origin_of, path_of

ALWAYS: Final = math.inf
CALLERS: Final = "/call"  # paths that nothing links to: only callers request them


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsPlan:
    """What a host answers for its robots.txt.

    kind: "rules", "absent" (404), "denied" (403), "error" (503), "busy" (429), "timeout", "reset",
    "dns", "html", or "redirect" to the robots.txt of `target`.
    """

    kind: str = "rules"
    disallow: tuple[str, ...] = ()
    crawl_delay_s: float | None = None
    request_rate_s: int | None = None
    visit_time: str | None = None
    sitemap: bool = False
    retry_after_s: int | None = None
    max_age_s: int | None = None
    target: str = ""
    etag: bool = False

    def text(self, host: str) -> str:
        lines = ["User-agent: *"]
        lines += [f"Disallow: {prefix}" for prefix in self.disallow or ("",)]
        if self.crawl_delay_s is not None:
            lines.append(f"Crawl-delay: {self.crawl_delay_s:g}")
        if self.request_rate_s is not None:
            lines.append(f"Request-rate: 1/{self.request_rate_s}")
        if self.visit_time is not None:
            lines.append(f"Visit-time: {self.visit_time}")
        if self.sitemap:
            lines.append(f"Sitemap: http://{host}/map.xml")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """What a host answers for one of its pages.

    kind: "page", "redirect", "gone" (404 or 410), "denied" (403), or a failure for good: "error"
    (500), "busy" (429 or 503), "timeout", "reset".
    fails: this many requests are first answered by `failure` (one of those kinds). failures: or
      one by each of these, in turn.
    """

    kind: str = "page"
    links: tuple[str, ...] = ()  # URLs; of a redirect, the target alone
    status: int = 0  # if not the usual one of its kind
    fails: int = 0
    failure: str = "error"
    failures: tuple[str, ...] = ()
    retry_after_s: int | None = None
    as_date: bool = False
    slow_s: float = 0.0
    noindex_from_s: float = ALWAYS
    nofollow: bool = False
    changes_every_s: float = ALWAYS
    validators: bool = False


@dataclass(slots=True, kw_only=True)
class HostPlan:
    """One host. Times are seconds since the scenario began."""

    name: str
    address: str
    latency_s: float
    robots: list[tuple[float, RobotsPlan]]  # from when on; the first from the beginning
    pages: dict[str, PagePlan]
    dead: list[tuple[float, float, str]] = field(default_factory=list)  # from, to, failure
    sitemap: tuple[str, ...] = ()  # paths that its sitemap lists

    def robots_at(self, at_s: float) -> RobotsPlan:
        return [plan for from_s, plan in self.robots if from_s <= at_s][-1]


@dataclass(slots=True, kw_only=True)
class Contact:
    """One request as its site saw it. Times are monotonic seconds of the clock."""

    number: int
    worker: int
    url: str
    start_s: float
    end_s: float = ALWAYS
    wall_s: float = 0.0  # of the worker, at the start
    status: int | None = None
    failure: FailureCode | None = None
    links: tuple[str, ...] = ()
    robots: RobotsPlan | None = None  # what its robots.txt said, if it was asked for that
    retry_after_s: float | None = None  # seconds from the answer, or from the start if a date
    retry_date: bool = False
    headers: dict[str, str] = field(default_factory=dict)  # of the request
    noindex: bool = False
    nofollow: bool = False
    version: int = 0
    broken_off: bool = False  # by the crawler: it was killed or cancelled
    address: str = ""

    @property
    def host(self) -> str:
        return host_of(self.url)

    @property
    def origin(self) -> str:
        return origin_of(self.url)

    @property
    def path(self) -> str:
        return path_of(self.url)

    @property
    def is_robots(self) -> bool:
        return self.path == "/robots.txt"

    @property
    def is_callers(self) -> bool:
        return self.path.startswith(CALLERS)

    @property
    def is_sitemap(self) -> bool:
        return self.path.endswith(".xml")

    @property
    def answered(self) -> bool:
        """Whether it had a complete answer that is not an error or a refusal."""
        return self.status is not None and self.status < 500 and self.status != 429

    def __str__(self) -> str:
        end = "…" if self.end_s == ALWAYS else f"{self.end_s:.3f}"
        what = self.status if self.failure is None else self.failure.value
        note = "" if self.retry_after_s is None else f" retry-after={self.retry_after_s:g}"
        if self.broken_off:
            what = f"{what} broken off"
        return f"{self.start_s:12.3f} – {end:>12} w{self.worker} {self.url} → {what}{note}"


class Web:
    """The sites of a scenario, at a clock."""

    def __init__(self, hosts: dict[str, HostPlan], began_s: float, wall: Callable[[], float]):
        self.hosts = hosts
        self.began_s = began_s
        self.wall = wall  # of the sites, which nobody sets
        self.contacts: list[Contact] = []
        self._asked: dict[str, int] = {}
        # By the number of a contact: what happens as soon as it has ended, before the crawler
        # learns of it.
        self.at_end: dict[int, Callable[[], None]] = {}

    def begin(self, url: str, worker: int, clock: Clock) -> Contact:
        contact = Contact(
            number=len(self.contacts), worker=worker, url=url, start_s=clock.monotonic(),
            wall_s=clock.wall(), address=self.address_of(host_of(url)),
        )  # fmt: skip
        self.contacts.append(contact)
        return contact

    def address_of(self, host: str) -> str:
        plan = self.hosts.get(host)
        return plan.address if plan else "127.0.0.1"

    def answer(self, contact: Contact) -> Reply | FailureCode:
        """What the site answers; notes it in the log."""
        at_s = contact.start_s - self.began_s
        plan = self.hosts.get(contact.host)
        if plan is None:
            return self._failed(contact, "dns")
        for from_s, to_s, failure in plan.dead:
            if from_s <= at_s < to_s:
                return self._failed(contact, failure)
        if contact.is_robots:
            return self._robots(contact, plan, plan.robots_at(at_s))
        if contact.path == "/map.xml" and plan.sitemap:
            return self._sitemap(contact, plan)
        if contact.is_callers:
            return self._reply(contact, 200, "a caller's document\n", {})
        page = plan.pages.get(contact.path)
        if page is None:
            return self._reply(contact, 404, "not found", {})
        times = self._asked[contact.url] = self._asked.get(contact.url, 0) + 1
        kind = page.failure if times <= page.fails else page.kind
        if times <= len(page.failures):
            kind = page.failures[times - 1]
        return self._page(contact, plan, page, kind, at_s)

    # ------------------------------------------------------------ robots.txt

    def _robots(self, contact: Contact, plan: HostPlan, robots: RobotsPlan) -> Reply | FailureCode:
        contact.robots = robots
        headers: dict[str, str] = {}
        if robots.retry_after_s is not None:
            headers["Retry-After"] = str(robots.retry_after_s)
        if robots.max_age_s is not None:
            headers["Cache-Control"] = f"max-age={robots.max_age_s}"
        match robots.kind:
            case "rules":
                body = robots.text(plan.name)
                if robots.etag:
                    headers["ETag"] = f'"{abs(hash_of(body))}"'
                    if contact.headers.get("if-none-match") == headers["ETag"]:
                        return self._reply(contact, 304, "", headers)
                return self._reply(contact, 200, body, headers, content_type="text/plain")
            case "html":
                return self._reply(contact, 200, "<!DOCTYPE html><p>Welcome</p>", headers)
            case "redirect":
                headers["Location"] = f"http://{robots.target}/robots.txt"
                return self._reply(contact, 301, "", headers)
            case "absent" | "denied" | "error" | "busy":
                status = {"absent": 404, "denied": 403, "error": 503, "busy": 429}[robots.kind]
                return self._reply(contact, status, "", headers)
            case failure:
                return self._failed(contact, failure)

    def _sitemap(self, contact: Contact, plan: HostPlan) -> Reply:
        contact.links = tuple(f"http://{plan.name}{path}" for path in plan.sitemap)
        listed = "".join(f"<url><loc>{url}</loc></url>" for url in contact.links)
        return self._reply(
            contact, 200, f"<urlset>{listed}</urlset>", {}, content_type="application/xml"
        )

    # ------------------------------------------------------------ pages

    def _page(
        self, contact: Contact, plan: HostPlan, page: PagePlan, kind: str, at_s: float
    ) -> Reply | FailureCode:
        headers: dict[str, str] = {}
        if page.retry_after_s is not None and (kind != page.kind or page.fails == 0):
            headers["Retry-After"] = str(page.retry_after_s)
            if page.as_date:
                now_s = self.wall()
                headers["Retry-After"] = email.utils.formatdate(
                    now_s + page.retry_after_s, usegmt=True
                )
        match kind:
            case "page":
                return self._document(contact, page, headers, at_s)
            case "redirect":
                headers["Location"] = page.links[0]
                contact.links = page.links[:1]
                return self._reply(contact, page.status or 302, "", headers)
            case "gone" | "denied" | "error" | "busy":
                usual = {"gone": 404, "denied": 403, "error": 500, "busy": 503}[kind]
                status = page.status if page.status and kind == page.kind else usual
                return self._reply(contact, status, "", headers, delay_s=page.slow_s)
            case failure:
                return self._failed(contact, failure)

    def _document(
        self, contact: Contact, page: PagePlan, headers: dict[str, str], at_s: float
    ) -> Reply:
        contact.version = 0 if page.changes_every_s == ALWAYS else int(at_s / page.changes_every_s)
        contact.nofollow = page.nofollow
        if at_s >= page.noindex_from_s:
            headers["X-Robots-Tag"] = "noindex"
            contact.noindex = True
        contact.links = page.links
        if page.validators:
            headers["ETag"] = f'"v{contact.version}"'
            if contact.headers.get("if-none-match") == headers["ETag"]:
                contact.links = ()
                return self._reply(contact, 304, "", headers, delay_s=page.slow_s)
        meta = '<meta name="robots" content="nofollow">' if page.nofollow else ""
        links = "".join(f'<a href="{url}">{n}</a>' for n, url in enumerate(page.links))
        body = (
            f"<!DOCTYPE html><title>{contact.path} {contact.version}</title>{meta}"
            f"<body>version {contact.version} of {contact.path}{links}</body>"
        )
        return self._reply(contact, 200, body, headers, delay_s=page.slow_s)

    # ------------------------------------------------------------ the log

    def _reply(
        self,
        contact: Contact,
        status: int,
        body: str,
        headers: dict[str, str],
        *,
        content_type: str = "text/html",
        delay_s: float = 0.0,
    ) -> Reply:
        contact.status = status
        after = headers.get("Retry-After")
        if after is not None:
            if after.isdigit():
                contact.retry_after_s = float(after)
            else:
                at_s = email.utils.parsedate_to_datetime(after).timestamp()
                contact.retry_after_s, contact.retry_date = at_s - self.wall(), True
        delay_s += self.hosts[contact.host].latency_s
        return Reply(
            status=status, body=body, headers=headers, content_type=content_type, delay_s=delay_s
        )

    def _failed(self, contact: Contact, failure: str) -> FailureCode:
        code = {
            "dns": FailureCode.DNS,
            "connect": FailureCode.CONNECT,
            "timeout": FailureCode.TIMEOUT,
            "reset": FailureCode.PROTOCOL,
        }[failure]
        contact.failure = code
        if contact.is_robots and failure in ("timeout", "reset"):
            contact.robots = RobotsPlan(kind=failure)
        return code


def hash_of(text: str) -> int:
    """The same in every process."""
    value = 7
    for character in text:
        value = (value * 31 + ord(character)) % (2**61 - 1)
    return value


class SiteFetcher(FakeFetcher):
    """The network of one worker: it leads to the simulated sites."""

    def __init__(self, web: Web, worker: int, clock: Clock) -> None:
        super().__init__(clock, {}, latency_s=0.01)
        self._web = web
        self._worker = worker
        self._of: dict[int, Contact] = {}

    async def address_of(self, host: str) -> str | Failure:
        return self._web.address_of(host)

    async def fetch(self, request: Request) -> Answer | Failure:
        contact = self._web.begin(request.url, self._worker, self._clock)
        contact.headers = {name.lower(): value for name, value in request.headers.items()}
        self._of[id(request)] = contact
        self.addresses[contact.host] = contact.address
        try:
            return await super().fetch(request)
        except BaseException:
            contact.broken_off = True
            contact.status = contact.failure = None
            contact.links = ()
            raise
        finally:
            self._of.pop(id(request), None)
            contact.end_s = self._clock.monotonic()
            self.log.clear()
            if (happens := self._web.at_end.pop(contact.number, None)) is not None:
                happens()

    def _reply(self, request: Request) -> Reply | FailureCode:
        contact = self._of[id(request)]
        reply = self._web.answer(contact)
        limit_s = request.limits.timeout_s
        if isinstance(reply, Reply) and self._latency_s + reply.delay_s > limit_s:
            contact.status, contact.failure, contact.links = None, FailureCode.TIMEOUT, ()
            contact.robots = None if contact.robots is None else TIMED_OUT
            contact.retry_after_s = None
        return reply


TIMED_OUT: Final = RobotsPlan(kind="timeout")
