"""No socket is made for an address of this machine, nor for the place where it listens itself."""

from __future__ import annotations

import socket

import pytest

from crawler.fetching import guard
from crawler.fetching.guard import AddressRefusedError, listening, socket_guard
from policies.address import AddressRules
from tests.tables import each

LOOPBACK = AddressRules.parse(["127.0.0.0/8", "::1/128", "0.0.0.0/8", "::/128", "::ffff:0:0/96"])


def connects(rules: AddressRules, address: str, port: int) -> bool:
    """Whether a socket is made to connect there."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    peer = (address, port, 0, 0) if ":" in address else (address, port)
    try:
        made = socket_guard(rules)((family, socket.SOCK_STREAM, 0, "", peer))
    except AddressRefusedError:
        return False
    assert made.getsockname()[1] == 0  # it is not bound to anything
    made.close()
    return True


class Public(AddressRules, frozen=True):
    """Takes every address for a public one, as that of an interface may be."""

    def judge(self, address: str) -> str | None:
        return None


def test_an_address_of_this_machine_is_refused_though_it_is_public() -> None:
    assert not connects(Public(), "127.0.0.1", 80)
    assert not connects(Public(), "127.0.0.77", 80)
    assert connects(Public(), "192.0.2.1", 80)
    assert connects(LOOPBACK, "127.0.0.1", 80)


def test_a_machine_on_which_any_address_can_be_bound_still_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "_can_bind", lambda made, peer: True)
    monkeypatch.setattr(guard, "_bind_tells", lambda family: False)
    assert connects(Public(), "192.0.2.1", 80)
    assert not connects(Public(), "127.0.0.1", 80)


def test_a_network_that_is_routed_to_this_machine_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The route to one of its addresses begins at another."""

    def can_bind(made: socket.socket, peer: tuple[str, int]) -> bool:
        return peer[0].startswith(("192.0.2.", "127."))

    monkeypatch.setattr(guard, "_can_bind", can_bind)
    monkeypatch.setattr(guard, "_bind_tells", lambda family: True)
    assert not connects(Public(), "192.0.2.1", 80)
    assert connects(Public(), "198.51.100.1", 80)
    named = AddressRules.parse(["192.0.2.0/24", "198.51.100.0/24"])
    assert connects(named, "192.0.2.1", 8710)
    with listening("0.0.0.0", 8710):
        assert not connects(named, "192.0.2.1", 8710)
        assert connects(named, "198.51.100.1", 8710)


@each(
    ("bound", "refused", "left"),
    [
        ("127.0.0.1", ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::"], ["127.0.0.2", "::1"]),
        ("::1", ["::1", "::"], ["127.0.0.1"]),
        ("0.0.0.0", ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::ffff:127.0.0.1"], []),
        ("::", ["::1", "127.0.0.1", "::", "0.0.0.0"], []),
    ],
)
def test_the_place_where_it_listens_is_never_connected_to(
    bound: str, refused: list[str], left: list[str]
) -> None:
    for address in refused + left:
        assert connects(LOOPBACK, address, 8710)
    with listening(bound, 8710):
        for address in refused:
            assert not connects(LOOPBACK, address, 8710), address
            assert connects(LOOPBACK, address, 8711)
        for address in left:
            assert connects(LOOPBACK, address, 8710), address
    assert connects(LOOPBACK, "127.0.0.1", 8710)
