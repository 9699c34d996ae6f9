"""Names to addresses: the table of `[network] resolve` first, then the system's DNS, remembered.

What an address may be used for is judged where it is used; here a name of which no address may be
connected to is refused at once, and of a mixed lot only the others are given.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import AsyncResolver, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.clock import Clock
from crawler.config.host_patterns import read_pattern, static_address
from crawler.fetching.exchange import current_exchange
from crawler.fetching.guard import AddressRefusedError, judged
from crawler.fetching.own import blame, blame_ares
from crawler.threads import is_lack
from policies.address import AddressRules
from policies.holds import HoldReason

# DNS rounds at minutes; a crawl that asks a host for hours need not ask DNS each time.
REMEMBERED_S: Final = 600.0
# A resolver that has denied a name may have cached that: it is asked no more once it is so old.
RENEWED_S: Final = 1.0
# About 300 bytes each.
REMEMBERED_MAX: Final = 20_000
# Addresses tried of each family; a name may have hundreds, and aiohttp tries them all, and again.
PER_FAMILY_MAX: Final = 2


class NameLookupError(OSError):
    """A name without an address. permanent: DNS says that it does not exist. ours, local: as a
    `Failure` has them."""

    def __init__(
        self,
        sentence: str,
        *,
        permanent: bool,
        ours: HoldReason | None = None,
        local: bool = False,
    ) -> None:
        super().__init__(None, sentence)
        self.sentence = sentence
        self.permanent = permanent
        self.ours = ours
        self.local = local


def system_resolver() -> AbstractResolver:
    """A resolver of the system's DNS that shares nothing with another."""
    try:
        return AsyncResolver(rotate=False)  # without an argument, all share one and its cache
    except RuntimeError:  # aiodns is not installed
        return ThreadedResolver()


class _System:
    """One resolver of the system, and what it is asked at the moment."""

    __slots__ = ("denied", "lookups", "made_s", "resolver")

    def __init__(self, resolver: AbstractResolver, made_s: float) -> None:
        self.resolver = resolver
        self.made_s = made_s
        self.lookups = 0
        self.denied = False  # has a lookup failed?


class Names(AbstractResolver):
    """Static names, then DNS. With `pin` a host has one address, the same until it leaves the DNS.

    table: host pattern to address, as `[network] resolve` has them.
    Raises ValueError for a table value that is not an address.
    """

    def __init__(
        self,
        table: Mapping[str, str],
        addresses: AddressRules,
        clock: Clock,
        *,
        pin: bool = False,
        system: Callable[[], AbstractResolver] = system_resolver,
    ) -> None:
        self._table = {
            read_pattern(name): str(ipaddress.ip_address(address))
            for name, address in table.items()
        }
        self._addresses = addresses
        self._clock = clock
        self._pin = pin
        self._make_system = system
        self._system: _System | None = None
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._pinned: dict[str, str] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """For aiohttp. Raises NameLookupError and AddressRefusedError."""
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

    async def address_of(self, host: str) -> str:
        """The address that `host` (a name, or an address) is connected to, with `pin`. Raises
        NameLookupError and AddressRefusedError."""
        if (literal := literal_address(host)) is not None:
            judged(self._addresses, literal)
            return literal
        return self._pick(host, await self._lookup(host))

    def forget(self, host: str) -> None:
        """The addresses remembered are of no use: ask again when `host` is next wanted."""
        self._known.pop(host, None)
        self._pinned.pop(host, None)

    def pin_as(self, other: Names) -> None:
        """Prefer the addresses that it has chosen, as far as they are permitted here."""
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
            system = await self._asked()
        except Exception as exc:
            sentence = f"the DNS could not be asked for {host} ({exc})"
            ours, _ = blame(exc)
            raise NameLookupError(sentence, permanent=False, ours=ours, local=True) from exc
        system.lookups += 1
        try:
            results = await system.resolver.resolve(host, 0, socket.AF_UNSPEC)
        except UnicodeError:
            # The threaded resolver encodes names as IDNA: empty and overlong labels end here.
            raise NameLookupError(f"{host} cannot be a name in the DNS", permanent=True) from None
        except RuntimeError as exc:  # getaddrinfo takes a thread
            if not is_lack(exc):
                raise
            sentence = f"the DNS could not be asked for {host} ({exc})"
            ours, local = blame(exc)
            raise NameLookupError(sentence, permanent=False, ours=ours, local=local) from exc
        except OSError as exc:
            system.denied = True
            raise _failure(host, exc) from exc
        finally:
            system.lookups -= 1
            if system is not self._system and not system.lookups:
                await system.resolver.close()
        found = tuple(dict.fromkeys(result["host"] for result in results))
        if not found:
            system.denied = True
            raise NameLookupError(f"the DNS has no address for {host}", permanent=False)
        return found

    async def _asked(self) -> _System:
        """The resolver to ask. c-ares keeps denials and empty answers for up to an hour, also those
        of an outage: a new one takes the place of one that denied a name. That reads the addresses
        of the nameservers again, too."""
        now_s = self._clock.monotonic()
        before = self._system
        if before is not None and not (before.denied and now_s - before.made_s >= RENEWED_S):
            return before
        self._system = system = _System(self._make_system(), now_s)
        if before is not None and not before.lookups:
            await before.resolver.close()
        return system


def literal_address(host: str) -> str | None:
    """`host` if it is an address, without brackets; None for a name."""
    bare = host[1:-1] if host.startswith("[") else host
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        return None
    return bare


def _failure(host: str, exc: OSError) -> NameLookupError:
    """c-ares' and getaddrinfo's codes, as one of three sentences."""
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
    sentence = f"the DNS could not be asked for {host} ({text})"
    return NameLookupError(sentence, permanent=False, ours=ours, local=local)


# ares.h: names of the numbers that aiodns passes on. Misspelt names (8) do not exist either.
_ARES_ENODATA: Final = 1
_ARES_ABSENT: Final = frozenset({4, 8})


async def within(seconds: float, names: Names, host: str) -> str:
    """`address_of` with a bound, which the threaded resolver has none of its own."""
    try:
        async with asyncio.timeout(seconds):
            return await names.address_of(host)
    except TimeoutError:
        sentence = f"the name {host} was not resolved within {seconds:g} s"
        raise NameLookupError(sentence, permanent=False) from None
