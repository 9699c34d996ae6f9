"""Origins that no connection can be made to: they cost their own URLs and nobody else's, on the
retry clock, wherever they are met."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from crawler.fetching.request import Answer, Failure, Request
from crawler.testing import FakeFetcher, Reply, html, not_found, redirect, text
from policies.retries import FailureCode

if TYPE_CHECKING:
    from tests.conftest import World

DAY_S = 86_400.0
TWELVE_SECONDS = {"unreachable_for": "12s"}  # the third failure: after 2 s, and 10 s


class Nameless(FakeFetcher):
    """What it answers with `dns` does not exist, and never will."""

    async def fetch(self, request: Request) -> Answer | Failure:
        result = await super().fetch(request)
        if isinstance(result, Failure) and result.code is FailureCode.DNS:
            told = "the name does not exist"
            return msgspec.structs.replace(result, permanent=True, sentence=told)
        return result


# ---------------------------------------------------------------- one origin of several


@pytest.mark.parametrize("code", [FailureCode.DNS, FailureCode.ADDRESS])
async def test_a_name_that_leads_nowhere_fails_alone_in_its_domain(
    world: World, code: FailureCode
) -> None:
    """The URLs that fail in bulk are those of the origin out of
    reach. With `per = "domain"` the names beside it go on; law 9: the refused is asked once."""

    def answers(request: Request) -> Reply | FailureCode:
        if "//dead." in request.url:
            return code
        if request.url.endswith("/robots.txt"):
            return not_found()
        dead = ("http://dead.example.com/", "http://dead.example.com/2")
        return html("ParsedPage", *dead, *(f"/{n}" for n in range(20)))

    crawled = await world.crawl(
        answers,
        "http://www.example.com/",
        fetcher=Nameless(world.clock, answers),
        politeness={"per": "domain"},
        scope={"follow": "domain"},
    )
    assert len(crawled.urls("visited")) == 21
    assert crawled.urls("failed") == ["http://dead.example.com/", "http://dead.example.com/2"]
    assert {str(row["error"]).partition(":")[0] for row in crawled.rows["failed"]} == {code}
    tries = 2 if code is FailureCode.DNS else 1  # a name is looked up twice
    assert crawled.log.paths("dead.example.com") == tries * ["/robots.txt"]


async def test_a_dead_port_is_tried_on_the_retry_clock_and_given_up(world: World) -> None:
    """After `max_attempts` in a row its URLs fail; the contacts its healthy neighbour
    has meanwhile neither delay that nor begin the count anew."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.startswith("https:"):
            return FailureCode.CONNECT
        if request.url.endswith("/robots.txt"):
            return not_found()
        return html("ParsedPage", "https://a.test/secure", *(f"/{n}" for n in range(100)))

    crawled = await world.crawl(answers, "http://a.test/", fetch=TWELVE_SECONDS)
    assert len(crawled.urls("visited")) == 101
    assert crawled.urls("failed") == ["https://a.test/secure"]
    tries = [entry for entry in crawled.entries(path="/robots.txt") if entry.status is None]
    assert len(tries) == 3
    assert tries[1].start_s - tries[0].end_s >= 2  # and not before the hand of URLs is empty
    assert tries[2].start_s - tries[1].end_s >= 10
    assert crawled.elapsed_s < 125


async def test_the_retry_clock_holds_where_robots_txt_is_not_obeyed(world: World) -> None:
    """A blip of five seconds is not three failures, one for each URL in hand."""
    began_s = world.clock.monotonic()

    def answers(_: Request) -> Reply | FailureCode:
        return html("ParsedPage") if world.clock.monotonic() > began_s + 5 else FailureCode.CONNECT

    seeds = [f"http://a.test/{n}" for n in range(8)]
    crawled = await world.crawl(
        answers,
        *seeds,
        site={"a.test": {"obey": False}},
        crawl={"user_agent": "testbot/1.0 (+https://a.test/bot)"},
    )
    assert crawled.urls("visited") == seeds
    assert crawled.at()[:3] == pytest.approx([0.0, 2.05, 12.1], abs=0.1)


