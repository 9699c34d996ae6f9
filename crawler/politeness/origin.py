"""One origin as the gate holds it in memory: what is known of its robots.txt, what that means."""

from __future__ import annotations

import asyncio

from crawler.politeness.host import Host
from policies import access, robots
from policies.access import Access, RobotsRules, Standing
from policies.pacing import Ask
from policies.robots import Policy


class Origin:
    """What the gate holds of one origin in memory."""

    __slots__ = (
        "access",
        "host",
        "loaded",
        "name",
        "pinned",
        "policy",
        "rules",
        "seat",
        "standing",
        "stands_on",
        "task",
        "tokens",
        "waits_at",
    )

    def __init__(
        self, name: str, host: Host, known: Access, rules: RobotsRules, tokens: tuple[str, ...]
    ) -> None:
        self.name = name
        self.host = host
        self.access = known
        self.loaded = True  # that is what the store knows, too
        self.pinned = False  # something counts on its being in memory
        self.rules = rules
        self.tokens = tokens
        self.seat = 0
        self.standing: Standing = access.Unknown()
        self.stands_on = known  # newer than `access` while that is being committed
        self.policy: Policy | None = None
        self.task: asyncio.Task[None] | None = None  # its robots.txt is being asked for
        self.waits_at: Host | None = None  # the host whose turn that task waits for

    @property
    def answered(self) -> bool:
        """Is what we do here founded on an answer, rather than on the lack of one?"""
        standing = self.standing
        return isinstance(standing, access.Rules) or (
            isinstance(standing, access.Open) and standing.answered
        )

    def stand(self, known: Access, *, now_s: float) -> None:
        """Work out what governs the origin by what is known (`now_s`: wall clock), and what it asks
        of the pace of its host."""
        self.stands_on = known
        self.standing = access.standing(known, now_s=now_s, rules=self.rules)
        self.policy = policy = None
        if isinstance(self.standing, access.Rules):
            dialects = [robots.DIALECTS[name] for name in self.rules.dialect]
            file = robots.parse(self.standing.body)
            self.policy = policy = file.policy(self.tokens, dialects)
        paced = policy if self.rules.crawl_delay else None
        ask = Ask(
            crawl_delay_s=paced.crawl_delay_s if paced else None,
            request_rate_s=paced.request_rate_s if paced else None,
            windows=policy.visit_windows if policy else (),
            missing=known.unreachable_since is not None,
        )
        self.host.pace.set_ask(self.name, ask)


def changes(previous: Access, learned: Access) -> bool:
    """Must what was judged before under this origin be judged again (law 4)?"""
    if learned.unreachable_since is not None:
        return False
    late = previous.unreachable_since is not None
    return late or (previous.copy_at is not None and previous.body != learned.body)
