"""The verdict on one URL, with its reasons: the deciding rule, the rules it beat, the group."""

from __future__ import annotations

from collections.abc import Sequence

from policies.robots.agent_rules import BLOCKS, AgentRules, Rule
from policies.robots.dialect import Aspect, Dialect, Dollar, GroupSelection, Precedence, Wildcard
from policies.robots.groups import Group
from policies.robots.index import TOO_COMPLEX
from policies.robots.library_lines import LibrarySource
from policies.robots.pattern import NONE
from policies.robots.syntax import RobotsSource


def path_of(url: str) -> str:
    """The path and query of a URL as given, without its fragment. Nothing is decoded or escaped.

    A string that begins with "/" is returned as a path and query.
    """
    if url.startswith(("http://", "https://")):  # the usual case, handled fast
        at = url.find("/", 8)
        origin = url[:at]
        if at > 0 and "?" not in origin and "#" not in origin and ";" not in origin:
            return url[at:] if "#" not in url else url[at:].partition("#")[0]
    if url[:1] != "/":
        scheme, separator, rest = url.partition("://")
        if not separator or not scheme.replace("+", "").replace("-", "").replace(".", "").isalnum():
            rest = url
        start = min((at for at in map(rest.find, "/?#;") if at >= 0), default=len(rest))
        url = rest[start:]
    url = url.partition("#")[0]
    return url if url[:1] == "/" else "/" + url


