"""The `[daemon]` section: the page and the API, who may use them, and the log."""

# Without `from __future__ import annotations`: evaluating annotations from strings takes longer.

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from crawler.config import checks, secrets
from crawler.config.sections import LogLevel, SectionWithSecrets
from policies.address import is_loopback
from policies.config_key import Key, one_line
from storage.secret_sources import rooted_source


class DaemonConfig(SectionWithSecrets, frozen=True, kw_only=True):
    """The `[daemon]` section."""

    name: Annotated[
        str,
        Key(
            "name on pages, in /api/status and in metrics; default: that of the database",
            parse=checks.daemon_name,
            restart=True,
        ),
    ] = ""
    listen: Annotated[
        str,
        Key(
            'address and port to listen on, or the path of a Unix socket: "unix:page.sock"',
            parse=checks.listen_address,
            rooted=checks.rooted_listen,
            restart=True,
        ),
    ] = "127.0.0.1:8710"
    listen_mode: Annotated[
        str,
        Key(
            'permissions of the Unix socket; "0660" admits the members of its group',
            parse=checks.file_mode,
            restart=True,
        ),
    ] = "0600"
    listen_group: Annotated[
        str,
        Key(
            "group of the Unix socket, by name or number; default: that of the process",
            parse=one_line,
            restart=True,
        ),
    ] = ""
    tls_certificate: Annotated[
        Path | None,
        Key(
            "certificate of the page in PEM format, with its chain; empty: plain HTTP. A reload "
            "reads the file again",
            restart=True,
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        Key("key of the certificate; empty: in the same file", restart=True),
    ] = None
    token: Annotated[
        str,
        Key(
            'a token to steer with: itself, "env:NAME" or "file:PATH"; beyond loopback addresses, '
            "one is generated where none is set",
            parse=checks.secret,
            rooted=rooted_source,
            mask=secrets.shown_token,
            restart=True,
        ),
    ] = ""
    tokens: Annotated[  # name -> where the token is
        Mapping[str, str],
        Key(
            'further tokens to steer with: { alice = "file:PATH", bob = "env:NAME" }; the log has '
            "their names",
            parse=secrets.named_token,
            rooted=secrets.rooted_sources,
            mask=secrets.sources,
            restart=True,
        ),
    ] = msgspec.field(default_factory=dict)
    read_tokens: Annotated[  # name -> where the token is
        Mapping[str, str],
        Key(
            'tokens that only read: { prometheus = "file:PATH" }',
            parse=secrets.named_token,
            rooted=secrets.rooted_sources,
            mask=secrets.sources,
            restart=True,
        ),
    ] = msgspec.field(default_factory=dict)
    trusted_proxies: Annotated[
        tuple[str, ...],
        Key(
            "addresses of proxies whose X-Forwarded-For tells the address of a client: "
            '["127.0.0.1", "10.0.0.0/8"]; "unix": of those that connect to the Unix socket',
            parse=checks.trusted_proxy,
            restart=True,
        ),
    ] = ()
    hosts: Annotated[
        tuple[str, ...],
        Key("additional names accepted in Host and Origin", parse=checks.authority, restart=True),
    ] = ()
    base_path: Annotated[
        str,
        Key(
            "path prefix of all links, behind a reverse proxy that serves other things as well: "
            '"/courtly"',
            parse=checks.base_path,
            restart=True,
        ),
    ] = ""
    log: Annotated[
        Path | None, Key("log file, in JSON Lines format; empty: standard error", restart=True)
    ] = None
    log_level: Annotated[LogLevel, Key("minimum level of events", restart=True)] = LogLevel.INFO

    @property
    def has_token(self) -> bool:
        """Whether any token is set."""
        return bool(self.token or self.tokens or self.read_tokens)

    @property
    def unix_path(self) -> Path | None:
        """The Unix socket to listen on; None for an address."""
        found = self.listen.startswith(checks.UNIX)
        return Path(self.listen.removeprefix(checks.UNIX)) if found else None

    @property
    def listen_file_mode(self) -> int:
        """`listen_mode` as a number."""
        return int(self.listen_mode, 8)

    @property
    def is_beyond_loopback(self) -> bool:
        """Whether other machines may reach the listener, so that a token is required. A Unix socket
        admits whom its mode admits."""
        return self.unix_path is None and not is_loopback(self.listens_on[0])

    @property
    def listens_on(self) -> tuple[str, int]:
        """Address (without brackets) and port; not for a Unix socket."""
        host, _, port = self.listen.rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)
