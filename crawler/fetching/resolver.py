"""Resolves names: the table of `[network] resolve` first, then the system's DNS, with a cache.

Each address is checked again when a socket is made for it. Here a name none of whose addresses may
be connected to is refused, and of several addresses only the permitted ones are returned.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import AsyncResolver, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.clock import Clock
from crawler.config.host_patterns import read_pattern, static_address
from crawler.fetching.exchange import current_exchange
from crawler.fetching.guard import AddressRefusedError, judged
from crawler.fetching.local_errors import blame, blame_ares
from crawler.fetching.request import NetworkError
from crawler.threads import is_lack
from policies.address import AddressRules
from policies.holds import HoldReason
from policies.retries import FailureCode

# DNS records change within minutes; a crawl that visits a host for hours need not ask each time.
REMEMBERED_S: Final = 600.0
# A system resolver that failed to resolve a name is replaced once it is this old.
RENEWED_S: Final = 1.0
# About 300 bytes each.
REMEMBERED_MAX: Final = 20_000
# Addresses tried of each family. A name may have hundreds, and aiohttp would try them all, twice.
PER_FAMILY_MAX: Final = 2


class NameLookupError(OSError):
    """A name without an address. permanent, ours and local are as in `Failure`."""

    def __init__(
        self,
        sentence: str,
        *,
        permanent: bool,
        ours: HoldReason | None = None,
        local: bool = False,
    ) -> None:
        super().__init__(None, sentence)
        self.error = NetworkError(FailureCode.DNS, sentence, permanent, ours, local)


@dataclass(slots=True)
class _System:
    """One resolver of the system's DNS, and the lookups it is working on."""

    resolver: AbstractResolver
    made_s: float
    lookups: int = 0
    failed: bool = False  # whether any lookup has


