"""The config sections that belong to the crawler; those of `policies` are its rule types.

Each field that the config file can set carries a `Key` (policies/config_key.py), the only
description of that key.
"""

# Without `from __future__ import annotations`: evaluating annotations from strings takes longer.

import enum
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct

from crawler.config import checks, secrets
from crawler.config.host_patterns import static_address
from policies.address import is_loopback
from policies.config_key import Key, keys_of, media_type, url_pattern
from policies.scope import HOPS_MAX
from storage.location import LEASE_S, START_WAIT_S, FileLocation, Location
from storage.secret_sources import rooted_source


class LogLevel(enum.StrEnum):
    """The minimum level of the events that are logged."""

    DEBUG = "debug"  # robots.txt fetches and commits as well
    INFO = "info"  # the outcome of every URL
    WARNING = "warning"  # failures
    ERROR = "error"  # failures that need attention


class SectionWithSecrets(Struct, frozen=True):
    """A section whose text leaves out the values that may be secret."""

    def __rich_repr__(self) -> list[tuple[str, object]]:
        keys = keys_of(type(self)).values()
        return [(key.field, getattr(self, key.field)) for key in keys if key.mask is None]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({values})"


class CrawlConfig(Struct, frozen=True, kw_only=True):
    """The `[crawl]` section."""

    user_agent: Annotated[
        str,
        Key(
            "required except on loopback addresses, with a contact: "
            '"examplebot/1.0 (+https://example.com/bot)"',
            parse=checks.user_agent,
        ),
    ] = ""
    from_: Annotated[str, Key("e-mail address for the From header", parse=checks.email_address)] = (
        ""
    )
    # Canonical URLs, and files as "@/absolute/path".
    seeds: Annotated[
        tuple[str, ...],
        Key(
            'URLs, or files with one URL per line: "@seeds.txt"',
            parse=checks.seed,
            rooted=checks.rooted_seeds,
        ),
    ] = ()
    concurrency: Annotated[
        int, Key("requests in flight across all hosts", minimum=1, maximum=65_536)
    ] = 256
    max_pages: Annotated[
        float, Key("stop after N pages; pages of earlier runs do not count", "count")
    ] = math.inf
    max_time_s: Annotated[
        float, Key("stop after this long; URLs stay queued", "seconds", above=0, inf=True)
    ] = math.inf
    max_bytes: Annotated[
        float,
        Key(
            "stop after pages of N bytes, as decoded; those of earlier runs do not count",
            "bytes",
            name="max_bytes",
            minimum=1,
        ),
    ] = math.inf
    max_errors: Annotated[
        float,
        Key(
            "stop after N URLs have failed; those of earlier runs do not count", "count", minimum=1
        ),
    ] = math.inf
    max_depth: Annotated[
        float, Key("follow links at most N hops from a seed; a redirect adds none", "count")
    ] = math.inf
    patience_s: Annotated[
        float,
        Key(
            "a plain crawl ends after this long without progress; waiting URLs stay queued",
            "seconds",
            inf=True,
        ),
    ] = 600.0


