"""The contacts of all crawls and sessions of this process.

Each of them paces its own contacts with a host. This register keeps them from contacting a host
while another one does, or before the delay after that contact is over. Nothing is leased: a contact
counts from its permit to its end, and whoever has waited longest is next. They may run in event
loops of different threads. Those with an injected clock share with others of the same clock only.
"""

from __future__ import annotations

import math
import os
import threading
from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

from crawler.clock import Clock, RealClock

# Hosts remembered, about 400 bytes each: those contacted recently, or backing off. Beyond it, those
# that may be contacted soonest are forgotten.
HOSTS_KEPT_MAX: Final = 100_000
FORGET_DOWN_TO: Final = 7 / 8
FIRST_ROOM: Final = 1_024  # hosts, before those whose delay is over are forgotten
# How soon a host is looked at again whose contact under way has no delay after it. With a delay,
# that is soon enough: the contact may end at any time, but the next begins a delay later.
LOOK_S: Final = 0.01
# How long after its time the next crawl or session may be late. Then it has lost its place: it was
# cancelled, or has no connection free.
LATE_S: Final = 1.0
NEVER: Final = -math.inf


class _Contacts:
    """The contacts with one host."""

    __slots__ = ("backoff_s", "by", "delay_s", "ended_s", "open", "ready_s", "waiting")

    def __init__(self, by: ReferenceType[SharedContacts]) -> None:
        self.by = by  # who made the latest
        self.open = 0  # those of `by` under way
        self.delay_s = 0.0  # after the one that began last
        self.ended_s = NEVER  # when the last of them ended
        self.backoff_s = NEVER  # until when the host backs off
        self.ready_s = NEVER  # when all this and the delay of `by` are over
        # Who waits for the host, in order, and when each expects to contact it.
        self.waiting: dict[ReferenceType[SharedContacts], float] = {}


