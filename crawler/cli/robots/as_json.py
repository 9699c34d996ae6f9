"""A verdict as `courtly robots check --json` prints it."""

from __future__ import annotations

from collections.abc import Mapping

from crawler.telling.tester import Judge, Judgement


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
