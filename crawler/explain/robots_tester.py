"""The robots tester: verdicts on URLs from one robots.txt, or from the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from policies import robots, robots_policy
from policies.robots import RobotsFile, Verdict
from policies.robots_policy import Governed, Open, RobotsPolicy, Unknown
from policies.robots_state import RobotsRules, RobotsState
from policies.url import canonical, origin_of


@dataclass(frozen=True, slots=True)
class KnownRobots:
    """What is known of one robots.txt."""

    where: str  # a path, "-" or the URL of the robots.txt
    access: RobotsState
    now_s: float  # when: Unix seconds
    fetched: bool
    error: str = ""  # why the host could not be connected to

    def other_origin(self, url: str) -> str | None:
        """The origin of an absolute URL that a fetched robots.txt does not govern, because it
        belongs to another one (law 3); None for paths, and for a file given by the user."""
        if not self.fetched or "://" not in url:
            return None
        asked, own = canonical(url), canonical(self.where)
        if asked is None or own is None or origin_of(asked) == origin_of(own):
            return None
        return origin_of(asked)

    def standing(self, dialects: tuple[str, ...], rules: RobotsRules) -> RobotsPolicy:
        """Return its meaning under these dialects. A file given by the user always applies."""
        if self.fetched:
            rules = msgspec.structs.replace(rules, dialect=dialects)
        else:
            rules = RobotsRules(dialect=dialects)
        return robots_policy.robots_policy(self.access, now_s=self.now_s, rules=rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlVerdict:
    """Whether a URL may be fetched under one dialect, or under the strictest of several."""

    allowed: bool
    state: str  # "rules": decided by a file; "open", "closed": no file decides
    dialect: str  # the one that decided
    note: str  # why no file decides; with "rules", a remark on the copy
    verdict: Verdict | None  # with "rules"

    @property
    def reason(self) -> str:
        """Whole sentences."""
        if self.verdict is not None:
            return f"{self.verdict}{self.note}"
        return f"{'Allowed' if self.allowed else 'Disallowed'}: {self.note}."

    @property
    def rule(self) -> str | None:
        return self.verdict.rule if self.verdict else None

    @property
    def line(self) -> int | None:
        return self.verdict.line if self.verdict else None


class RobotsTester:
    """Tests URLs against one robots.txt, as one crawler. `rules`: the config's for the host."""

    def __init__(self, known: KnownRobots, agents: tuple[str, ...], rules: RobotsRules) -> None:
        self.known = known
        self.agents = agents
        self._rules = rules
        self.file: RobotsFile | None = (
            None if known.access.body is None else robots.parse(known.access.body)
        )

    def judge(self, url: str, dialects: tuple[str, ...]) -> UrlVerdict | None:
        """The verdict on a URL or path; None if nothing is known because no connection was made."""
        policy = self.known.standing(dialects, self._rules)
        if isinstance(policy, Unknown):
            return None
        if isinstance(policy, Governed):
            assert self.file is not None
            verdict = self.file.decide(url, agent=self.agents, dialect=dialects)
            stale = " This is the last good copy: the file could not be fetched again."
            return UrlVerdict(
                allowed=verdict.allowed,
                state="rules",
                dialect=verdict.dialect,
                note=stale if policy.stale else "",
                verdict=verdict,
            )
        allowed = isinstance(policy, Open)
        deciding = next(
            name
            for name in dialects
            if isinstance(self.known.standing((name,), self._rules), type(policy))
        )
        return UrlVerdict(
            allowed=allowed,
            state="open" if allowed else "closed",
            dialect=deciding,
            note=policy.reason,
            verdict=None,
        )

    def judge_in_every(self, url: str) -> dict[str, UrlVerdict]:
        """The verdict of each dialect."""
        found = {name: self.judge(url, (name,)) for name in robots.DIALECTS}
        return {name: verdict for name, verdict in found.items() if verdict is not None}
