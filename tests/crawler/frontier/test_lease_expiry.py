"""Expired leases hold the crawl and break off its requests, until they are renewed."""

from __future__ import annotations

from crawler.frontier.commands import BREAK_OFF
from crawler.testing import JumpClock
from policies.holds import HoldReason
from tests.crawler.frontier.rig import DrivenFrontier


async def test_requests_are_held_and_broken_off_at_the_deadline() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        frontier = driven.frontier
        frontier.deadline.begin()
        frontier.renewed(clock.boottime() + 15)
        await clock.sleep_until(clock.monotonic() + 14.9)
        assert frontier.expiry.may_contact()
        assert not driven.holds.current
        await clock.sleep_until(clock.monotonic() + 0.2)
        (hold,) = driven.holds.current
        assert hold.reason is HoldReason.LEASES_EXPIRED
        assert BREAK_OFF in driven.commands
        assert not frontier.expiry.may_contact()
        frontier.renewed(clock.boottime() + 15)
        assert not driven.holds.current
        assert frontier.expiry.may_contact()
        driven.close()


async def test_each_renewal_puts_the_deadline_off() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        driven.frontier.deadline.begin()
        for _ in range(100):
            driven.frontier.renewed(clock.boottime() + 15)
            await clock.sleep_until(clock.monotonic() + 1)
            assert not driven.holds.current
        driven.frontier.renewed(clock.boottime() + 5)  # an answer that came late
        assert driven.frontier.deadline.left_s > 13
        driven.close()


async def test_a_check_finds_out_before_the_timer_does() -> None:
    """After SIGCONT or a suspend, another task may run first."""
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        driven.frontier.deadline.begin()
        driven.frontier.renewed(clock.boottime() + 15)
        clock.sleep(60)
        assert not driven.holds.current
        assert not driven.frontier.expiry.may_contact()
        assert driven.holds.current
        driven.close()


async def test_a_renewal_that_is_late_itself_ends_nothing() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        driven.frontier.deadline.begin()
        asked_s = clock.boottime()
        clock.sleep(60)
        driven.frontier.renewed(asked_s + 15)
        assert not driven.frontier.expiry.may_contact()
        driven.close()


async def test_a_margin() -> None:
    async with JumpClock() as clock:
        driven = DrivenFrontier(clock)
        driven.frontier.deadline.begin()
        driven.frontier.renewed(clock.boottime() + 4)
        assert driven.frontier.expiry.may_contact(for_s=3)
        assert not driven.frontier.expiry.may_contact(for_s=5)
        assert not driven.holds.current
        driven.close()