@pytest.mark.parametrize("latency_s", [0.05, 0.8, 1.5, 1.9])
async def test_what_one_blip_cuts_off_on_several_lanes_does_not_fail_the_host(
    world: World, latency_s: float
) -> None:
    """`max_attempts` failures *in a row*. Lanes that could not connect during a blip,
    one after the other, at once, or while another's answer was still on its way, leave the host
    where it was: it goes on when the blip is over."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return not_found()
        if 5 < world.clock.monotonic() - start_s < 7:
            return FailureCode.CONNECT
        return html("ParsedPage", *(f"/{n}" for n in range(100)))

    start_s = world.clock.monotonic()
    crawled = await world.crawl(
        answers,
        "http://a.test/",
        latency_s=latency_s,
        politeness={"concurrency_per_host": 3},
        cap_s=600,
    )
    assert None in {entry.status for entry in crawled.log}
    assert len(crawled.urls("visited")) == 101
    assert crawled.urls("failed") == []


async def test_lanes_that_fail_together_are_one_failure(world: World) -> None:
    """Further tries come on the retry clock. What was under way on other lanes when the
    first could not connect is none of them, however many they are and however long they take."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return not_found()
        tried.append(request.url)
        if 5 < len(tried) <= 11:
            return FailureCode.CONNECT
        return html("ParsedPage", *(f"/{n}" for n in range(40)))

    tried: list[str] = []
    crawled = await world.crawl(
        answers,
        "http://a.test/",
        latency_s=3,
        politeness={"concurrency_per_host": 6, "delay": 0.1, "latency_factor": 0},
    )
    assert max(Counter(e.end_s for e in crawled.log if e.status is None).values()) > 3
    assert len(crawled.urls("visited")) == 41
    assert crawled.urls("failed") == []


async def test_an_origin_that_waits_for_a_hop_elsewhere_does_not_hold_its_host(
    world: World,
) -> None:
    """No turn is held while another is awaited. What waits for a robots.txt on a resting
    host is that origin's URLs; the other origins of its host go on."""

    def answers(request: Request) -> Reply:
        match request.url:
            case "http://b.test/robots.txt":
                return Reply(status=429, headers={"Retry-After": "500"})
            case "https://a.test/robots.txt":
                return redirect("http://b.test/shared.txt")
            case "http://a.test/robots.txt":
                return not_found()
        return html("ParsedPage", *(f"/{n}" for n in range(60)))

    crawled = await world.crawl(answers, "http://b.test/", "https://a.test/x", "http://a.test/")
    http = [s for s in crawled.at("a.test") if s < 400]
    assert len(http) > 60
    assert max(http) < 80


# ---------------------------------------------------------------- robots.txt elsewhere


async def test_a_robots_txt_that_leads_to_a_dead_origin_opens_nothing(world: World) -> None:
    """DNS and connection failures open nothing: they are the host's failure, also when met at a
    redirect hop as at the first."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url == "http://a.test/robots.txt":
            return redirect("https://a.test/robots.txt")
        return FailureCode.CONNECT if request.url.startswith("https:") else html("ParsedPage")

    crawled = await world.crawl(answers, "http://a.test/", fetch=TWELVE_SECONDS)
    assert set(crawled.log.paths()) == {"/robots.txt"}
    assert crawled.urls("failed") == ["http://a.test/"]
    assert len(crawled.log) == 6  # three tries on the retry clock, two hops each
    gaps = [b - a for a, b in zip(crawled.at()[1::2], crawled.at()[2::2], strict=False)]
    assert 2 <= gaps[0] < 4
    assert 10 <= gaps[1] < 12


async def test_many_origins_behind_one_dead_hop_share_its_failures(world: World) -> None:
    """A host that only redirects lead to is tried no more often
    for all of them than for one."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return redirect("http://cdn.test/shared.txt")
        return FailureCode.CONNECT if "//cdn.test" in request.url else html("ParsedPage")

    seeds = [f"http://h{n}.test/" for n in range(20)]
    crawled = await world.crawl(answers, *seeds, fetch=TWELVE_SECONDS)
    assert crawled.urls("visited") == []
    assert len(crawled.urls("failed")) == 20
    tries = crawled.at("cdn.test")
    assert len(tries) <= 5
    assert all(b - a >= 2 for a, b in itertools.pairwise(tries))


async def test_law_9_a_refused_address_is_never_retried(world: World) -> None:
    """Neither for a second URL of it, nor in the life of the crawl, nor for the robots.txt that
    leads there; and it fails with the code `address`."""

    def answers(request: Request) -> Reply | FailureCode:
        if "//10.0.0.1" in request.url:
            return FailureCode.ADDRESS
        if request.url == "http://b.test/robots.txt":
            return redirect("http://10.0.0.1/robots.txt")
        if request.url.endswith("/robots.txt"):
            return text("User-agent: *\nCrawl-delay: 60\n")
        return html("ParsedPage", *(f"/{n}" for n in range(60)))

    crawled = await world.crawl(
        answers, "http://a.test/", "http://10.0.0.1/", "http://10.0.0.1/2", "http://b.test/"
    )
    assert crawled.elapsed_s > 3600
    assert crawled.urls("failed") == ["http://10.0.0.1/", "http://10.0.0.1/2", "http://b.test/"]
    assert all(str(row["error"]).startswith("address: ") for row in crawled.rows["failed"])
    assert len(crawled.entries("10.0.0.1")) <= 2  # at once for itself, or for b's hop to it
    assert crawled.log.paths("b.test") == ["/robots.txt"]


