"""Whatever mixture of failing servers a plain crawl meets: it ends within its patience of the last
progress, and says of everything that stays queued why."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crawler.fetching.request import Request
from crawler.testing import JumpClock, Reply, html, not_found, redirect, text
from policies.retries import FailureCode
from policies.url import host_of
from storage.store import Outcome
from tests.crawler.scheduling.test_outage import Watcher

PATIENCE_S = 10.0
# One request at its longest (fetch.timeout is 5 s here, robots.txt has 30), a rest, a look.
BOUND_S = 45.0

ROBOTS = (
    "absent",
    "503",
    "503 soon",
    "500",
    "429 soon",
    "silent",
    "reset",
    "refused",
    "to the dead",
    "to a neighbour",
    "loop",
    "no name",
    "body breaks",
    "delay",
)
PAGES = (
    "page",
    "503",
    "503 soon",
    "503 soon then page",
    "429",
    "429 soon",
    "500",
    "silent",
    "reset",
    "refused",
    "refused at times",
    "no name",
    "body breaks",
    "slow",
    "redirect loop",
    "redirect to the dead",
    "403",
    "401",
    "tls",
)


class Servers:
    """Hosts with a behaviour of their robots.txt and one of their pages each."""

    def __init__(self, hosts: list[tuple[str, str]], dialect: str) -> None:
        self.hosts, self.dialect = hosts, dialect
        self.asked: dict[str, int] = {}

    def __call__(self, request: Request) -> Reply | FailureCode:
        host = host_of(request.url)
        count = self.asked[host] = self.asked.get(host, 0) + 1
        if host == "dead.test":
            return FailureCode.CONNECT
        n = int(host.removeprefix("h").removesuffix(".test"))
        robots, pages = self.hosts[n]
        if request.url.endswith("/robots.txt"):
            return self._robots(robots, n)
        return self._page(pages, host, count)

    def _robots(self, kind: str, n: int) -> Reply | FailureCode:
        match kind:
            case "503" | "500":
                return text("", status=int(kind))
            case "503 soon" | "429 soon":
                return Reply(status=int(kind[:3]), headers={"Retry-After": "4"})
            case "silent":
                return Reply(delay_s=1_000)
            case "reset":
                return FailureCode.PROTOCOL
            case "refused":
                return FailureCode.CONNECT
            case "no name":
                return FailureCode.DNS
            case "body breaks":
                return FailureCode.BODY
            case "to the dead":
                return redirect("http://dead.test/robots.txt")
            case "to a neighbour":
                return redirect(f"http://h{(n + 1) % len(self.hosts)}.test/robots.txt")
            case "loop":
                return redirect(f"http://h{n}.test/robots.txt")
            case "delay":
                return text("User-agent: *\nCrawl-delay: 8\n")
        return not_found()

    def _page(self, kind: str, host: str, count: int) -> Reply | FailureCode:
        match kind:
            case "503" | "429" | "500" | "403" | "401":
                return text("", status=int(kind))
            case "503 soon" | "429 soon":
                return Reply(status=int(kind[:3]), headers={"Retry-After": "9"})
            case "503 soon then page" if count % 4:
                return Reply(status=503, headers={"Retry-After": "9"})
            case "silent":
                return Reply(delay_s=1_000)
            case "reset":
                return FailureCode.PROTOCOL
            case "refused":
                return FailureCode.CONNECT
            case "refused at times" if count % 3:
                return FailureCode.CONNECT
            case "tls":
                return FailureCode.TLS
            case "no name":
                return FailureCode.DNS
            case "body breaks":
                return FailureCode.BODY
            case "slow":
                return Reply(delay_s=4)
            case "redirect loop":
                return redirect(f"http://{host}/loop{count}")
            case "redirect to the dead":
                return redirect(f"http://dead.test/{count}")
        return html("ParsedPage")


class Progress(Watcher):
    """When something last progressed: a URL was done with, or tried for the first time."""

    def __init__(self, clock: JumpClock) -> None:
        super().__init__()
        self._clock = clock
        self._last_s = clock.monotonic()
        self.longest_s = 0.0  # without any
        self._tried: set[str] = set()

    def progressed(self) -> None:
        now_s = self._clock.monotonic()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s

    def settled(self, url: str, outcome: Outcome) -> None:
        if type(outcome).__name__ in ("Visited", "Blocked", "Failed") or url not in self._tried:
            self.progressed()
        self._tried.add(url)

    def gave_up(self, slot: str, origin: str, error: str, count: int) -> None:
        self.progressed()


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    hosts=st.lists(
        st.tuples(st.sampled_from(ROBOTS), st.sampled_from(PAGES)), min_size=1, max_size=6
    ),
    pages=st.integers(1, 6),
    dialect=st.sampled_from(["slurp", "google", "rfc9309"]),
    unreachable=st.sampled_from(["", "closed"]),
)
@example(hosts=[("absent", "503 soon")], pages=6, dialect="slurp", unreachable="")
@example(
    hosts=[("429 soon", "page"), ("absent", "refused")],
    pages=6,
    dialect="slurp",
    unreachable="closed",
)
async def test_a_plain_crawl_ends_within_its_patience_of_the_last_progress(
    hosts: list[tuple[str, str]], pages: int, dialect: str, unreachable: str
) -> None:
    from tests.conftest import World

    async with JumpClock() as clock:
        world = World(clock)
        progress = Progress(clock)
        seeds = [f"http://h{n}.test/{page}" for n in range(len(hosts)) for page in range(pages)]
        crawled = await world.crawl(
            Servers(hosts, dialect),
            *seeds,
            observer=progress,
            crawl={"patience": PATIENCE_S},
            fetch={"timeout": 5},
            robots={"dialect": dialect, "unreachable": unreachable},
            scope={"follow": "any"},
            cap_s=5_000,
        )
        progress.progressed()  # the end
        assert progress.longest_s <= PATIENCE_S + BOUND_S
        for row in crawled.rows["queued"]:
            assert host_of(str(row["url"])) in crawled.waiting, row
        assert all(why for _, why in crawled.waiting.values())
