"""A reloaded config applies to waiting hosts immediately, and makes no contact early (law 1); an
invalid one changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.config import Config, ConfigError, from_dict
from crawler.fetching.request import Request
from crawler.operator_commands import (
    AddSeeds,
    CrawlState,
    PauseHosts,
    Reload,
    Reloaded,
    ResumeHosts,
    SlowHosts,
)
from crawler.processing.context import crawl_context
from crawler.scheduling.scheduler import Scheduler
from crawler.steering.control import Control
from crawler.testing import Answers, FakeFetcher, JumpClock, Reply, html, not_found, text
from tests.conftest import ConfigFrom

if TYPE_CHECKING:
    from tests.conftest import Crawled, World

Sections = Mapping[str, Mapping[str, object]]
LATENCY_S = 0.05
BOT = "testbot/1.0 (+https://a.test/bot)"


class File:
    """A config file with its current content, and the results of reloads."""

    def __init__(self, world: World, **sections: Mapping[str, object]) -> None:
        self.world = world
        self.sections: dict[str, Any] = {
            **sections,
            "crawl": {"patience": "10m", "user_agent": BOT, **sections.get("crawl", {})},
            "scope": {"sitemap_paths": [], **sections.get("scope", {})},
        }
        self.answers: list[Reloaded] = []
        self.refused: list[tuple[str, ...]] = []

    def read(self) -> Config:
        return from_dict(self.sections)

    def write(
        self, *, dry_run: bool = False, **sections: Mapping[str, object]
    ) -> Callable[[], None]:
        """An action that writes other sections and reloads them."""

        async def reload() -> None:
            try:
                self.answers.append(await self.world.control.execute(Reload(dry_run=dry_run)))
            except ConfigError as error:
                self.refused.append(error.problems)

        def act() -> None:
            for name, section in sections.items():
                self.sections[name] = {**self.sections.get(name, {}), **section}
            self.world.do(reload())

        return act

    async def crawl(
        self,
        answers: Answers,
        *seeds: str,
        at: Mapping[float, Callable[[], None]],
        forever: bool = False,
    ) -> Crawled:
        return await self.world.crawl(
            answers, *seeds, at=at, forever=forever, reread=self.read, **self.sections
        )


def pages(host: str, count: int) -> dict[str, Reply]:
    return {f"http://{host}/{n:03}": html(str(n)) for n in range(count)}


def stop(world: World) -> Callable[[], None]:
    return lambda: world.control.stop()  # noqa: PLW0108 - there is none yet


# ---------------------------------------------------------------- the pace


async def test_a_longer_delay_counts_from_the_last_contact(world: World) -> None:
    file = File(world)
    answers = pages("a.test", 4)
    crawled = await file.crawl(answers, *answers, at={2.5: file.write(politeness={"delay": 10.0})})
    # robots.txt at 0, pages at 1.05 and 2.10, which ended at 2.15
    assert crawled.at("a.test")[:5] == pytest.approx([0, 1.05, 2.1, 12.15, 22.2], abs=0.01)
    assert file.answers[0].changes == ("1 host: delay 1 s to 10 s",)


async def test_law_6_a_longer_delay_counts_from_the_restart_after_a_crash(world: World) -> None:
    """Nothing was committed of the last contact before the crash."""
    file = File(world)
    answers = pages("a.test", 9)
    before = await world.crawl(
        answers, *answers, latency_s=0.5, at={4.9: world.kill}, crawl={"user_agent": BOT}
    )
    killed_s = before.start_s + 4.9
    assert before.entries()[-1].start_s + 0.5 > killed_s - 0.5
    crawled = await file.crawl(answers, at={0.2: file.write(politeness={"delay": 60.0})})
    assert crawled.entries()[0].start_s >= killed_s + 60


async def test_law_6_a_delay_that_an_operator_removed_does_not_last(world: World) -> None:
    file = File(world)
    answers = pages("a.test", 9)
    await world.crawl(answers, *answers, at={2.2: world.kill}, crawl={"user_agent": BOT})
    crawled = await file.crawl(
        answers,
        at={
            0.2: lambda: world.do(world.control.execute(SlowHosts(host="a.test", delay_s=300.0))),
            30.0: lambda: world.do(world.control.execute(ResumeHosts(host="a.test"))),
        },
    )
    assert crawled.at()[0] == pytest.approx(30.0, abs=0.1)


async def test_a_shorter_delay_counts_from_the_last_contact(world: World) -> None:
    file = File(world, politeness={"delay": 100.0})
    answers = pages("a.test", 3)
    crawled = await file.crawl(
        answers,
        *answers,
        at={
            110.0: file.write(politeness={"delay": 40.0}),
            150.0: file.write(politeness={"delay": 0.5}),
        },
    )
    # robots.txt 0, page 100.05; then at 140.1 (a rest of 40 s); then at once, at 150
    assert crawled.at("a.test") == pytest.approx([0, 100.05, 140.1, 150.0], abs=0.01)
    assert [row["breaches"] for row in crawled.rows["hosts"]] == [0]


async def test_a_shorter_delay_applies_to_a_host_not_contacted_in_this_run(world: World) -> None:
    """The delay from the previous run is recalculated."""
    answers = pages("a.test", 3)
    first = File(world, politeness={"delay": 1000.0})
    await first.crawl(answers, *answers, at={10.0: stop(world)}, forever=True)
    again = File(world, politeness={"delay": 1000.0}, crawl={"patience": "1h"})
    crawled = await again.crawl(answers, at={100.0: again.write(politeness={"delay": 300.0})})
    assert crawled.at("a.test")[0] == pytest.approx(290.05, abs=0.1)


async def test_a_site_table_applies_to_its_hosts_only(world: World) -> None:
    file = File(world, crawl={"max_pages": 100})
    answers = pages("a.test", 6) | pages("b.test", 6)
    crawled = await file.crawl(
        answers, *answers, at={3.0: file.write(site={"b.test": {"delay": 7.0}})}
    )
    assert crawled.at("a.test")[-1] == pytest.approx(6 * 1.05, abs=0.01)
    rests = [b - a for a, b in itertools.pairwise(crawled.at("b.test"))]
    assert rests[-3:] == pytest.approx([7.05] * 3, abs=0.01)
    assert file.answers[0].changes == ("1 host: delay 1 s to 7 s",)


@settings(max_examples=20, deadline=None)
@given(
    delays=st.lists(
        st.tuples(st.sampled_from((0.3, 1.0, 2.5, 9.0)), st.floats(0.1, 12.0)), max_size=6
    ),
    lanes=st.integers(1, 3),
)
def test_law_1_no_contact_is_early_under_any_reloads(
    delays: list[tuple[float, float]], lanes: int
) -> None:
    """At the start of a contact, the delay in effect *then* has
    passed since as many contacts as there are lanes ended."""
    import asyncio

    from tests.conftest import World

    async def run() -> None:
        async with JumpClock() as clock:
            world = World(clock)
            start = {"delay": 1.0, "latency_factor": 0, "concurrency_per_host": lanes}
            file = File(world, politeness=start)
            at: dict[float, Callable[[], None]] = {}
            now_s, steps = 0.0, [(0.0, 1.0)]
            for delay_s, after_s in delays:
                now_s += after_s
                steps.append((now_s, delay_s))
                at[now_s] = file.write(politeness={"delay": delay_s})
            answers = pages("a.test", 12)
            crawled = await file.crawl(answers, *answers, at=at)
            starts = crawled.at("a.test")
            for n, begin_s in enumerate(starts):
                if n < lanes:
                    continue
                before = [delay for at_s, delay in steps if at_s <= begin_s - 1e-9][-1]
                now = [delay for at_s, delay in steps if abs(at_s - begin_s) < 1e-9]
                delay_s = min(before, *now) if now else before  # at one moment: either comes first
                follows_s = starts[n - lanes] + LATENCY_S
                assert begin_s - follows_s >= delay_s - 1e-6
            assert [row["breaches"] for row in crawled.rows["hosts"]] == [0]
            assert len(crawled.urls("visited")) == 12

    asyncio.run(run())


async def test_law_1_per_ip_the_delay_of_an_address_is_recalculated(world: World) -> None:
    paced = {"per": "ip", "ip_delay": 2.0, "delay": 2.0}
    file = File(world, politeness=paced)
    answers = pages("a.test", 3) | pages("b.test", 3)
    crawled = await file.crawl(
        answers, *answers, at={5.0: file.write(politeness={"ip_delay": 20.0})}
    )
    late = [b - a for a, b in itertools.pairwise(crawled.at()) if b > 5.0]
    assert min(late) >= 20.0


# ---------------------------------------------------------------- what else it changes


async def test_the_new_scope_applies_from_the_reload_on(world: World) -> None:
    """Queued URLs may leave the scope, and new links may enter it."""
    file = File(world, scope={"exclude": ["*/no/*"]})
    answers = {
        "http://a.test/": html("A", "/1", "/2", "/x/1", "/no/1"),
        "http://a.test/1": html("1", "/no/1"),
        "http://a.test/2": html("2", "/no/1"),
        "http://a.test/no/1": html("No"),
        "http://a.test/x/1": html("X"),
    }
    crawled = await file.crawl(
        answers, "http://a.test/", at={1.5: file.write(scope={"exclude": ["*/x/*"]})}
    )
    assert crawled.urls("visited") == [
        "http://a.test/", "http://a.test/1", "http://a.test/2", "http://a.test/no/1",
    ]  # fmt: skip
    assert file.answers[0].changes == (
        '[scope] exclude: +1 pattern ("*/x/*"), -1 pattern ("*/no/*")',
    )


async def test_a_raised_byte_limit_resumes_a_host(world: World) -> None:
    file = File(world, scope={"max_bytes_per_host": 2})
    answers = pages("a.test", 4)
    visited: list[int] = []

    async def count() -> None:
        visited.append((await world.control.stats()).visited)

    crawled = await file.crawl(
        answers,
        *answers,
        forever=True,
        at={
            100.0: lambda: world.do(count()),
            101.0: file.write(scope={"max_bytes_per_host": "1MB"}),
            500.0: lambda: world.do(count()),
            600.0: stop(world),
        },
    )
    assert visited == [1, len(answers)]
    assert len(crawled.urls("visited")) == len(answers)
    assert "max_bytes_per_host 2 bytes to 1,000,000 bytes" in file.answers[0].changes[0]


async def test_raised_page_limits_resume_the_crawl_and_a_host(
    world: World,
) -> None:
    file = File(world, crawl={"max_pages": 3}, scope={"max_pages_per_host": 2})
    answers = pages("a.test", 6) | pages("b.test", 6)
    states: list[CrawlState] = []
    crawled = await file.crawl(
        answers,
        *answers,
        forever=True,
        at={
            100.0: lambda: states.append(world.control.state),
            101.0: file.write(crawl={"max_pages": 8}, scope={"max_pages_per_host": 4}),
            500.0: lambda: states.append(world.control.state),
            600.0: stop(world),
        },
    )
    assert states == [CrawlState.IDLE, CrawlState.IDLE]
    assert len(crawled.urls("visited")) == 8
    assert {str(row["host"]): row["visited"] for row in crawled.rows["hosts"]} == {
        "a.test": 4,
        "b.test": 4,
    }
    assert set(file.answers[0].changes) >= {"[crawl] max_pages: 3 to 8"}


async def test_revisits_resume_hosts_that_were_done(
    world: World,
) -> None:
    day_s = 86_400.0
    file = File(world, scope={"max_pages_per_host": 1})
    crawled = await file.crawl(
        pages("a.test", 2),
        "http://a.test/000",
        "http://a.test/001",
        forever=True,
        at={
            60.0: file.write(revisit={"mode": "fixed", "interval": "1d"}),
            2.5 * day_s: stop(world),
        },
    )
    assert [row["visits"] for row in crawled.rows["visited"]] == [3]


async def test_concurrency_is_raised_and_lowered(world: World) -> None:
    answers = {url: Reply(delay_s=10) for n in range(8) for url in pages(f"h{n}.test", 3)}
    file = File(world, crawl={"concurrency": 1}, robots={})
    flying: list[int] = []

    def look() -> None:
        flying.append(world.control.status().in_flight)

    await file.crawl(
        {**answers, **{f"http://h{n}.test/robots.txt": not_found() for n in range(8)}},
        *answers,
        at={
            30.0: look,
            30.1: file.write(crawl={"concurrency": 6}),
            50.0: look,
            50.1: file.write(crawl={"concurrency": 2}),
            75.0: look,
        },
    )
    assert flying == [1, 6, 2]


async def test_another_dialect_is_read_from_the_copy_at_hand_and_judges_again(
    world: World,
) -> None:
    """Law 4 for a config: without a request, blocked URLs are released, and queued ones
    are judged again."""

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            # slurp takes the longest rule, res1994 knows no Allow
            return text("User-agent: *\nDisallow: /\nAllow: /yes\n")
        return html("Page")

    file = File(world, robots={"dialect": "res1994"})
    crawled = await file.crawl(
        answers,
        *("http://a.test/yes/1", "http://a.test/yes/2", "http://a.test/no"),
        forever=True,
        at={50.0: file.write(robots={"dialect": "slurp"}), 100.0: stop(world)},
    )
    assert crawled.urls("visited") == ["http://a.test/yes/1", "http://a.test/yes/2"]
    assert crawled.urls("blocked") == ["http://a.test/no"]
    assert len(crawled.at("a.test", "/robots.txt")) == 1
    assert min(crawled.at("a.test", "/yes/1")) >= 50.0
    assert "dialect" in file.answers[0].changes[0]
    assert await world.store.rejudge_due(world.session, limit=9) == []
    assert "slurp" in (await world.store.reader.sessions())[0]


async def test_urls_on_disk_are_judged_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that are not in memory are marked in the store, and judged in bounded batches."""
    monkeypatch.setattr("crawler.scheduling.host_leases.HOSTS_LEASED_MAX", 3)
    monkeypatch.setattr("crawler.scheduling.host_leases.CLAIM_HOSTS", 3)

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return text("User-agent: *\nDisallow: /\nAllow: /yes\n")
        return html("Page")

    seeds = [f"http://h{n}.test/yes" for n in range(10)]
    held: list[int] = []
    file = File(world, robots={"dialect": "res1994"})
    crawled = await file.crawl(
        answers,
        *seeds,
        forever=True,
        at={
            500.0: file.write(robots={"dialect": "slurp"}),
            501.0: lambda: held.append(world.control.status().hosts_held),
            1000.0: stop(world),
        },
    )
    assert crawled.urls("visited") == sorted(seeds)