async def test_law_9_a_name_that_moves_to_a_refused_address_fails_at_once(world: World) -> None:
    """Judged on every connection, not only on the first."""

    def answers(request: Request) -> Reply | FailureCode:
        if request.url.endswith("/robots.txt"):
            return not_found()
        return FailureCode.ADDRESS if request.url.endswith("/3") else html("", "/1", "/2", "/3")

    crawled = await world.crawl(answers, "http://a.test/")
    assert crawled.log.paths("a.test").count("/3") == 1
    assert crawled.urls("failed") == ["http://a.test/3"]
    assert crawled.urls("queued") == []


async def test_the_contacts_of_a_host_that_only_hops_lead_to_are_committed(world: World) -> None:
    """Law 7: the ring of recent contacts lies in the store and does not gather in memory."""

    def answers(request: Request) -> Reply:
        if "//cdn.test" in request.url:
            return text("User-agent: *\nDisallow: /x\n")
        name = request.url.split("/")[2]
        if request.url.endswith("/robots.txt"):
            return redirect(f"http://cdn.test/{name}.txt")
        return html("ParsedPage")

    def look() -> None:
        assert world.scheduler
        if host := world.scheduler.frontier.permits.hosts.get("cdn.test"):
            waiting.append(len(host.contacts_new))

    waiting: list[int] = []
    crawled = await world.crawl(
        answers,
        *(f"http://h{n}.test/" for n in range(60)),
        at={float(s): look for s in range(1, 60)},
    )
    assert len(crawled.entries("cdn.test")) == 60
    assert max(waiting) <= 1
    row = await world.store.reader.host("cdn.test")
    assert row is not None
    assert row["contacts"]


# ---------------------------------------------------------------- whose host is it


SHARED = {
    "http://a.test/robots.txt": replace(redirect("http://b.test/shared.txt"), delay_s=1),
    "http://b.test/shared.txt": text("User-agent: *\nDisallow: /\n"),
    "http://a.test/": html("A"),
}


async def test_a_hop_to_a_host_that_is_just_being_released_waits_for_it(world: World) -> None:
    """Law 2: the last moments of a lease of our own are no reason to do without a verdict."""

    def release() -> None:
        assert world.scheduler
        host = world.scheduler.frontier.permits.hosts.get("b.test")
        assert host is not None
        world.scheduler.leases.release(host)  # what making room does

    def answers(request: Request) -> Reply:
        if request.url == "http://a.test/robots.txt":
            world.clock.call_at(world.clock.monotonic() + 1.04, release)  # 10 ms before it answers
        return SHARED.get(request.url) or not_found()

    async def linger(*_: object, **__: object) -> None:
        await world.wait(0.2)

    world.medium.before["complete"] = linger
    crawled = await world.crawl(answers, "http://a.test/", "http://b.test/robots.txt")
    assert crawled.urls("blocked") == ["http://a.test/"]


async def test_a_hop_to_a_host_that_is_just_being_claimed_waits_for_it(world: World) -> None:
    """Law 2: nor are the first moments of a lease of our own."""

    async def linger(*_: object, **__: object) -> None:
        await world.wait(0.5)

    world.medium.after["claim"] = linger
    answers = {
        **SHARED,
        "http://a.test/robots.txt": replace(redirect("http://b.test/shared.txt"), delay_s=1.15),
        "http://b.test/": html("B"),
        "http://c.test/": html("C", "http://b.test/"),
    }
    crawled = await world.crawl(
        answers, "http://a.test/", "http://c.test/", scope={"follow": "any"}
    )
    claimed_s, hopped_s = 1.1, 1.7
    assert crawled.at("c.test", "/")[0] < claimed_s + 0.5
    assert crawled.at("b.test", "/shared.txt")[0] == pytest.approx(hopped_s, abs=0.6)
    assert crawled.urls("blocked") == ["http://a.test/"]


async def test_a_hop_to_a_host_that_has_had_its_pages_is_made(world: World) -> None:
    """Law 2: `max_pages_per_host` counts pages. A host that reached it still says what governs
    another."""
    answers = {
        **SHARED,
        "http://a.test/robots.txt": replace(redirect("http://b.test/shared.txt"), delay_s=20),
        "http://b.test/": html("B", "/1", "/2"),
    }
    crawled = await world.crawl(
        answers, "http://a.test/", "http://b.test/", scope={"max_pages_per_host": 1}
    )
    assert crawled.urls("visited") == ["http://b.test/"]
    assert crawled.urls("blocked") == ["http://a.test/"]
    assert min(crawled.log.gaps("b.test")) >= 1
