"""Typos in schemes are found, and ordinary schemes are none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policies.schemes import is_mistyped
from tests.tables import each

ORDINARY = """
    about acct aim apt bitcoin blob bolo callto cid chrome chrome-extension coap coaps
    content data dav dict dns ed2k example facetime feed file filesystem fish fm ftp ftps
    geo git gopher gtalk h323 http+unix https+aia icap im imap intent ipp ipps irc irc6
    ircs itms itms-apps jabber jar javascript ldap ldaps line lbry magnet mailto maps
    market message mid mms moz-extension ms-settings msnim mumble mvn news nfs nntp ntp
    oid onenote openid pop pres proxy psyc rdar resource rmi rsync rtmp rtp rtsp s3
    secondlife service sftp sgn shttp sip sips skype slack smb sms smsto smtp snmp soldat
    spotify ssh steam stun stuns svn tag teams tel telnet tftp tg things tip tn3270 turn
    turns udp unreal urn ut2004 vbscript vnc view-source viber wais webcal whatsapp ws wss
    wyciwyg xcon xmpp xri ymsgr zoommtg zoomus
"""
TYPOS = """
    hhttps htttp htpp htp ttp ttps hhtp htps httsp htpt hptt httpss httpd httpx hhttp
    thttp xxhttps httos hrrp hxxp hxxps mialto maito mailt javascirpt javasript
"""


def test_ordinary_schemes_are_no_typos() -> None:
    for scheme in ORDINARY.split():
        for rest in ("x", "//x/", "8080", "5/x", "", "?a@b.c"):
            assert not is_mistyped(f"{scheme}:{rest}"), (scheme, rest)
            assert not is_mistyped(f"  {scheme.upper()}:{rest}"), (scheme, rest)


def test_typos_are_found() -> None:
    for scheme in TYPOS.split():
        assert is_mistyped(f"{scheme}://example.com/"), scheme
        assert is_mistyped(f"\n {scheme[0]}\t{scheme[1:].upper()}://example.com/"), scheme


@each(
    ("href", "mistyped"),
    [
        ("example.com:8080/x", True), ("www.example.com:80", True), ("localhost:8000/", True),
        ("localhost:8000?x", True), ("example.com:x", False),
        ("com.example.app://x", False), ("app:8080", False), ("tel:12345", False),
        ("http:", False), ("https://x/", False), ("HTTPS:x", False), ("/x", False), ("", False),
        ("top:5", False), ("htt:x", True), ("{{x}}://y", False), ("example.com:123456/", False),
    ],
)  # fmt: skip
def test_others(href: str, mistyped: bool) -> None:
    assert is_mistyped(href) is mistyped


@given(st.sampled_from(["http", "https"]), st.data())
def test_one_slip_of_the_hand_is_found(meant: str, data: st.DataObject) -> None:
    """Any letter dropped, doubled, changed, or swapped with its neighbour."""
    at = data.draw(st.integers(0, len(meant) - 1))
    other = data.draw(st.sampled_from("abcdefghijklmnoqruvwxyz"))
    slips = [meant[:at] + meant[at + 1 :], meant[: at + 1] + meant[at:]]
    slips += [meant[:at] + other + meant[at + 1 :], meant[:at] + other + meant[at:]]
    slips.append(meant[:at] + meant[at + 1 : at + 2] + meant[at] + meant[at + 2 :])
    for slip in slips:
        ordinary = slip in ("http", "https", "shttp", "httpg") or not slip[0].isalpha()
        assert is_mistyped(f"{slip}://example.com/") is not ordinary, slip


@given(st.text())
def test_nothing_is_too_odd(text: str) -> None:
    assert isinstance(is_mistyped(text), bool)
    assert isinstance(is_mistyped(f"{text}:1/"), bool)


def test_long_ones_take_no_time() -> None:
    for piece in ("a", "a.", "-", "h\t", "http"):
        assert isinstance(is_mistyped(piece * 200_000 + ":8080/"), bool)
