"""The robots tester: verdicts on URLs by what is known of one robots.txt, or of the lack of one."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from policies import robots, robots_policy
from policies.robots import RobotsFile, Verdict
from policies.robots_policy import Governed, Open, RobotsPolicy, Unknown
from policies.robots_state import RobotsRules, RobotsState


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one robots.txt."""

    where: str  # a path, "-" or the URL of the robots.txt
    access: RobotsState
    now_s: float  # when: Unix seconds
    fetched: bool
    error: str = ""  # why its host could not be asked

    def standing(self, dialects: tuple[str, ...], rules: RobotsRules) -> RobotsPolicy:
        """What it means for pages under these dialects; a file given by hand is simply there."""
        if self.fetched:
            rules = msgspec.structs.replace(rules, dialect=dialects)
        else:
            rules = RobotsRules(dialect=dialects)
        return robots_policy.robots_policy(self.access, now_s=self.now_s, rules=rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a URL may be asked for under one dialect, or the strictest of several."""

    allowed: bool
    state: str  # "rules": by a file; "open", "closed": there is none to go by
    dialect: str  # that decided
    note: str  # why there are no rules; with "rules", what is to be said of the copy
    verdict: Verdict | None  # with "rules"

    @property
    def reason(self) -> str:
        """Sentences."""
        if self.verdict is not None:
            return f"{self.verdict}{self.note}"
        return f"{'Allowed' if self.allowed else 'Disallowed'}: {self.note}."

    @property
    def rule(self) -> str | None:
        return self.verdict.rule if self.verdict else None

    @property
    def line(self) -> int | None:
        return self.verdict.line if self.verdict else None


class Judge:
    """Judges by one robots.txt, for one crawler. `rules` are the config's for the host."""

    def __init__(self, known: Known, agents: tuple[str, ...], rules: RobotsRules) -> None:
        self.known = known
        self.agents = agents
        self._rules = rules
        self.file: RobotsFile | None = (
            None if known.access.body is None else robots.parse(known.access.body)
        )

    def judge(self, url: str, dialects: tuple[str, ...]) -> Judgement | None:
        """None: nothing is known, as the host could not be connected to."""
        stands = self.known.standing(dialects, self._rules)
        if isinstance(stands, Unknown):
            return None
        if isinstance(stands, Governed):
            assert self.file is not None
            verdict = self.file.decide(url, agent=self.agents, dialect=dialects)
            stale = " Judged by the last good copy: it cannot be had anew." if stands.stale else ""
            return Judgement(
                allowed=verdict.allowed,
                state="rules",
                dialect=verdict.dialect,
                note=stale,
                verdict=verdict,
            )
        allowed = isinstance(stands, Open)
        deciding = next(
            name
            for name in dialects
            if isinstance(self.known.standing((name,), self._rules), type(stands))
        )
        return Judgement(
            allowed=allowed,
            state="open" if allowed else "closed",
            dialect=deciding,
            note=stands.reason,
            verdict=None,
        )

    def judge_in_every(self, url: str) -> dict[str, Judgement]:
        """By each dialect alone."""
        found = {name: self.judge(url, (name,)) for name in robots.DIALECTS}
        return {name: judgement for name, judgement in found.items() if judgement is not None}
