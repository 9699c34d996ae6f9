"""Tokens: where they come from, what they permit, and which are refused."""

from __future__ import annotations

import ipaddress
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from crawler.config import ConfigError, from_dict
from crawler.daemon.http.accounts import Role, account, matching, read_tokens, weakness
from crawler.daemon.http.accounts import accounts_of as accounts_with
from crawler.daemon.http.guards import Guards, HttpSettings
from crawler.testing import JumpClock

LONG = "kQ7vX2mZp9Rt4LsW8eYb"
OTHER = "aD3fG6hJ9kL2zX5cV8bN"


def accounts_of(config: Any) -> Any:
    return accounts_with(read_tokens(config))


def config(folder: Path, **daemon: Any) -> Any:
    return from_dict({"storage": {"url": f"sqlite:{folder / 'crawl.db'}"}, "daemon": daemon})


def test_tokens_are_read_from_the_config_the_environment_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grafana").write_text(f"{OTHER}\n", "utf-8")
    monkeypatch.setenv("CRAWL_TOKEN", LONG)
    found = accounts_of(
        config(
            tmp_path,
            listen="0.0.0.0:8710",
            token="env:CRAWL_TOKEN",
            read_tokens={"grafana": f"file:{tmp_path / 'grafana'}"},
        )
    )
    assert [(one.name, one.role) for one in found] == [
        ("default", Role.STEER),
        ("grafana", Role.READ),
    ]
    assert matching(found, OTHER) is found[1]
    assert matching(found, LONG) is found[0]
    assert matching(found, "x") is None


@pytest.mark.parametrize(
    ("daemon", "words"),
    [
        ({"token": "env:NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"token": "file:/no/such/file"}, "cannot be read"),
        ({"tokens": {"a": "env:SAME"}, "token": "env:SAME"}, "are the same token"),
        ({"token": "short", "listen": "0.0.0.0:1"}, "shorter than 16 characters"),
        ({"token": "changemechangeme", "listen": "0.0.0.0:1"}, "repeats itself"),
        ({"token": "a" * 40, "listen": "0.0.0.0:1"}, "repeats itself"),
    ],
)
def test_unusable_tokens_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: Any, words: str
) -> None:
    monkeypatch.setenv("SAME", LONG)
    with pytest.raises(ConfigError, match=words):
        accounts_of(config(tmp_path, **daemon))


def test_on_loopback_no_token_is_needed_and_any_will_do(tmp_path: Path) -> None:
    assert accounts_of(config(tmp_path)) == ()
    assert accounts_of(config(tmp_path, token="x"))[0].role is Role.STEER


def test_a_token_is_generated_once_where_one_is_needed(tmp_path: Path) -> None:
    made = config(tmp_path, listen="0.0.0.0:8710")
    (first,) = accounts_of(made)
    file = tmp_path / "crawl.db.token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not weakness(file.read_text().strip())
    assert accounts_of(made) == (first,)
    file.write_text("guess\n")
    with pytest.raises(ConfigError, match="remove the file"):
        accounts_of(made)


@given(st.binary(min_size=16, max_size=32))
def test_random_tokens_are_not_weak(raw: bytes) -> None:
    if len(set(raw.hex())) >= 8:
        assert not weakness(raw.hex())


BEARER = {"Authorization": f"Bearer {OTHER}"}


async def test_a_reader_sees_everything_and_steers_nothing(start: Any) -> None:
    settings = HttpSettings(accounts=(account("alice", LONG), account("eve", OTHER, Role.READ)))
    async with start("a.test", settings=settings) as daemon:
        await daemon.idle()
        client = daemon.client
        for path in ("/", "/hosts", "/seeds", "/config", "/api/status", "/metrics"):
            assert (await client.get(path, headers=BEARER)).status == 200, path
        for route in list(daemon.app.router.routes()):
            path = route.resource.canonical
            if route.method in ("GET", "HEAD") or path in ("/login", "/logout"):
                continue
            answer = await client.ask(route.method, path, headers=BEARER)
            assert answer.status == 403, path
        assert answer.body["detail"] == "the token “eve” may only read"
        page = (await client.get("/", headers=BEARER)).body
        assert "/crawl/pause" not in page
        steers = {"Authorization": f"Bearer {LONG}"}
        assert "/crawl/pause" in (await client.get("/", headers=steers)).body
        assert (await client.post("/api/pause", headers=steers)).status == 200


ADDRESSES = st.ip_addresses().map(str) | st.text(max_size=8) | st.sampled_from(["10.0.0.7"])


@given(st.lists(ADDRESSES, max_size=5), st.sampled_from(["10.0.0.1", "192.0.2.9", ""]))
def test_only_trusted_proxies_are_believed(named: list[str], peer: str) -> None:
    """What an untrusted client writes changes nothing; no trusted proxy is ever the client, unless
    there is nobody else."""
    guards = Guards(HttpSettings(trusted_proxies=("10.0.0.0/8",)), JumpClock())
    headers = CIMultiDict({"X-Forwarded-For": ", ".join(named)})
    request: Any = SimpleNamespace(remote=peer, headers=headers)
    untrusted: Any = SimpleNamespace(remote=peer, headers=CIMultiDict())
    found = guards.client_of(request)
    if peer != "10.0.0.1":
        assert found == guards.client_of(untrusted)
        return
    last = named[-1].strip() if named else ""
    try:
        address = ipaddress.ip_address(last)
    except ValueError:
        assert found == guards.client_of(untrusted)
        return
    if address not in ipaddress.ip_network("10.0.0.0/8"):
        expected: Any = SimpleNamespace(remote=str(address), headers=CIMultiDict())
        assert found == guards.client_of(expected)
