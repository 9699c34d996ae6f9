"""One origin as the gate holds it in memory: what is known of its robots.txt, what that means."""

from __future__ import annotations

import asyncio

from crawler.politeness.host import Host
from policies import access
from policies.access import Access, RobotsRules, Standing
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


def changes(previous: Access, learned: Access) -> bool:
    """Must what was judged before under this origin be judged again (law 4)?"""
    if learned.unreachable_since is not None:
        return False
    late = previous.unreachable_since is not None
    return late or (previous.copy_at is not None and previous.body != learned.body)