async def test_a_file_that_is_being_committed_counts_for_a_config_read_meanwhile(
    world: World,
) -> None:
    """Law 2: its rules and its delay apply, not those of the copy before."""
    bodies = ["", "User-agent: *\nCrawl-delay: 7\nDisallow: /secret\n"]

    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return text(bodies.pop(0))
        return html("Page")

    async def seed() -> None:
        await world.control.execute(
            AddSeeds(
                urls=(
                    "http://a.test/secret",
                    "http://a.test/2",
                    "http://a.test/3",
                )
            )
        )

    file = File(world, robots={"dialect": "slurp"})

    async def reload_meanwhile(*_: object, **__: object) -> None:
        if not bodies:
            file.write(robots={"dialect": "rfc9309"})()
            await world.wait(1.0)

    world.medium.before["robots_put"] = reload_meanwhile
    day_s = 86_400.0
    crawled = await file.crawl(
        answers,
        "http://a.test/1",
        forever=True,
        at={day_s + 60: lambda: world.do(seed()), day_s + 200: stop(world)},
    )
    assert file.answers
    assert crawled.urls("blocked") == ["http://a.test/secret"]
    assert not crawled.at("a.test", "/secret")
    second, third = crawled.at("a.test", "/2") + crawled.at("a.test", "/3")
    assert third - second >= 7.0


