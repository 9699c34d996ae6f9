"""Verdicts on URLs by what is known of a robots.txt, be it a file or the lack of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crawler.cli.robots_files import Known
from policies import robots
from policies.access import Open, RobotsRules, Rules, Unknown
from policies.robots import RobotsFile, Verdict


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
        if isinstance(stands, Rules):
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


def as_json(
    url: str, judge: Judge, judgement: Judgement, every: Mapping[str, Judgement]
) -> dict[str, object]:
    """What `courtly robots check --json` prints for a URL (docs/robots.md has the words)."""
    verdict = judgement.verdict
    deciding = verdict.deciding if verdict else None
    return {
        "url": url,
        "allowed": judgement.allowed,
        "rule": judgement.rule,
        "line": judgement.line,
        "dialect": judgement.dialect,
        "agent": list(judge.agents),
        "reason": judgement.reason,
        "robots": judge.known.where,
        "state": judgement.state,
        "status": judge.known.access.status if judge.known.fetched else None,
        "group": verdict.group if verdict else None,
        "group_lines": list(verdict.group_lines) if verdict else [],
        "span": list(verdict.span) if verdict and verdict.span else None,
        "length": deciding.octets if deciding else None,
        "compared": verdict.compared if verdict else None,
        "noindex": bool(verdict and verdict.noindex),
        "losers": [
            {"rule": rule.quote, "line": rule.line, "length": rule.octets}
            for rule in (verdict.losers if verdict else ())
        ],
        "crawl_delay_s": verdict.reading.crawl_delay_s if verdict else None,
        "relied_on": list(verdict.relied_on) if verdict else [],
        "ours": list(verdict.ours) if verdict else [],
        "dialects": {
            name: {"allowed": each.allowed, "rule": each.rule, "line": each.line}
            for name, each in every.items()
        },
    }
