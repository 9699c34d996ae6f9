"""Recent contacts are kept for a bounded number of hosts."""

from __future__ import annotations

from typing import Any

from crawler.daemon.monitoring.recent_contacts import ERRORS_PER_HOST, HOSTS_MAX, RecentContacts
from crawler.observer import Contacted
from policies.retries import FailureCode
from storage.columns import CONTACTS_KEPT


def contact(slot: str, at_s: float, error: FailureCode | None = None) -> Contacted:
    return Contacted(
        url=f"http://{slot}/",
        slot=slot,
        kind="page",
        status=None if error else 200,
        error=error,
        sentence="no answer within 30 s" if error else "",
        started_at=at_s,
        elapsed_s=0.2,
        latency_s=None,
        body_bytes=0,
        wire_bytes=0,
        address=None,
        late_s=0.0,
        next_in_s=2.0,
        rest_source="Crawl-delay in robots.txt",
    )


def test_the_required_delay_of_each_contact_is_kept(hand: Any) -> None:
    recent = RecentContacts(hand)
    recent.contacted(contact("a.test", 1.0))
    (floor,) = recent.delays("a.test")
    assert (floor.start_at, floor.rest_s) == (1.0, 2.0)
    assert floor.source == "Crawl-delay in robots.txt"
    assert recent.delays("b.test") == ()


def test_errors_come_newest_first(hand: Any) -> None:
    recent = RecentContacts(hand)
    for at_s in range(ERRORS_PER_HOST + 5):
        recent.contacted(contact("a.test", float(at_s), FailureCode.TIMEOUT))
    errors = recent.errors("a.test")
    assert len(errors) == ERRORS_PER_HOST
    assert errors[0].at == ERRORS_PER_HOST + 4
    assert errors[0].what == "timeout: no answer within 30 s"


def test_hosts_not_contacted_for_long_are_forgotten(hand: Any) -> None:
    recent = RecentContacts(hand)
    for number in range(HOSTS_MAX):
        recent.contacted(contact(f"h{number}.test", 1.0))
    for again in range(2 * CONTACTS_KEPT):
        recent.contacted(contact("h0.test", 2.0 + again))
    recent.contacted(contact("new.test", 500.0))
    floors = recent.delays("h0.test")
    assert [floor.start_at for floor in floors] == [
        2.0 + again for again in range(CONTACTS_KEPT, 2 * CONTACTS_KEPT)
    ]
    assert len({(floor.rest_s, floor.late_s, floor.source) for floor in floors}) == 1
    assert recent.delays("h1.test") == ()
    assert recent.delays("new.test")


def test_a_refused_address_is_an_error_without_a_contact(hand: Any) -> None:
    recent = RecentContacts(hand)
    recent.gave_up("a.test", "http://a.test", "address: 10.0.0.1 is a private address", 0)
    recent.gave_up("b.test", "http://b.test", "connect: refused", 1)  # its contacts were errors
    (error,) = recent.errors("a.test")
    assert error.at == hand.wall()
    assert (error.url, error.what) == ("http://a.test/", "address: 10.0.0.1 is a private address")
    assert recent.delays("a.test") == ()
    assert recent.errors("b.test") == ()
