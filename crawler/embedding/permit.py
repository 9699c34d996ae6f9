"""Permits for a client of the caller's own: httpx, a browser, an SDK."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final, Protocol

from multidict import CIMultiDict, CIMultiDictProxy

from crawler.downloading.downloader import LentContact
from crawler.embedding.caller_gate import CallerGate
from crawler.embedding.caller_waits import WaitLimit
from crawler.errors import FetchFailed, InvalidRequest, SessionClosed
from crawler.fetching.guard import address_rules
from crawler.fetching.request import Failure, Headers
from crawler.frontier.host_queue import Permit
from policies.retries import FailureCode
from policies.url import host_of

# Of a database that other workers share: a client that is not ours may connect to a host for this
# long before it sends its request, which we could not keep from it any more.
CONNECT_S: Final = 5.0
LOOK_EVERY_S: Final = 0.25


class HeaderItems(Protocol):
    def items(self) -> Iterable[tuple[str, str]]: ...


class RequestPermit:
    """Permission to send one request to one host, until the block of `permit` ends.

    url: canonical. method: in upper case.
    """

    def __init__(self, url: str, method: str, lent: LentContact) -> None:
        self.url = url
        self.method = method
        self._lent = lent

    def record(self, status: int, headers: HeaderItems | None = None) -> None:
        """Record the response, from which the host learns when the block ends: it backs off after
        429 and 503, waits for the Retry-After of any status, and counts as reachable. The duration
        of the block counts as its response time. Of several calls, the last one counts. headers: a
        mapping, or any object with `items`.

        Raises InvalidRequest for a status outside 100 to 599 or headers that are not strings, and
        SessionClosed after the block.
        """
        number: object = status
        if isinstance(number, bool) or not isinstance(number, int) or not 100 <= number <= 599:
            raise InvalidRequest("status", f"must be a number from 100 to 599, not {number!r}")
        fields = _read(headers)
        if self._lent.over:
            raise SessionClosed(f"the permit for {self.url} has ended: record inside its block")
        self._lent.status = status
        self._lent.headers = fields


def _read(headers: object) -> Headers:
    items = getattr({} if headers is None else headers, "items", None)
    if not callable(items):
        raise InvalidRequest(
            "headers", f"must be a mapping of names to values, not {type(headers).__name__}"
        )
    fields: CIMultiDict[str] = CIMultiDict()
    for name, value in items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidRequest("headers", "names and values must be strings")
        fields.add(name, value)
    return CIMultiDictProxy(fields)


@contextlib.asynccontextmanager
async def lend_permit(
    gate: CallerGate, url: str, method: str, limit: WaitLimit
) -> AsyncIterator[RequestPermit]:
    """Wait for a permit for this canonical URL, and lend it to the block. Raises what `enter`
    raises."""
    check_literal(gate, url)
    permit = await with_time_to_connect(gate, lambda: gate.enter(url, limit))
    async with gate.lend(permit, url) as lent:
        yield RequestPermit(url, method, lent)


async def with_time_to_connect(gate: CallerGate, enter: Callable[[], Awaitable[Permit]]) -> Permit:
    """A permit with CONNECT_S left of the leases, where other workers share the database."""
    permit = await enter()
    while not gate.frontier.expiry.may_contact(for_s=CONNECT_S):
        gate.frontier.permits.give_back(permit)
        await gate.clock.sleep_until(gate.clock.monotonic() + LOOK_EVERY_S)
        permit = await enter()
    return permit


def check_literal(gate: CallerGate, url: str) -> None:
    """Refuse a private address in the URL itself, which the caller's client would connect to.
    Raises FetchFailed."""
    host = host_of(url)
    if host.rstrip(".") == "localhost":
        host = "127.0.0.1"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return  # a name: it is looked up for its robots.txt
    if (sentence := address_rules(gate.config).judge(host)) is None:
        return
    now_s = gate.clock.monotonic()
    failure = Failure(
        url=url,
        code=FailureCode.ADDRESS,
        sentence=sentence,
        connected=False,
        permanent=True,
        started_s=now_s,
        ended_s=now_s,
        contacted=False,
    )
    raise FetchFailed(url, failure)