class FetchConfig(SectionWithSecrets, frozen=True, kw_only=True):
    """The `[fetch]` section."""

    timeout_s: Annotated[float, Key("whole request, seconds", "seconds", above=0)] = 30.0
    max_body_bytes: Annotated[
        int, Key("maximum body size after decompression", "bytes", minimum=1)
    ] = 10_000_000
    max_attempts: Annotated[int, Key("attempts before a URL fails", minimum=1, maximum=1_000)] = 3
    unreachable_for_s: Annotated[
        float,
        Key(
            "retry a host that cannot be connected to for this long before its URLs fail",
            "seconds",
            inf=True,
        ),
    ] = 7 * 86_400.0
    max_redirects: Annotated[
        int, Key("redirects in a row; one more and the URL fails", maximum=HOPS_MAX)
    ] = 20
    headers: Annotated[
        Mapping[str, str],
        Key(
            'additional request headers: { "Accept-Language" = "en" }',
            parse=checks.header,
            mask=secrets.hidden_values,
        ),
    ] = msgspec.field(default_factory=dict)
    proxy: Annotated[
        str | None,
        Key(
            'URL of an HTTP proxy: "http://127.0.0.1:3128"',
            parse=checks.proxy,
            mask=secrets.redact_proxy,
        ),
    ] = None
    connect_timeout_s: Annotated[
        float,
        Key("limit for the DNS lookup, and again for TCP and TLS, seconds", "seconds", above=0),
    ] = 10.0
    first_byte_timeout_s: Annotated[  # `timeout` applies as well
        float,
        Key("from the request to the end of the response headers, seconds", "seconds", above=0),
    ] = math.inf
    min_rate_bytes_per_s: Annotated[
        float,
        Key(
            "minimum transfer rate of a body, measured over 10 s, bytes per second; 0: none",
            name="min_rate",
        ),
    ] = 100.0
    max_header_bytes: Annotated[
        int,
        Key(
            "size of the response headers; a single field is limited to 64 KiB", "bytes", minimum=1
        ),
    ] = 256 * 1024
    max_markup_bytes: Annotated[
        int,
        Key(
            "how much of a page is parsed for links; the rest is counted in `skipped`",
            "bytes",
            minimum=1,
        ),
    ] = 5_000_000
    cookies: Annotated[
        bool, Key("keep cookies during this run; cookies are never shared between sites")
    ] = False
    credentials: Annotated[  # origin -> where its credentials are
        Mapping[str, str],
        Key(
            '{ "https://example.org" = "env:NAME" } or "file:PATH": user:password or Bearer TOKEN',
            parse=secrets.credential,
            rooted=secrets.rooted_sources,
            mask=secrets.sources,
        ),
    ] = msgspec.field(default_factory=dict)
    lend_credentials: Annotated[
        bool,
        Key(
            "let requests of other programs (POST /api/fetch) use the headers, credentials and "
            "cookies above; a site that echoes them shows them to these programs"
        ),
    ] = False
    tls_verify: Annotated[
        bool,
        Key("verify certificates; false only per site, for sites you own", own_sites_only=True),
    ] = True
    ca_file: Annotated[
        Path | None, Key("additional certificate authorities to trust: a PEM file")
    ] = None


class NetworkConfig(Struct, frozen=True, kw_only=True):
    """The `[network]` section."""

    allow: Annotated[  # CIDR ranges
        tuple[str, ...],
        Key(
            'private address ranges the crawler may connect to: ["127.0.0.0/8"]',
            parse=checks.address_range,
        ),
    ] = ()
    resolve: Annotated[  # name or pattern -> address
        Mapping[str, str], Key('static names: { "*.test" = "127.0.0.1" }', parse=checks.static_name)
    ] = msgspec.field(default_factory=dict)

    def leads_to_loopback(self, host: str) -> bool:
        """Return whether a direct connection for `host` ends at this machine whatever DNS answers:
        it is localhost, a loopback address, or a name that `resolve` maps to one."""
        return is_loopback(static_address(self.resolve, host) or host)


class StorageConfig(Struct, frozen=True, kw_only=True):
    """The `[storage]` section; `location` is what `url` names, with the place of its password."""

    url: Annotated[
        str,
        Key(
            'the database: "sqlite:" and a path, or "postgresql://…"; see docs/postgresql.md',
            parse=checks.storage_url,
            restart=True,
        ),
    ] = "sqlite:crawl.db"
    location: Location = FileLocation(Path("crawl.db"))
    password: Annotated[
        str,
        Key(
            'where the password is, with PostgreSQL: "env:NAME" or "file:PATH"; empty: PGPASSWORD '
            "or ~/.pgpass",
            parse=secrets.password_source,
            rooted=rooted_source,
            mask=secrets.shown_source,
            restart=True,
        ),
    ] = ""
    lease_s: Annotated[
        float,
        Key(
            "with PostgreSQL: how long a worker may contact its hosts after the server last "
            "confirmed that they are its own, seconds",
            "seconds",
            minimum=5,
            maximum=300,
            restart=True,
        ),
    ] = LEASE_S
    start_wait_s: Annotated[
        float,
        Key(
            "with PostgreSQL: how long a crawl that starts waits for a server that cannot be "
            "reached, seconds; one that runs waits without end",
            "seconds",
            minimum=0,
            maximum=86_400,
            restart=True,
        ),
    ] = START_WAIT_S
    file_mode: Annotated[
        str,
        Key(
            "permissions of created files, octal; the umask applies as well",
            parse=checks.file_mode,
            restart=True,
        ),
    ] = "0600"
    min_free_bytes: Annotated[
        int | None,
        Key(
            'hold the crawl while less disk space than this, such as "1GB", is free where the '
            "database (SQLite) or a sink is; 0: no minimum; empty: 200MB, or 2 % of a smaller disk",
            "bytes",
        ),
    ] = None
    max_size_bytes: Annotated[
        float,
        Key(
            "hold the crawl while the files of the database (SQLite) and all sinks exceed this "
            'size: "50GB"',
            "bytes",
            minimum=1,
        ),
    ] = math.inf
    links: Annotated[
        bool,
        Key(
            "keep every link of every page, with its anchor and rel, in the view `links`, and "
            "malformed links in `malformed`",
            restart=True,
        ),
    ] = False
    fragments: Annotated[
        bool,
        Key(
            "keep every link with a fragment, and the ids of pages, for the view `fragments`",
            restart=True,
        ),
    ] = False

    @property
    def mode(self) -> int:
        """`file_mode` as a number."""
        return int(self.file_mode, 8)