class Verdict:
    """Whether a URL may be fetched. The reasons are computed on demand; `str()` states them.

    A verdict keeps the whole robots.txt in memory, and a pickled one contains it. Two verdicts are
    equal if they judge the same path by the same robots.txt, crawler and dialects.
    """

    __slots__ = ("_losers", "_rank", "allowed", "dialects", "path", "rules")

    def __init__(self, rules: AgentRules, path: str, dialects: tuple[str, ...] = ()) -> None:
        self.rules = rules
        self.path = path  # path and query as given
        self.dialects = dialects or (rules.dialect.name,)  # all that were applied
        self._rank = rank = rules.rank(path)
        self._losers: tuple[Rule, ...] | None = None
        self.allowed = not rank & BLOCKS or path == rules.exempt_path

    def __repr__(self) -> str:
        return (
            f"Verdict(path={self.path!r}, allowed={self.allowed}, rule={self.rule!r}, "
            f"line={self.line}, dialect={self.dialect!r})"
        )

    # ------------------------------------------------------------ comparing and copying

    def _judged(self) -> tuple[bytes, tuple[str, ...], Dialect, str, tuple[str, ...]]:
        rules = self.rules
        return rules.source.body, rules.agents, rules.dialect, self.path, self.dialects

    def __eq__(self, other: object) -> bool:
        return self._judged() == other._judged() if isinstance(other, Verdict) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._judged())

    def __reduce__(self) -> tuple[object, ...]:
        return _judge_again, self._judged()

    # ------------------------------------------------------------ what decided

    @property
    def dialect(self) -> str:
        """The deciding dialect: of several, the first that disallows."""
        return self.rules.dialect.name

    @property
    def exempt(self) -> bool:
        """Whether the URL is allowed only because /robots.txt itself always is."""
        return self._rank != NONE and self.allowed and bool(self._rank & BLOCKS)

    @property
    def too_complex(self) -> bool:
        """Whether the URL is disallowed because the rules are too complex to match in reasonable
        time. Only rules crafted for that purpose are."""
        return self._rank == TOO_COMPLEX and not self.allowed

    @property
    def deciding(self) -> Rule | None:
        """The rule that decided; None if none matches or none was needed."""
        return None if self.exempt else self.rules.rule_of(self._rank)

    @property
    def rule(self) -> str | None:
        """The deciding line without its comment: `Disallow: /private/`."""
        rule = self.deciding
        if rule is None:
            return "(its rules are too complex)" if self.too_complex else None
        return rule.quote

    @property
    def line(self) -> int | None:
        """The deciding line's number, from 1."""
        rule = self.deciding
        return rule.line if rule else None

    @property
    def span(self) -> tuple[int, int] | None:
        """The offsets of the deciding line in the body, in bytes, its line end included."""
        rule = self.deciding
        return self.rules.source.spans[rule.line - 1] if rule else None

    @property
    def length(self) -> int | None:
        """The length of the deciding rule in octets, as compared."""
        rule = self.deciding
        return rule.octets if rule else None

    @property
    def noindex(self) -> bool:
        """Whether a Noindex line decided: the URL is excluded from the index as well."""
        rule = self.deciding
        return rule is not None and rule.noindex

    @property
    def losers(self) -> tuple[Rule, ...]:
        """The other rules that match, in order of precedence; for large files not all of them."""
        if self._losers is None:
            found = self.rules.matching(self.path)
            self._losers = tuple(found if self.deciding is None else found[1:])
        return self._losers

    @property
    def compared(self) -> str:
        """The path as compared."""
        return self.rules.compared(self.path)

    # ------------------------------------------------------------ whose rules

    @property
    def group(self) -> str | None:
        """The agent value for which the group was chosen, as written; None: no group applies."""
        chosen = self.rules.chosen
        if not chosen.groups:
            return None
        return _agent_of(chosen.groups[0], self.rules)

    @property
    def group_lines(self) -> tuple[int, ...]:
        """Line numbers of the chosen groups' User-agent lines."""
        return _agent_lines(self.rules.chosen.groups)

    @property
    def other_groups(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The groups that were not chosen: the line number and agent values of each."""
        return tuple((r.start + 1, r.agents) for r in self.rules.chosen.others)

    # ------------------------------------------------------------ in words

    @property
    def relied_on(self) -> tuple[str, ...]:
        """The rules of the dialect that this verdict relies on, as sentences."""
        dialect = self.rules.dialect
        if self.exempt:
            return ("/robots.txt itself is always allowed",)
        if self.too_complex:
            return ("a URL that cannot be judged in reasonable time is not fetched",)
        sentences = [_CHOICES[dialect.choice]]
        if self._rank != NONE:
            sentences.append(_PRECEDENCES[dialect.precedence])
        return tuple(sentences)

    @property
    def ours(self) -> tuple[str, ...]:
        """Our own interpretations that this verdict relies on."""
        dialect = self.rules.dialect
        return tuple(dialect.ours[aspect] for aspect in self._aspects() if aspect in dialect.ours)

    def _aspects(self) -> list[Aspect]:
        """The debatable aspects that may have made a difference."""
        dialect = self.rules.dialect
        found: list[Aspect] = []
        if self.exempt or self.too_complex:
            return found
        if self.rules.chosen.groups and self.rules.chosen.others:
            found.append(Aspect.CHOICE)
        rule = self.deciding
        rivals = [loser for loser in self.losers if rule and loser.allow != rule.allow]
        if rivals:
            found += [Aspect.PRECEDENCE, Aspect.LENGTH]
        special = self.rules.special
        if dialect.wildcard is not Wildcard.ANY and "*" in special:
            found.append(Aspect.WILDCARD)
        if dialect.dollar is Dollar.LITERAL and "$" in special:
            found.append(Aspect.DOLLAR)
        if "%" in self.path or "%" in special:
            found.append(Aspect.ESCAPES)
        return found

    def __str__(self) -> str:
        dialect = self.rules.dialect
        sentences = [self._decision() + "."]
        if len(self.dialects) > 1:
            asked = " and ".join((", ".join(self.dialects[:-1]), self.dialects[-1]))
            sentences.append(f"The strictest verdict of {asked} applies.")
        sentences += [f"Note: {text}." for text in self.ours]
        if dialect.precedence is Precedence.ANY_DISALLOW and not self.allowed:
            sentences.append("Note: Allow did not exist in 1994.")
        return " ".join(sentences)

    def _decision(self) -> str:
        dialect = self.rules.dialect
        answer = "Allowed" if self.allowed else "Disallowed"
        if self.exempt:
            return f"{answer}: {dialect.name} always allows /robots.txt itself"
        if self.too_complex:
            return (
                f"{answer}: the rules are too complex to determine in reasonable time which one "
                f"matches this path (dialect {dialect.name})"
            )
        rule = self.deciding
        if rule is None:
            return f"{answer}: {self._silence()}"
        group = self._group_in_words(rule)
        text = f"{answer} by line {rule.line}, `{rule.quote}`, {group}"
        rivals = [loser for loser in self.losers if loser.allow != rule.allow]
        if rivals:
            text += f": {_beats(rule, rivals[0], dialect)}"
        return f"{text} (dialect {dialect.name})"

    def _silence(self) -> str:
        dialect = self.rules.dialect
        names = " or ".join(self.rules.agents)
        chosen = self.rules.chosen
        if not chosen.groups and not (self.rules.acap and self.rules.acap.groups):
            if not chosen.others:
                return f"the file has no group that {dialect.name} can read"
            return f"no group applies to {names}, and none to all crawlers (dialect {dialect.name})"
        group = self._group_in_words(None)
        if not self.rules.has_rules:
            return f"the rules {group} forbid nothing (dialect {dialect.name})"
        return f"no rule {group} matches (dialect {dialect.name})"

    def _group_in_words(self, rule: Rule | None) -> str:
        rules = self.rules
        groups = rules.chosen.groups
        acap = rules.acap.groups if rules.acap else ()
        if rule is not None:
            holding = [r for r in (*groups, *acap) if r.start < rule.line <= r.end]
            # An ACAP rule may stand in an ordinary group: then the group of ACAP is meant.
            kind_acap = rule.quote[:5].lower() == "acap-" and bool(acap)
            holding = [r for r in holding if r.acap == kind_acap] or holding
        else:
            holding = list(groups or acap)
        group = holding[0]
        name = _agent_of(group, rules)
        lines = _agent_lines([group])
        more = len(groups) - 1 if rule is None else 0
        merged = f" and {more} more, merged" if more > 0 else ""
        whose = "all crawlers (`*`)" if name[:1] == "*" else f"`{name}`"
        return f"in the group for {whose} at line {lines[0]}{merged}"


def _agent_of(group: Group, rules: AgentRules) -> str:
    """The agent value for which a group was chosen."""
    return next((value for value in group.agents if rules.names_us(value)), group.agents[0])


def _agent_lines(groups: Sequence[Group]) -> tuple[int, ...]:
    return tuple(i + 1 for group in groups for i in group.agent_lines)


def _beats(rule: Rule, rival: Rule, dialect: Dialect) -> str:
    other = f"line {rival.line}, `{rival.quote}`"
    if dialect.precedence is Precedence.FIRST:
        return f"it matches before {other}, and the first match applies"
    if rule.octets == rival.octets:
        return f"both it and {other}, are {rule.octets} octets long, and {rule.says} wins a tie"
    return (
        f"at {rule.octets} octets it is longer than {other}, at {rival.octets}, "
        "and the longest rule applies"
    )


_CHOICES = {
    GroupSelection.FIRST_CONTAINING: "the first group with an agent value containing our token "
    "applies, else the first for `*`; groups are not merged",
    GroupSelection.ALL_EQUAL: "all groups whose agent token equals ours apply together, "
    "else all groups for `*`",
    GroupSelection.FIRST_EQUAL: "exactly one group applies: the first whose agent token equals "
    "ours, else the first for `*`",
}
_PRECEDENCES = {
    Precedence.LONGEST: "the longest matching rule applies, and Allow wins a tie",
    Precedence.FIRST: "the first matching rule in file order applies",
    Precedence.ANY_DISALLOW: "any matching Disallow applies, and Allow is ignored",
}


def _judge_again(
    body: bytes, agents: tuple[str, ...], dialect: Dialect, path: str, dialects: tuple[str, ...]
) -> Verdict:
    """Rebuild a verdict from what it judged, when it is unpickled or copied."""
    source = RobotsSource(body)
    if dialect.library_lines:
        source = LibrarySource(source)
    return Verdict(AgentRules(source, agents, dialect, share=len(dialects)), path, dialects)
