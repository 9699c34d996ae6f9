"""The sections of the config that are ours, frozen; the others are rule types of `policies`.

Those with secrets are dataclasses, which can leave a field out of their text.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec import Struct

from crawler.config.host_patterns import static_address
from policies.address import is_loopback


class LogLevel(enum.StrEnum):
    """How much is logged: what is of a lower level is left out."""

    DEBUG = "debug"  # robots.txt fetches and commits, too
    INFO = "info"  # every outcome of a URL
    WARNING = "warning"  # what failed
    ERROR = "error"  # what needs somebody to look


class CrawlConfig(Struct, frozen=True, kw_only=True):
    """The `[crawl]` section."""

    user_agent: str = ""
    from_: str = ""
    seeds: tuple[str, ...] = ()  # canonical URLs, and files as "@/whole/path"
    concurrency: int = 256
    max_pages: float = math.inf
    max_depth: float = math.inf
    patience_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchConfig:
    """The `[fetch]` section."""

    timeout_s: float = 30.0
    max_body_bytes: int = 10_000_000
    max_attempts: int = 3
    unreachable_for_s: float = 7 * 86_400.0
    max_redirects: int = 20
    # May hold secrets: not shown.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    proxy: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 10.0
    first_byte_timeout_s: float = math.inf  # `timeout` bounds it all the same
    min_rate_bytes_per_s: float = 100.0
    max_header_bytes: int = 256 * 1024
    max_markup_bytes: int = 5_000_000
    cookies: bool = False
    credentials: Mapping[str, str] = field(default_factory=dict)  # origin -> where they are
    tls_verify: bool = True
    ca_file: Path | None = None


class NetworkConfig(Struct, frozen=True, kw_only=True):
    """The `[network]` section."""

    allow: tuple[str, ...] = ()  # CIDR ranges
    resolve: Mapping[str, str] = msgspec.field(default_factory=dict)  # name or pattern -> address

    def leads_to_loopback(self, host: str) -> bool:
        """Whether a direct connection for `host` ends at this machine whatever DNS answers: it is
        localhost, a loopback address, or a name that `resolve` maps to one."""
        return is_loopback(static_address(self.resolve, host) or host)


class StorageConfig(Struct, frozen=True, kw_only=True):
    """The `[storage]` section; `path` is the file that `url` names."""

    url: str = "sqlite:crawl.db"
    path: Path = Path("crawl.db")
    links: bool = False
    fragments: bool = False
    file_mode: str = "0600"
    min_free_bytes: float = 0
    max_size_bytes: float = math.inf

    @property
    def mode(self) -> int:
        """`file_mode` as a number."""
        return int(self.file_mode, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonConfig:
    """The `[daemon]` section."""

    listen: str = "127.0.0.1:8710"
    token: str = field(default="", repr=False)
    hosts: tuple[str, ...] = ()
    log: Path | None = None
    log_level: LogLevel = LogLevel.INFO

    @property
    def listens_on(self) -> tuple[str, int]:
        """Address (without brackets) and port."""
        host, _, port = self.listen.rpartition(":")
        return host.removeprefix("[").removesuffix("]"), int(port)


class SinkConfig(Struct, frozen=True, kw_only=True):
    """One `[[sink]]`; which keys a kind has stands in `crawler.config.sink_keys.SINK_KEYS`.

    status: as 200, and classes by their first digit. gzip: None means by the path's ending."""

    kind: str
    path: Path
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    content_types: tuple[str, ...] = ()
    noindex: bool = False
    fsync: bool = True
    max_file_bytes: float = math.inf
    max_age_s: float = math.inf
    gzip: bool | None = None
    body: str = "auto"
    links: bool = True
    requisites: bool = True
    scripts: bool = False
    session_headers: bool = False

    @property
    def compresses(self) -> bool:
        """Is what it writes compressed? A WARC is, unless its name ends in `.warc`."""
        if self.gzip is not None:
            return self.gzip
        name = self.path.name.lower()
        return name.endswith(".gz") or (self.kind == "warc" and not name.endswith(".warc"))