class SinkConfig(Struct, frozen=True, kw_only=True):
    """One `[[sink]]`; a kind has the keys whose `kinds` name it or are empty."""

    kind: Annotated[str, Key("what to write", choices=("jsonl", "warc", "mirror"))]
    path: Annotated[
        Path, Key("file to write ({worker}: the worker's number), or the directory of a mirror")
    ]
    include: Annotated[
        tuple[str, ...],
        Key("glob patterns matched against whole URLs; empty: all", parse=url_pattern),
    ] = ()
    exclude: Annotated[
        tuple[str, ...], Key("glob patterns on URLs to exclude", parse=url_pattern)
    ] = ()
    # Statuses, and classes of them by their first digit.
    status: Annotated[
        tuple[int, ...], Key('statuses and classes: [200, "3xx"]; empty: all', parse=checks.status)
    ] = ()
    content_types: Annotated[
        tuple[str, ...], Key('media types: ["text/*"]; empty: all', parse=media_type)
    ] = ()
    noindex: Annotated[bool, Key("include pages that ask not to be indexed")] = False
    fsync: Annotated[
        bool,
        Key("flush to disk before a page is committed, to survive a power cut; a mirror: false"),
    ] = True
    max_file_bytes: Annotated[
        float,
        Key(
            'start a new file once this size is exceeded; for a warc "1GB"',
            "bytes",
            minimum=1,
            inf=True,
            kinds=("jsonl", "warc"),
        ),
    ] = math.inf
    max_age_s: Annotated[
        float,
        Key(
            "start a new file once this age is exceeded",
            "seconds",
            above=0,
            inf=True,
            kinds=("jsonl", "warc"),
        ),
    ] = math.inf
    gzip: Annotated[
        bool | None,
        Key(
            'default: by file extension; a warc unless it ends in ".warc"', kinds=("jsonl", "warc")
        ),
    ] = None
    body: Annotated[
        str,
        Key(
            "text as a string and other bodies as base64, all as base64, or no bodies",
            choices=("auto", "base64", "none"),
            kinds=("jsonl",),
        ),
    ] = "auto"
    links: Annotated[bool, Key("the links of each page", kinds=("jsonl",))] = True
    session_headers: Annotated[
        bool,
        Key(
            "keep Set-Cookie and other response headers that may contain session secrets",
            kinds=("jsonl", "warc"),
        ),
    ] = False
    requisites: Annotated[
        bool,
        Key("also fetch what its pages need to be displayed, from any host", kinds=("mirror",)),
    ] = True
    scripts: Annotated[bool, Key("also fetch and keep scripts", kinds=("mirror",))] = False

    @property
    def compresses(self) -> bool:
        """Whether the sink writes compressed files. A WARC is compressed unless its name ends in
        `.warc`."""
        if self.gzip is not None:
            return self.gzip
        name = self.path.name.lower()
        return name.endswith(".gz") or (self.kind == "warc" and not name.endswith(".warc"))
