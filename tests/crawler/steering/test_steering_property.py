"""Law 1 under commands: whatever commands reach a crawl, at any time,
no contact is early by the rules in effect, and none begins during a pause."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.config import Config, from_dict
from crawler.operator_commands import (
    PauseCrawl,
    PauseHosts,
    Reload,
    ResumeCrawl,
    ResumeHosts,
    SlowHosts,
)
from crawler.testing import JumpClock, Reply, html
from tests.conftest import World

LATENCY_S = 0.05
BOT = "testbot/1.0 (+https://a.test/bot)"
HOSTS = ("a.test", "b.test")
EDGE_S = 1e-6
SLACK = 12  # what a command may take, in times that the store is slow

deeds = st.lists(
    st.tuples(
        st.floats(0.05, 6.0),  # after the one before
        st.sampled_from(("pause", "resume", "pause host", "slow host", "resume host", "reload")),
        st.sampled_from(HOSTS),
        st.sampled_from((0.2, 0.7, 2.0, 5.0)),
    ),
    max_size=12,
)


@dataclass
class Rules:
    """The rules in effect from a time on."""

    at_s: float
    delay_s: float = 1.0
    paused: bool = False
    hosts: dict[str, tuple[bool, float]] = field(default_factory=dict)  # paused, slow

    def least_rest_s(self, host: str) -> float:
        """The required delay before a contact; inf: none may begin."""
        paused, slow_s = self.hosts.get(host, (False, 0.0))
        return math.inf if self.paused or paused else max(self.delay_s, slow_s)

    def after(self, at_s: float, deed: str, host: str, value: float) -> Rules:
        hosts = dict(self.hosts)
        paused, slow_s = hosts.get(host, (False, 0.0))
        if deed == "pause host":
            hosts[host] = (True, slow_s)
        elif deed == "slow host":
            hosts[host] = (paused, value)
        elif deed == "resume host":
            hosts[host] = (False, 0.0)
        return Rules(
            at_s=at_s,
            delay_s=value if deed == "reload" else self.delay_s,
            paused=deed == "pause" if deed in ("pause", "resume") else self.paused,
            hosts=hosts,
        )


@settings(max_examples=20, deadline=None)
@given(deeds=deeds, slow_store_s=st.sampled_from((0.0, 0.0, 0.03)))
def test_law_1_holds_under_any_mixture_of_commands(
    deeds: list[tuple[float, str, str, float]], slow_store_s: float
) -> None:
    asyncio.run(_crawl(deeds, slow_store_s))


async def _crawl(deeds: list[tuple[float, str, str, float]], slow_store_s: float) -> None:
    async with JumpClock() as clock:
        world = World(clock)
        delays = [1.0]

        def reread() -> Config:
            return from_dict(
                {
                    "crawl": {"user_agent": BOT, "patience": "10m"},
                    "politeness": {"delay": delays[-1], "latency_factor": 0},
                }
            )

        def act(deed: str, host: str, value: float) -> Callable[[], None]:
            def now() -> None:
                control = world.control
                if deed == "reload":
                    delays.append(value)
                world.do(
                    {
                        "pause": lambda: control.execute(PauseCrawl()),
                        "resume": lambda: control.execute(ResumeCrawl()),
                        "pause host": lambda: control.execute(PauseHosts(host=host)),
                        "slow host": lambda: control.execute(SlowHosts(host=host, delay_s=value)),
                        "resume host": lambda: control.execute(ResumeHosts(host=host)),
                        "reload": lambda: control.execute(Reload()),
                    }[deed]()
                )

            return now

        rules, at, now_s = [Rules(-math.inf)], {}, 1.0
        for after_s, deed, host, value in deeds:
            now_s += after_s + SLACK * slow_store_s  # one is done before the next is asked for
            at[now_s] = act(deed, host, value)
            rules.append(rules[-1].after(now_s, deed, host, value))
        end_s = now_s + 1.0
        at[end_s] = act("resume", "", 0.0)
        rules.append(rules[-1].after(end_s, "resume", "", 0.0))
        for host in HOSTS:
            at[end_s := end_s + 1.0] = act("resume host", host, 0.0)
            rules.append(rules[-1].after(end_s, "resume host", host, 0.0))
        pages: dict[str, Reply] = {
            f"http://{host}/{n}": html(str(n)) for host in HOSTS for n in range(8)
        }
        world.medium.slow_s = slow_store_s
        crawled = await world.crawl(
            pages,
            *pages,
            at=at,
            reread=reread,
            crawl={"user_agent": BOT},
            politeness={"delay": 1.0, "latency_factor": 0},
        )
        for host in HOSTS:
            starts = crawled.at(host)
            for before_s, begin_s in zip([-math.inf, *starts], starts, strict=False):
                assert (
                    begin_s - before_s - LATENCY_S
                    >= _least(rules, host, begin_s, slow_store_s) - EDGE_S
                )
        assert [row["breaches"] for row in crawled.rows["hosts"]] == [0, 0]
        assert len(crawled.urls("visited")) == 16  # and nobody was forgotten


def _least(rules: list[Rules], host: str, begin_s: float, slow_store_s: float) -> float:
    """The rules for a contact that begins now. A command takes as long as the store
    takes it, and at one moment either may come first: then the milder of both is enough."""
    done = [one for one in rules if one.at_s <= begin_s - EDGE_S - SLACK * slow_store_s]
    since = [one for one in rules if done[-1].at_s < one.at_s <= begin_s + EDGE_S]
    return min(one.least_rest_s(host) for one in (done[-1], *since))
