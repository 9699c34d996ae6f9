"""Law 9 (no private address unless allowed) and what counts as loopback for law 10."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.address import AddressRules, is_loopback
from tests.tables import each

PUBLIC_ONLY = AddressRules()


@each(
    "address",
    [
        "1.1.1.1", "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111",
        "2a00:1450::1", "::ffff:1.1.1.1", "2002:101:101::1", "64:ff9b::101:101",
    ],
)  # fmt: skip
def test_public_addresses_may_be_connected_to(address: str) -> None:
    assert PUBLIC_ONLY.judge(address) is None


@each(
    ("address", "why"),
    [
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("10.1.2.3", "private"),
        ("100.64.0.1", "carrier"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.255", "loopback"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.8", "protocols"),
        ("192.0.2.1", "documentation"),
        ("192.168.1.1", "private"),
        ("198.19.0.1", "benchmarking"),
        ("224.0.0.1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::7f00:1", "reserved"),
        ("fc00::1", "private"),
        ("fd12::1", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "documentation"),
        ("3fff::1", "documentation"),
        ("2001:20::1", "protocols"),
        ("100::1", "discard"),
        ("5f00::1", "reserved"),
        ("4000::1", "reserved"),
        ("64:ff9b:1::101:101", "translation"),
        # carried inside another
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "private"),
        ("2002:7f00:1::1", "loopback"),
        ("2002:a9fe:a9fe::", "link-local"),
        ("64:ff9b::127.0.0.1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("2001:0:a00:1:0:0:fefe:fefe", "private"),  # Teredo, its server private
        ("2001:0:101:101:0:0:f5ff:fffe", "private"),  # Teredo, its client private (bits flipped)
    ],
)
def test_addresses_not_public_are_refused_with_the_reason(address: str, why: str) -> None:
    sentence = PUBLIC_ONLY.judge(address)
    assert sentence is not None
    assert why in sentence
    assert address in sentence
    assert "network.allow" in sentence


@each("text", ["", "a.test", "127.1", "1.2.3.4/8", "[::1]"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert PUBLIC_ONLY.judge(text) == f"{text!r} is not an IP address"


def test_allow_names_ranges_and_single_addresses() -> None:
    rules = AddressRules.parse(("127.0.0.0/8", "10.0.0.5", "fd00::/8"))
    for address in ("127.0.0.1", "127.9.9.9", "10.0.0.5", "fd00::1", "::ffff:127.0.0.1", "1.1.1.1"):
        assert rules.judge(address) is None
    for address in ("10.0.0.6", "::1", "192.168.0.1", "::ffff:10.0.0.6"):
        assert rules.judge(address) is not None


@each(
    ("text", "said"),
    [
        ("localhost", "'localhost' is not an address range"),
        ("", "'' is not an address range"),
        ("127.0.0.1/33", "'127.0.0.1/33' is not an address range"),
        ("127.0.0.1/8", 'did you mean "127.0.0.0/8"?'),
    ],
)
def test_a_bad_range_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the sentence is what is tested)
        AddressRules.parse((text,))
    assert said in str(caught.value)


@each(
    ("host", "loopback"),
    [
        ("localhost", True), ("LOCALHOST.", True), ("127.0.0.1", True), ("127.8.8.8", True),
        ("::1", True), ("[::1]", True), ("::ffff:127.0.0.1", True), ("0.0.0.0", False),
        ("::", False), ("a.localhost", False), ("localhost.example.com", False),
        ("127.0.0.1.example.com", False), ("10.0.0.1", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_by_spelling(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@given(st.ip_addresses())
def test_nothing_private_by_the_standard_library_gets_through(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    carries = isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address.teredo
    )
    if PUBLIC_ONLY.judge(str(address)) is None and not carries:
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_loopback


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_alike_however_it_is_wrapped(address: ipaddress.IPv4Address) -> None:
    bare = PUBLIC_ONLY.judge(str(address)) is None
    number = int(address)
    for wrapped in (
        (0xFFFF << 32) | number,
        (0x2002 << 112) | (number << 80),
        (0x64FF9B << 96) | number,
        (0x20010000 << 96) | (0x01010101 << 64) | (number ^ 0xFFFF_FFFF),
    ):
        assert (PUBLIC_ONLY.judge(str(ipaddress.IPv6Address(wrapped))) is None) is bare


@given(st.text(max_size=50))
def test_no_text_raises(text: str) -> None:
    assert PUBLIC_ONLY.judge(text) is None or isinstance(PUBLIC_ONLY.judge(text), str)
    assert is_loopback(text) in (True, False)


@each(
    ("address", "why"),
    [
        ("168.63.129.16", "cloud"), ("100.100.100.200", "carrier"), ("169.254.170.2", "link-local"),
        ("192.0.0.192", "protocols"), ("fd00:ec2::254", "private"), ("192.31.196.1", "AS112"),
        ("192.175.48.6", "AS112"), ("2620:4f:8000::6", "AS112"), ("2001:4:112::1", "AS112"),
        ("192.52.193.1", "multicast tunnels"), ("2002:c058:6301::", "192.88.99.1"),
        ("64:ff9b:1::808:808", "local translation"), ("::ffff:0:a00:1", "reserved"),
        ("::ffff:0:808:808", "reserved"), ("64:ff9b::a83f:8110", "168.63.129.16"),
        ("2606:4700::5efe:a00:1", "10.0.0.1"), ("2606:4700::200:5efe:a00:1", "10.0.0.1"),
        ("2606:4700::300:5efe:7f00:1", "127.0.0.1"),
        ("2606:4700::100:5efe:169.254.169.254", "169.254.169.254"),
        ("2002:808:808::5efe:192.168.0.1", "192.168.0.1"), ("fe80::5efe:8.8.8.8", "link-local"),
        ("fd00::200:5efe:8.8.8.8", "private"),
    ],
)  # fmt: skip
def test_addresses_of_clouds_relays_and_tunnels(address: str, why: str) -> None:
    sentence = PUBLIC_ONLY.judge(address)
    assert sentence is not None
    assert why in sentence


def test_what_a_tunnel_carries_may_be_public() -> None:
    assert PUBLIC_ONLY.judge("2606:4700::5efe:8.8.8.8") is None
    assert PUBLIC_ONLY.judge("2606:4700::200:5efe:808:808") is None


@given(
    inner=st.ip_addresses(v=4),
    prefix=st.integers(0, (1 << 64) - 1),
    form=st.sampled_from(["mapped", "6to4", "nat64", "isatap", "isatap-global", "teredo", "local"]),
)
def test_no_form_of_a_refused_address_gets_in(
    inner: ipaddress.IPv4Address, prefix: int, form: str
) -> None:
    v4 = int(inner)
    if form == "mapped":
        outer = 0xFFFF << 32 | v4
    elif form == "6to4":
        outer = 0x2002 << 112 | v4 << 80 | prefix
    elif form == "nat64":
        outer = 0x64FF9B << 96 | v4
    elif form == "local":
        outer = 0x64FF9B0001 << 80 | v4
    elif form == "teredo":
        outer = 0x20010000 << 96 | prefix >> 32 << 64 | (v4 ^ 0xFFFF_FFFF)
    else:
        outer = prefix << 64 | (0x0200_5EFE if form == "isatap-global" else 0x5EFE) << 32 | v4
    if PUBLIC_ONLY.judge(str(inner)) is not None or form == "local":
        assert PUBLIC_ONLY.judge(str(ipaddress.IPv6Address(outer))) is not None
