"""What becomes of a URL after a failure: when it is tried again, or why it is given up."""

from __future__ import annotations

import enum


class FailureCode(enum.StrEnum):
    """The CODE of a `failed` row (design section 6)."""

    DNS = "dns"
    ADDRESS = "address"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    BODY = "body"
    TOO_LARGE = "too-large"
    REFUSED = "refused"
    HTTP = "http"
