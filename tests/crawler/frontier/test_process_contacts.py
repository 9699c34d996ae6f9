"""The register of this process's contacts: who may contact a host, in which order, at which cost in
memory."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import time

import pytest

from crawler.frontier import process_contacts
from crawler.frontier.process_contacts import (
    FIRST_ROOM,
    LATE_S,
    LOOK_S,
    NEVER,
    Register,
    SharedContacts,
    share_contacts,
)
from crawler.testing import JumpClock

HOST = "a.test"


def sharing(count: int) -> tuple[Register, list[SharedContacts]]:
    register = Register()
    return register, [SharedContacts(register) for _ in range(count)]


def test_a_lone_sharer_never_waits() -> None:
    _, (one,) = sharing(1)
    for now_s in (0.0, 0.1, 0.2):
        assert one.free_s(HOST, now_s, 1.0, claim=True) == NEVER
        assert one.begin(HOST, now_s, 5.0)
    one.end(HOST, 0.3, 5.0)
    assert one.begin(HOST, 0.4, 5.0)  # its own delay is its own business


def test_another_waits_for_the_end_of_the_contact_and_its_delay() -> None:
    _, (one, two) = sharing(2)
    assert one.begin(HOST, 0.0, 5.0)
    assert two.free_s(HOST, 1.0, 1.0, claim=True) == 6.0  # an estimate: it is not over
    assert not two.begin(HOST, 1.0, 1.0)
    one.end(HOST, 2.0, 5.0)
    assert two.free_s(HOST, 6.0, 1.0, claim=True) == 7.0
    assert two.begin(HOST, 7.0, 1.0)
    assert one.free_s(HOST, 7.0, 1.0, claim=True) == 8.0
    assert one.free_s("b.test", 7.0, 1.0, claim=True) == NEVER


def test_a_permit_that_was_given_back_leaves_no_delay() -> None:
    _, (one, two) = sharing(2)
    assert one.begin(HOST, 0.0, 5.0)
    one.give_back(HOST)
    assert two.begin(HOST, 0.0, 5.0)


def test_whoever_waited_longest_is_next() -> None:
    _, (one, two, three) = sharing(3)
    one.begin(HOST, 0.0, 1.0)
    assert two.free_s(HOST, 0.1, 1.0, claim=True) == 1.1
    assert three.free_s(HOST, 0.2, 1.0, claim=True) > 2.0
    one.end(HOST, 0.5, 1.0)
    assert one.free_s(HOST, 0.5, 1.0, claim=True) > 1.5  # although its own delay is over by then
    assert two.free_s(HOST, 1.1, 1.0, claim=True) == 1.5
    assert two.begin(HOST, 1.5, 1.0)
    two.end(HOST, 1.6, 1.0)
    assert two.free_s(HOST, 2.6, 1.0, claim=True) > 2.6
    assert three.free_s(HOST, 2.6, 1.0, claim=True) == 2.6
    assert three.begin(HOST, 2.6, 1.0)


def test_a_sharer_that_does_not_come_loses_its_place() -> None:
    _, (one, two) = sharing(2)
    one.begin(HOST, 0.0, 1.0)
    due_s = two.free_s(HOST, 0.1, 1.0, claim=True)
    one.end(HOST, 0.5, 1.0)
    assert one.free_s(HOST, due_s + LATE_S, 1.0, claim=False) > due_s + LATE_S
    assert one.free_s(HOST, due_s + LATE_S + 0.01, 1.0, claim=False) == NEVER


def test_after_a_contact_of_a_closed_sharer_the_shorter_delay_suffices() -> None:
    _, (one, two, three) = sharing(3)
    one.begin(HOST, 0.0, 600.0)
    one.closed = True
    assert two.free_s(HOST, 0.5, 5.0, claim=False) > 100  # it is still under way
    one.end(HOST, 1.0, 600.0)
    assert two.free_s(HOST, 1.0, 5.0, claim=False) == 6.0
    assert two.free_s(HOST, 1.0, 9000.0, claim=False) == 601.0
    assert two.begin(HOST, 6.0, 5.0)
    two.end(HOST, 7.0, 5.0, 300.0)
    two.closed = True
    assert three.free_s(HOST, 7.0, 1.0, claim=False) == 300.0  # a backoff always counts


def test_asking_without_a_claim_takes_no_place() -> None:
    _, (one, two) = sharing(2)
    one.begin(HOST, 0.0, 1.0)
    two.free_s(HOST, 0.1, 1.0, claim=False)
    one.end(HOST, 0.5, 1.0)
    assert one.free_s(HOST, 1.5, 1.0, claim=True) == NEVER


def test_a_sharer_that_is_gone_in_the_middle_of_a_contact_blocks_nobody() -> None:
    _, (one, two) = sharing(2)
    one.begin(HOST, 0.0, 5.0)
    del one
    gc.collect()
    assert two.free_s(HOST, 1.0, 5.0, claim=True) == 6.0  # as if it had just ended
    assert two.begin(HOST, 6.0, 5.0)


def test_without_a_delay_it_is_looked_at_often() -> None:
    _, (one, two) = sharing(2)
    one.begin(HOST, 0.0, 0.0)
    assert two.free_s(HOST, 0.0, 1.0, claim=True) == LOOK_S
    one.end(HOST, 0.001, 0.0)
    assert two.begin(HOST, LOOK_S, 0.0)


def test_memory_is_bounded_by_the_hosts_whose_delay_runs() -> None:
    register, (one,) = sharing(1)
    for n in range(10 * FIRST_ROOM):
        one.begin(f"{n}.test", float(n), 5.0)
        one.end(f"{n}.test", n + 0.5, 5.0)
    assert len(register.hosts) <= FIRST_ROOM


def test_with_long_delays_the_soonest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_contacts, "HOSTS_KEPT_MAX", 2 * FIRST_ROOM)
    register, (one,) = sharing(1)
    one.begin("open.test", 0.0, 5.0)
    for n in range(5 * FIRST_ROOM):
        one.begin(f"{n}.test", 0.0, 5.0)
        one.end(f"{n}.test", float(n), 86_400.0)
    assert len(register.hosts) <= 2 * FIRST_ROOM
    assert "open.test" in register.hosts
    assert f"{5 * FIRST_ROOM - 1}.test" in register.hosts
    assert "0.test" not in register.hosts


async def test_sharers_of_different_clocks_are_apart() -> None:
    async with JumpClock() as clock, JumpClock() as other:
        one, two, apart = share_contacts(clock), share_contacts(clock), share_contacts(other)
        one.begin(HOST, 0.0, 5.0)
        assert not two.begin(HOST, 0.0, 5.0)
        assert apart.begin(HOST, 0.0, 5.0)


def test_threads_never_contact_a_host_together() -> None:
    """Real threads, real time: nobody begins before the delay after another's contact."""
    register, all_ = sharing(4)
    log: list[tuple[float, float, int]] = []
    until_s = time.monotonic() + 1.5

    def work(me: int) -> None:
        one = all_[me]
        chance = random.Random(me)
        while (now_s := time.monotonic()) < until_s:
            at_s = one.free_s(HOST, now_s, 1.0, claim=True)
            if at_s > now_s:
                time.sleep(max(0.0, at_s - time.monotonic()))
            elif one.begin(HOST, now_s, 0.002):
                started_s = time.monotonic()
                time.sleep(chance.random() / 1000)
                ended_s = time.monotonic()
                one.end(HOST, ended_s, 0.002)
                log.append((started_s, ended_s, me))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(len(all_))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    log.sort()
    for before, after in itertools.pairwise(log):
        if before[2] != after[2]:
            assert after[0] - before[1] >= 0.002
    made = [sum(one[2] == me for one in log) for me in range(len(all_))]
    assert min(made) * 3 >= max(made) > 5, made
    assert register.hosts[HOST].open == 0