class Resolver(AbstractResolver):
    """Static names, then DNS. With `pin` a host keeps one address until it leaves the DNS.

    table: host pattern to address, as in `[network] resolve`. Raises ValueError for a value that is
    not an address.
    """

    def __init__(
        self,
        table: Mapping[str, str],
        addresses: AddressRules,
        clock: Clock,
        *,
        pin: bool = False,
    ) -> None:
        self._table = {
            read_pattern(name): str(ipaddress.ip_address(address))
            for name, address in table.items()
        }
        self._addresses = addresses
        self._clock = clock
        self._pin = pin
        self._system: _System | None = None
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._pinned: dict[str, str] = {}

    def new_system_resolver(self) -> AbstractResolver:
        """A resolver of the system's DNS that shares its cache with no other."""
        try:
            return AsyncResolver(rotate=False)  # without an argument aiohttp shares one
        except RuntimeError:  # aiodns is not installed
            return ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return addresses for aiohttp. Raises NameLookupError and AddressRefusedError."""
        exchange = current_exchange()
        if exchange is not None:
            exchange.resolving()
        found = await self._lookup(host)
        if exchange is None or not exchange.proxied:
            found = (self._pick(host, found),) if self._pin else self._permitted(found)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in found
        ]

    async def address_of(self, host: str, *, timeout_s: float | None = None) -> str:
        """The address that requests to `host` (a name or an address) go to with `pin`. Raises
        NameLookupError and AddressRefusedError."""
        if (literal := literal_address(host)) is not None:
            judged(self._addresses, literal)
            return literal
        try:
            async with asyncio.timeout(timeout_s):  # the threaded resolver has no timeout
                return self._pick(host, await self._lookup(host))
        except TimeoutError:
            sentence = f"the name {host} was not resolved within {timeout_s:g} s"
            raise NameLookupError(sentence, permanent=False) from None

    def forget(self, host: str) -> None:
        """Forget the addresses of a host, because they could not be connected to."""
        self._known.pop(host, None)
        self._pinned.pop(host, None)

    def pin_as(self, other: Resolver) -> None:
        """Prefer the addresses that another resolver has chosen, as far as they are permitted."""
        self._pinned.update(other._pinned)

    async def close(self) -> None:
        system, self._system = self._system, None
        if system is not None:
            await system.resolver.close()

    def _pick(self, host: str, found: tuple[str, ...]) -> str:
        permitted = self._permitted(found)
        pinned = self._pinned.get(host)
        if pinned is None or pinned not in permitted:
            self._pinned[host] = pinned = permitted[0]
            if len(self._pinned) > REMEMBERED_MAX:
                del self._pinned[next(iter(self._pinned))]
        return pinned

    def _permitted(self, found: tuple[str, ...]) -> tuple[str, ...]:
        refusal: AddressRefusedError | None = None
        permitted = []
        for address in found:
            try:
                judged(self._addresses, address)
            except AddressRefusedError as exc:
                refusal = refusal or exc
            else:
                permitted.append(address)
        if refusal is not None and not permitted:
            raise refusal
        v6 = [a for a in permitted if ":" in a][:PER_FAMILY_MAX]
        v4 = [a for a in permitted if ":" not in a][:PER_FAMILY_MAX]
        return (*v6, *v4) if permitted[0] in v6 else (*v4, *v6)

    async def _lookup(self, host: str) -> tuple[str, ...]:
        if (given := static_address(self._table, host)) is not None:
            return (given,)
        now_s = self._clock.monotonic()
        if (known := self._known.get(host)) is not None and known[0] > now_s:
            return known[1]
        found = await self._ask(host)
        self._known.pop(host, None)
        self._known[host] = (now_s + REMEMBERED_S, found)
        if len(self._known) > REMEMBERED_MAX:
            del self._known[next(iter(self._known))]
        return found

    async def _ask(self, host: str) -> tuple[str, ...]:
        try:
            system = await self._fresh_system()
        except Exception as exc:
            sentence = f"the DNS lookup of {host} failed ({exc})"
            ours, _ = blame(exc)
            raise NameLookupError(sentence, permanent=False, ours=ours, local=True) from exc
        system.lookups += 1
        try:
            results = await system.resolver.resolve(host, 0, socket.AF_UNSPEC)
        except UnicodeError:
            # The threaded resolver encodes names as IDNA, which refuses empty and overlong labels.
            raise NameLookupError(f"{host} is not a valid DNS name", permanent=True) from None
        except RuntimeError as exc:  # getaddrinfo needs a thread
            if not is_lack(exc):
                raise
            sentence = f"the DNS lookup of {host} failed ({exc})"
            ours, local = blame(exc)
            raise NameLookupError(sentence, permanent=False, ours=ours, local=local) from exc
        except OSError as exc:
            system.failed = True
            raise _failure(host, exc) from exc
        finally:
            system.lookups -= 1
            if system is not self._system and not system.lookups:
                await system.resolver.close()
        found = tuple(dict.fromkeys(result["host"] for result in results))
        if not found:
            system.failed = True
            raise NameLookupError(f"the DNS has no address for {host}", permanent=False)
        return found

    async def _fresh_system(self) -> _System:
        """The system resolver for the next lookup.

        c-ares caches denials and empty answers for up to an hour, even those of an outage, and
        reads the addresses of the nameservers only once: after a failure it is replaced.
        """
        now_s = self._clock.monotonic()
        before = self._system
        if before is not None and not (before.failed and now_s - before.made_s >= RENEWED_S):
            return before
        self._system = system = _System(self.new_system_resolver(), now_s)
        if before is not None and not before.lookups:
            await before.resolver.close()
        return system


def literal_address(host: str) -> str | None:
    """Return `host` if it is an address, without brackets; None for a name."""
    bare = host[1:-1] if host.startswith("[") else host
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return None
    return bare


def _failure(host: str, exc: OSError) -> NameLookupError:
    """Translate the codes of c-ares and getaddrinfo."""
    code = exc.errno
    ours, local = blame(exc)
    if isinstance(exc, socket.gaierror):
        absent = code == socket.EAI_NONAME
        empty = code == getattr(socket, "EAI_NODATA", None)
    else:
        # aiohttp raises OSError(None, text) from aiodns' error, whose first argument is the code.
        code = next(iter(getattr(exc.__cause__, "args", ()) or ()), None)
        absent = code in _ARES_ABSENT
        empty = code == _ARES_ENODATA
        if exc.errno is None:
            ours, local = blame_ares(code)
    if absent:
        return NameLookupError(f"the name {host} does not exist", permanent=True)
    if empty:
        return NameLookupError(f"the DNS has no address for {host}", permanent=False)
    text = str(exc.strerror or "no answer").rstrip(".").lower()
    sentence = f"the DNS lookup of {host} failed ({text})"
    return NameLookupError(sentence, permanent=False, ours=ours, local=local)


# Numbers of ares.h, which aiodns passes on. Malformed names (8) do not exist either.
_ARES_ENODATA: Final = 1
_ARES_ABSENT: Final = frozenset({4, 8})