class Register:
    """The hosts contacted by the crawls and sessions of one clock. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.hosts: dict[str, _Contacts] = {}
        self.lock = threading.Lock()
        self.sharers = 0  # that there have ever been
        self._room = FIRST_ROOM

    def add(self, slot: str, by: ReferenceType[SharedContacts], now_s: float) -> _Contacts:
        """The caller has the lock."""
        if len(self.hosts) >= self._room:
            self._make_room(now_s)
        contacts = self.hosts[slot] = _Contacts(by)
        return contacts

    def _make_room(self, now_s: float) -> None:
        hosts = self.hosts
        for slot, one in list(hosts.items()):
            over = not one.open and one.ready_s <= now_s
            if over and not (one.waiting and _expected(one, now_s)):
                del hosts[slot]
        if len(hosts) >= HOSTS_KEPT_MAX:
            idle = sorted((one.ready_s, slot) for slot, one in hosts.items() if not one.open)
            for _, slot in idle[: len(hosts) - int(HOSTS_KEPT_MAX * FORGET_DOWN_TO)]:
                del hosts[slot]
        self._room = max(FIRST_ROOM, min(HOSTS_KEPT_MAX, 2 * len(hosts)))

    def forget(self) -> None:
        """Forget all contacts that are over."""
        with self.lock:
            for slot, one in list(self.hosts.items()):
                if not one.open:
                    del self.hosts[slot]


class SharedContacts:
    """The contacts of one crawl or session, in a register that it shares with others.

    `slot`: a key of its host queues. Those that form them differently (`per`) do not see each
    other's contacts.
    """

    __slots__ = ("__weakref__", "_hosts", "_lock", "_me", "closed", "register")

    def __init__(self, register: Register) -> None:
        register.sharers += 1
        self.register = register
        self._hosts = register.hosts
        self._lock = register.lock
        self._me = ref(self)
        self.closed = False  # its rules no longer count for others, as its contacts do

    def free_s(self, slot: str, now_s: float, delay_s: float, *, claim: bool) -> float:
        """Return when the others leave the host to this one; in the past: now. An estimate while a
        contact is under way.

        delay_s: of this one, which suffices after a contact of one that is closed. claim: it wants
        to contact the host then, and keeps its place.
        """
        contacts = self._hosts.get(slot)
        if contacts is None or (contacts.by is self._me and not contacts.waiting):
            return NEVER
        with self._lock:
            return self._free_s(contacts, now_s, delay_s, claim=claim)

    def _free_s(self, contacts: _Contacts, now_s: float, delay_s: float, *, claim: bool) -> float:
        at_s = NEVER
        look_s = max(contacts.delay_s, LOOK_S)
        if contacts.by is not self._me:
            maker = contacts.by()
            if contacts.open and maker is None:  # dropped in the middle of a contact
                contacts.open = 0
                contacts.ended_s = now_s
                contacts.ready_s = now_s + contacts.delay_s
            at_s = now_s + look_s if contacts.open else contacts.ready_s
            if not contacts.open and (maker is None or maker.closed):
                at_s = min(at_s, max(contacts.ended_s + delay_s, contacts.backoff_s))
        if contacts.waiting:
            first = _expected(contacts, now_s)
            if first is not None and first[0] is not self._me:
                at_s = max(at_s, first[1] + look_s, now_s + LOOK_S)
        if claim and at_s > now_s:
            contacts.waiting[self._me] = at_s
        return at_s

    def begin(self, slot: str, now_s: float, delay_s: float) -> bool:
        """Begin a contact, after which others wait `delay_s`. False: another one was faster, in
        another thread."""
        with self._lock:
            contacts = self._hosts.get(slot)
            if contacts is None:
                contacts = self.register.add(slot, self._me, now_s)
            elif contacts.by is not self._me:
                if self._free_s(contacts, now_s, delay_s, claim=True) > now_s:
                    return False
                contacts.by = self._me
            if contacts.waiting:
                contacts.waiting.pop(self._me, None)
            contacts.open += 1
            contacts.delay_s = delay_s
            return True

    def give_back(self, slot: str) -> None:
        """Undo `begin`: no contact was made."""
        with self._lock:
            contacts = self._hosts.get(slot)
            if contacts is not None and contacts.by is self._me:
                contacts.open -= 1

    def end(self, slot: str, ended_s: float, delay_s: float, backoff_s: float = NEVER) -> None:
        """End a contact. Others wait for the delay after it, and until `backoff_s`."""
        with self._lock:
            contacts = self._hosts.get(slot)
            if contacts is not None and contacts.by is self._me:
                contacts.open -= 1
                contacts.ended_s = ended_s
                contacts.backoff_s = backoff_s
                contacts.ready_s = max(contacts.ready_s, ended_s + delay_s, backoff_s)


def _expected(
    contacts: _Contacts, now_s: float
) -> tuple[ReferenceType[SharedContacts], float] | None:
    """Return who is next, and when. Those that did not come are dropped."""
    for other, at_s in list(contacts.waiting.items()):
        if at_s + LATE_S >= now_s and other() is not None:
            return other, at_s
        del contacts.waiting[other]
    return None


# ---------------------------------------------------------------- one for each clock

_real = Register()
_injected: Final[WeakKeyDictionary[Clock, Register]] = WeakKeyDictionary()


def share_contacts(clock: Clock) -> SharedContacts:
    """Return the contacts of a new crawl or session, shared with all whose clock is the same."""
    if isinstance(clock, RealClock):
        return SharedContacts(_real)
    try:
        return SharedContacts(_injected.setdefault(clock, Register()))
    except TypeError:  # it cannot be a key: it is not shared
        return SharedContacts(Register())


def forget_contacts() -> None:
    """Forget the contacts of this process that are over, so that the delays after them do not
    count for new crawls and sessions. For tests, which begin anew with each server."""
    _real.forget()


def _forget_parent() -> None:
    """The contacts of the parent process are not ours, and another thread may have had the
    lock."""
    global _real  # noqa: PLW0603
    _real = Register()


os.register_at_fork(after_in_child=_forget_parent)