async def test_robots_txt_can_be_ignored_for_a_site(world: World) -> None:
    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return text("User-agent: *\nDisallow: /\n")
        return html("Page")

    file = File(world)
    crawled = await file.crawl(
        answers,
        "http://a.test/1",
        forever=True,
        at={50.0: file.write(site={"a.test": {"obey": False}}), 100.0: stop(world)},
    )
    assert crawled.urls("visited") == ["http://a.test/1"]


async def test_another_dialect_opens_a_closed_origin(world: World) -> None:
    def answers(request: Request) -> Reply:
        if request.url.endswith("robots.txt"):
            return text("", status=503)
        return html("Page")

    file = File(world, robots={"dialect": "rfc9309"})
    crawled = await file.crawl(
        answers,
        "http://a.test/1",
        forever=True,
        at={50.0: file.write(robots={"dialect": "slurp"}), 100.0: stop(world)},
    )
    assert crawled.at("a.test", "/1")[0] == pytest.approx(50.0, abs=3)


async def test_new_seeds_of_the_file_are_queued(world: World) -> None:
    file = File(world, crawl={"seeds": ["http://127.0.0.1/"]}, network={"allow": ["127.0.0.0/8"]})
    crawled = await file.crawl(
        {"http://127.0.0.1/": html("A"), "http://127.0.0.2/": html("B")},
        "http://127.0.0.1/",
        forever=True,
        at={
            50.0: file.write(crawl={"seeds": ["http://127.0.0.1/", "http://127.0.0.2/"]}),
            100.0: stop(world),
        },
    )
    assert crawled.urls("visited") == ["http://127.0.0.1/", "http://127.0.0.2/"]
    assert file.answers[0].changes == ("[crawl] seeds: 1 new",)


