"""Browser sessions."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from crawler.clock import Clock
from crawler.daemon.http.accounts import Account, digest_of

SESSIONS_MAX = 1_000  # the oldest is dropped
SESSIONS_OF_ACCOUNT_MAX = 200  # the oldest of the account is dropped: it cannot end those of others
SESSION_S = 12 * 3600.0  # a working day; then the token is required again


class Sessions:
    """Browser sessions, in memory only: one ends at logout, after SESSION_S or with the process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By the hashes of their names.
        self._open: OrderedDict[bytes, tuple[float, Account]] = OrderedDict()

    def open(self, account: Account) -> str:
        """Open a session and return its name, which is random."""
        own = [key for key, (_, whose) in self._open.items() if whose.name == account.name]
        if len(own) >= SESSIONS_OF_ACCOUNT_MAX:
            del self._open[own[0]]
        while len(self._open) >= SESSIONS_MAX:
            self._open.popitem(last=False)
        name = secrets.token_urlsafe(32)
        self._open[digest_of(name)] = self._clock.monotonic() + SESSION_S, account
        return name

    def account(self, name: str) -> Account | None:
        """Whose session this is; None if it has ended."""
        key = digest_of(name)
        found = self._open.get(key)
        if found is None:
            return None
        ends_s, account = found
        if self._clock.monotonic() >= ends_s:
            del self._open[key]
            return None
        return account

    def close(self, name: str) -> None:
        self._open.pop(digest_of(name), None)
