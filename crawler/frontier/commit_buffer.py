"""Outcomes, links and host clocks gathered for the next transaction: few, large commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field, structs

from crawler.clock import Clock
from crawler.config.model import CurrentConfig
from crawler.frontier.commands import COMMIT, CommandQueue
from crawler.frontier.host_queue import HostQueue
from crawler.frontier.pace import NEVER
from crawler.observer import Observer
from policies.robots import Verdict
from storage.store import (
    Batch,
    Blocked,
    Failed,
    HostUpdate,
    Outcome,
    Prefetch,
    Queued,
    Revisited,
    Visited,
)

if TYPE_CHECKING:
    from crawler.documents.crawled_page import CrawledPage
    from crawler.sinks.dispatch import Sinks

LINKS_PER_COMMIT: Final = 1_000
COMMIT_AFTER_S: Final = 0.1  # the age at which the oldest entry is committed
LINKS_MAX: Final = 20_000  # uncommitted; beyond it pages wait for the store,
OUTCOMES_MAX: Final = 2_000  # or beyond these: where all is blocked, outcomes come by the thousand
CHARS_OF_LINK: Final = 100  # a redirect may lead to a URL of 64 KB: it counts as many links


class About(NamedTuple):
    """What a consumer of outcomes is told of a URL without a page."""

    source: Queued | CrawledPage
    verdict: Verdict | None


class CommitBatch(Struct, frozen=True, kw_only=True):
    """One commit to be made. `upto`: the number of its last entry. about: by URL, of
    outcomes that are or may become outcomes without a page."""

    outcomes: list[Outcome]
    batch: Batch
    upto: int
    about: Mapping[int, About] = field(default_factory=dict)


class CommitBuffer:
    """What is recorded and not committed yet.

    Asks for a commit (by command) when a host waits for more URLs, when something must be durable
    soon, at LINKS_PER_COMMIT links, and when the oldest entry is COMMIT_AFTER_S old.
    """

    def __init__(
        self,
        config: CurrentConfig,
        clock: Clock,
        commands: CommandQueue,
        *,
        observer: Observer | None = None,
        sinks: Sinks | None = None,
        referrers: bool = False,
    ) -> None:
        self._config = config
        self._clock = clock
        self._commands = commands
        self._observer = observer
        self._sinks = sinks
        self._referrers = referrers
        self._outcomes: list[Outcome] = []
        self._about: dict[int, About] = {}
        self._skipped: Counter[str] = Counter()
        self._dirty: dict[str, HostQueue] = {}
        self._contacted: dict[str, HostQueue] = {}  # since the last commit
        self._wants: dict[str, tuple[HostQueue, int]] = {}
        self._returned: list[HostUpdate] = []
        self._releases: dict[str, tuple[HostQueue, float]] = {}
        self._leaving: Collection[str] = ()  # hosts whose release is being committed
        self._links = 0
        self._due_s: float | None = None  # when the oldest entry is to be committed
        self._asked = False  # the scheduler has been asked for that commit
        self.recorded = 0  # numbers the entries, so that a flush knows what to wait for
        self.durable = 0  # those up to this number are committed

    # ------------------------------------------------------------ putting in

    def record(
        self,
        outcome: Outcome,
        host: HostQueue,
        url: str = "",
        page: CrawledPage | None = None,
        *,
        about: Queued | CrawledPage | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        """Record an outcome, unless the host's lease was lost. url: of the outcome, for observers.
        page: what sinks must have on disk before the outcome is committed. about: the URL of an
        outcome without a page, or a page that a sink may refuse; verdict: of a block."""
        if host.lease_lost:
            return
        if about is not None and (page is not None or isinstance(outcome, Failed | Blocked)):
            self._about[outcome.id] = About(about, verdict)
        if page is not None and self._sinks is not None:
            self._sinks.put(page, outcome.id)
            if self._sinks.due:
                self.commit_soon()
        self._outcomes.append(outcome)
        if self._observer is not None:
            self._observer.settled(url, outcome)
        self._dirty[host.slot] = host
        if isinstance(outcome, Visited):
            self._links += len(outcome.links) + len(outcome.outlinks)
            if outcome.redirect_url is not None:
                self._links += len(outcome.redirect_url) // CHARS_OF_LINK
        elif isinstance(outcome, Revisited) and outcome.ban and self._sinks is not None:
            self._sinks.withdraw(url, outcome.ban, at=self._clock.wall(), id_=outcome.id)
        self.recorded += 1
        if self._due_s is None:
            self._set_due()
        if self._links >= LINKS_PER_COMMIT:
            self.commit_soon()

    def touch(self, host: HostQueue) -> None:
        """The host's clock changed without an outcome."""
        if host.lease_lost:
            return
        self._dirty[host.slot] = host
        self._touch()

    def contacted(self, host: HostQueue) -> None:
        """A contact ended. While its page is being parsed, the host's clock may wait for one commit
        and is then written together with the page."""
        if host.lease_lost:
            return
        self._contacted[host.slot] = host
        self.recorded += 1
        if self._due_s is None:
            self._set_due()

    def skip(self, reason: str, count: int = 1) -> None:
        """Count excluded URLs."""
        self._skipped[reason] += count
        self._touch()

    def want(self, host: HostQueue, *, pressed: bool) -> None:
        """Ask for more URLs of a host with the next commit; pressed: soon. Once per host."""
        if not host.wanting:
            host.wanting = True
            self._wants[host.slot] = (host, host.prefetch)
            self._touch()
        elif host.slot not in self._wants:
            return  # that commit is under way
        if pressed:
            self.commit_soon()

    def release(self, host: HostQueue, *, put_off_s: float = NEVER) -> None:
        """Release the host with the next commit. put_off_s: it has no work before then."""
        self._releases[host.slot] = (host, put_off_s)
        self.recorded += 1
        self.commit_soon()

    def return_lease(self, update: HostUpdate) -> None:
        """Release a host that is leased but no longer in memory."""
        self._returned.append(structs.replace(update, release=True))
        self.recorded += 1
        self.commit_soon()

    def urgent(self, host: HostQueue) -> None:
        """Commit the host's clock soon: a Retry-After or a backoff must survive a crash."""
        if host.lease_lost:
            return
        self._dirty[host.slot] = host
        self.recorded += 1
        self.commit_soon()

    def commit_soon(self) -> None:
        self._commands.put_once(COMMIT)

    def _touch(self) -> None:
        self.recorded += 1
        if self._due_s is None:
            self._set_due()

    def _set_due(self) -> None:
        self._due_s = self._clock.monotonic() + COMMIT_AFTER_S
        self._commands.wake_by(self._due_s)

    # ------------------------------------------------------------ time

    def wake_at(self) -> float | None:
        """The time when `advance` must be called (monotonic seconds)."""
        return None if self._asked else self._due_s

    def advance(self, now_s: float) -> None:
        """Time has passed."""
        if not self._asked and self._due_s is not None and self._due_s <= now_s:
            self._asked = True
            self.commit_soon()

    # ------------------------------------------------------------ taking out

    @property
    def uncommitted(self) -> int:
        """Outcomes recorded since the last commit began."""
        return len(self._outcomes)

    @property
    def empty(self) -> bool:
        return self.recorded == self.durable

    @property
    def full(self) -> bool:
        """Whether recorded outcomes are far ahead of the store."""
        return (
            self._links > LINKS_MAX
            or len(self._outcomes) > OUTCOMES_MAX
            or (self._sinks is not None and self._sinks.full)
        )

    def releasing(self, slot: str) -> bool:
        """Return whether its release is not committed yet."""
        return slot in self._releases or slot in self._leaving

    def include_contacted(self) -> None:
        """Let no host's clock wait any longer."""
        self._dirty |= self._contacted

    def committed(self, upto: int) -> None:
        """Learn that everything up to this number is in the store."""
        self.durable = upto
        self._leaving = ()

    def take(self) -> CommitBatch | None:
        """Remove everything gathered, except clocks that may wait; None if empty."""
        self._due_s, self._asked = None, False
        upto = self.recorded
        if upto == self.durable:
            return None
        outcomes, self._outcomes = self._outcomes, []
        about, self._about = self._about, {}
        skipped, self._skipped = self._skipped, Counter()
        dirty, self._dirty = self._dirty, {}
        contacted, self._contacted = self._contacted, {}
        wants, self._wants = self._wants, {}
        returned, self._returned = self._returned, []
        releases, self._releases = self._releases, {}
        self._leaving = releases.keys()
        self._links = 0
        settled = {outcome.id for outcome in outcomes}  # a retry may be handed out again
        dirty |= {slot: host for slot, (host, _) in wants.items() if not host.gone}
        for slot, host in contacted.items():
            waits = host.unread and slot not in dirty and slot not in releases
            (self._dirty if waits else dirty)[slot] = host
        if self._dirty:
            self._touch()
            if not (outcomes or dirty or skipped or returned or releases):
                return None  # a flush waits for none of those
        batch = Batch(
            outcomes=outcomes,
            hosts=[*self._updates(dirty, releases), *returned],
            skipped=skipped,
            prefetch=[
                Prefetch(
                    slot=slot,
                    count=count,
                    in_memory=tuple(host.in_memory - settled),
                    closed=(*host.closed, *host.parked),
                    queued=not host.full,
                    revisits=self._config.config.revisits,
                    referrers=self._referrers,
                )
                for slot, (host, count) in wants.items()
                if not host.gone
            ],
        )
        return CommitBatch(outcomes=outcomes, batch=batch, upto=upto, about=about)

    def _updates(
        self, dirty: dict[str, HostQueue], releases: dict[str, tuple[HostQueue, float]]
    ) -> list[HostUpdate]:
        now_s = self._clock.monotonic()
        updates = [host.update(now_s) for slot, host in dirty.items() if slot not in releases]
        updates += [
            host.update(now_s, release=True, put_off_s=put_off_s)
            for host, put_off_s in releases.values()
        ]
        return updates