# ---------------------------------------------------------------- what it does not


async def test_a_dry_run_changes_nothing(world: World) -> None:
    file = File(world)
    answers = pages("a.test", 4)
    crawled = await file.crawl(
        answers, *answers, at={2.5: file.write(politeness={"delay": 10.0}, dry_run=True)}
    )
    assert file.answers[0].changes == ("1 host: delay 1 s to 10 s",)
    assert crawled.elapsed_s < 6
    assert world.control.config.politeness.delay == 1.0


async def test_a_bad_file_changes_nothing_and_says_all_that_is_wrong(world: World) -> None:
    file = File(world)
    answers = pages("a.test", 4)
    crawled = await file.crawl(
        answers,
        *answers,
        at={2.5: file.write(politeness={"delay": -1, "per": "galaxy"}, robots={"dialekt": "x"})},
    )
    (problems,) = file.refused
    assert len(problems) == 3
    assert crawled.elapsed_s < 6
    assert not file.answers


async def test_a_file_that_law_10_forbids_changes_nothing(world: World) -> None:
    """The user agent loses its contact while there are seeds beyond loopback."""
    file = File(world)
    answers = pages("a.test", 4)
    await file.crawl(answers, *answers, at={2.5: file.write(crawl={"user_agent": "testbot/1.0"})})
    assert "contact" in file.refused[0][0]
    assert world.control.config.has_contact


async def test_changes_that_need_a_restart_are_named_and_deferred(world: World) -> None:
    file = File(world)
    answers = pages("a.test", 4)
    await file.crawl(
        answers,
        *answers,
        at={
            2.5: file.write(
                storage={"url": "sqlite:other.db"},
                daemon={"listen": "127.0.0.1:9999", "token": "hunter2-secret"},
                politeness={"per": "domain", "delay": 2.0},
                site={"b.test": {"per": "domain"}},
            )
        },
    )
    (answer,) = file.answers
    assert answer.changes == ("1 host: delay 1 s to 2 s",)
    assert [line.partition(":")[0] for line in answer.restart] == [
        "[politeness] per", "[storage] url", "[daemon] listen", "[daemon] token",
        '[site."b.test"] per',
    ]  # fmt: skip
    assert "hunter2" not in str(answer)
    config = world.control.config
    assert (config.storage.url, config.daemon.token) == ("sqlite:crawl.db", "")
    assert config.site("b.test").politeness.per == "host"


async def test_a_crawl_without_a_config_file_cannot_reload(world: World) -> None:
    refused: list[str] = []

    async def reload() -> None:
        with pytest.raises(ConfigError) as caught:
            await world.control.execute(Reload())
        refused.append(str(caught.value))

    await world.crawl({}, "http://a.test/", at={0.5: lambda: world.do(reload())})
    assert "no config file" in refused[0] or "not started from a config" in refused[0]


async def test_a_reload_before_the_start_applies_from_the_start(world: World) -> None:
    file = File(world)
    session = await world.store.open_session("test")
    clock = world.clock
    fetcher = FakeFetcher(clock, pages("a.test", 3))
    context = crawl_context(file.read(), store=world.store, session=session, clock=clock)
    scheduler = Scheduler(context, fetcher)
    control = Control(
        scheduler,
        config=file.read(),
        store=world.store,
        reader=world.store.reader,
        clock=clock,
        source=ConfigFrom(file.read),
    )
    await control.execute(AddSeeds(urls=(*pages("a.test", 3),)))
    file.sections["politeness"] = {"delay": 5.0}
    file.sections["robots"] = {"dialect": "bing"}
    await control.execute(Reload())
    await control.execute(PauseHosts(host="a.test"))
    await control.execute(ResumeHosts(host="a.test"))
    began_s = clock.monotonic()
    await scheduler.run()
    assert [one.start_s - began_s for one in fetcher.log.requests()] == pytest.approx(
        [0, 5.05, 10.1, 15.15], abs=0.01
    )


async def test_concurrent_reloads_run_one_after_the_other(world: World) -> None:
    file = File(world)
    answers = pages("a.test", 8)

    def both() -> None:
        file.write(politeness={"delay": 3.0})()
        file.write(politeness={"delay": 5.0})()

    world.medium.slow_s = 0.01
    await file.crawl(answers, *answers, at={2.5: both})
    assert world.control.config.politeness.delay == 5.0
    assert [bool(answer.changes) for answer in file.answers] == [True, False]
