"""The answer for one URL, and why: the deciding rule, what it beat, whose group, which sentence."""

from __future__ import annotations

from collections.abc import Sequence

from policies.robots.agent_rules import BLOCKS, AgentRules, Rule
from policies.robots.dialect import Aspect, Dialect, Dollar, GroupSelection, Precedence, Wildcard
from policies.robots.groups import Group
from policies.robots.index import TOO_COMPLEX
from policies.robots.pattern import NONE


def path_of(url: str) -> str:
    """Path and query of a URL as given: nothing is decoded or escaped, only the fragment dropped.

    What begins with "/" is taken for a path and query already.
    """
    if url.startswith(("http://", "https://")):  # nearly always, and cheaply
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
    """Whether a URL may be asked for under one dialect; everything else is worked out when asked.

    `str()` of it is a sentence for people. It keeps its file alive.
    """

    __slots__ = ("_losers", "_rank", "allowed", "dialects", "path", "reading")

    def __init__(self, reading: AgentRules, path: str, dialects: tuple[str, ...] = ()) -> None:
        self.reading = reading
        self.path = path  # path and query as given
        self.dialects = dialects or (reading.dialect.name,)  # all that were asked
        self._rank = rank = reading.rank(path)
        self._losers: tuple[Rule, ...] | None = None
        self.allowed = not rank & BLOCKS or path == reading.exempt_path

    # ------------------------------------------------------------ what decided

    @property
    def dialect(self) -> str:
        """The dialect that decided: of several, the first that disallows."""
        return self.reading.dialect.name

    @property
    def exempt(self) -> bool:
        """Whether this is allowed only because /robots.txt itself always is."""
        return self._rank != NONE and self.allowed and bool(self._rank & BLOCKS)

    @property
    def too_complex(self) -> bool:
        """Whether this is disallowed only because the rules are too complex to be compared with
        this path in reasonable time. Only rules made to that end are."""
        return self._rank == TOO_COMPLEX and not self.allowed

    @property
    def deciding(self) -> Rule | None:
        """The rule that decided; None where none matches, or none was needed."""
        return None if self.exempt else self.reading.rule_of(self._rank)

    @property
    def rule(self) -> str | None:
        """The deciding line without its comment: `Disallow: /private/`."""
        rule = self.deciding
        if rule is None:
            return "(its rules are too complex to be judged)" if self.too_complex else None
        return rule.quote

    @property
    def line(self) -> int | None:
        """The deciding line's number, from 1."""
        rule = self.deciding
        return rule.line if rule else None

    @property
    def span(self) -> tuple[int, int] | None:
        """Where the deciding line begins and ends in the body, in bytes, its line end included."""
        rule = self.deciding
        return self.reading.source.spans[rule.line - 1] if rule else None

    @property
    def length(self) -> int | None:
        """The deciding rule's length in octets, counted on the rule as compared."""
        rule = self.deciding
        return rule.octets if rule else None

    @property
    def noindex(self) -> bool:
        """Whether a Noindex line decided: the URL is un-indexed as well."""
        rule = self.deciding
        return rule is not None and rule.noindex

    @property
    def losers(self) -> tuple[Rule, ...]:
        """The other rules that match, in order of precedence; of large files not all."""
        if self._losers is None:
            found = self.reading.matching(self.path)
            self._losers = tuple(found if self.deciding is None else found[1:])
        return self._losers

    @property
    def compared(self) -> str:
        """The path as compared."""
        return self.reading.compared(self.path)

    # ------------------------------------------------------------ whose rules

    @property
    def group(self) -> str | None:
        """The agent value for which the group was chosen, as written; None: none speaks to us."""
        chosen = self.reading.chosen
        if not chosen.records:
            return None
        return _agent_of(chosen.records[0], self.reading)

    @property
    def group_lines(self) -> tuple[int, ...]:
        """Line numbers of the chosen groups' User-agent lines."""
        return _agent_lines(self.reading.chosen.records)

    @property
    def other_groups(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """The groups that lost: line number and agent values of each."""
        return tuple((r.start + 1, r.agents) for r in self.reading.chosen.others)

    # ------------------------------------------------------------ in words

    @property
    def relied_on(self) -> tuple[str, ...]:
        """The sentences of the dialect that this verdict rests on."""
        row = self.reading.dialect
        if self.exempt:
            return ("/robots.txt itself is always allowed",)
        if self.too_complex:
            return ("what cannot be judged in reasonable time is not asked for",)
        sentences = [_CHOICES[row.choice]]
        if self._rank != NONE:
            sentences.append(_PRECEDENCES[row.precedence])
        return tuple(sentences)

    @property
    def ours(self) -> tuple[str, ...]:
        """What this verdict rests on that no source says."""
        row = self.reading.dialect
        return tuple(row.ours[aspect] for aspect in self._aspects() if aspect in row.ours)

    def _aspects(self) -> list[Aspect]:
        """The debatable aspects that mattered here."""
        row = self.reading.dialect
        found: list[Aspect] = []
        if self.exempt or self.too_complex:
            return found
        if self.reading.chosen.records and self.reading.chosen.others:
            found.append(Aspect.CHOICE)
        rule = self.deciding
        rivals = [loser for loser in self.losers if rule and loser.allow != rule.allow]
        if rivals:
            found += [Aspect.PRECEDENCE, Aspect.LENGTH]
        special = self.reading.special
        if row.wildcard is not Wildcard.ANY and "*" in special:
            found.append(Aspect.WILDCARD)
        if row.dollar is Dollar.LITERAL and "$" in special:
            found.append(Aspect.DOLLAR)
        if "%" in self.path or "%" in special:
            found.append(Aspect.ESCAPES)
        return found

    def __str__(self) -> str:
        row = self.reading.dialect
        sentences = [self._decision() + "."]
        if len(self.dialects) > 1:
            asked = " and ".join((", ".join(self.dialects[:-1]), self.dialects[-1]))
            sentences.append(f"Of {asked}, the strictest counts.")
        sentences += [f"Note: {text}." for text in self.ours]
        if row.precedence is Precedence.ANY_DISALLOW and not self.allowed:
            sentences.append("Note: Allow was not known in 1994.")
        return " ".join(sentences)

    def _decision(self) -> str:
        row = self.reading.dialect
        answer = "Allowed" if self.allowed else "Disallowed"
        if self.exempt:
            return f"{answer}: {row.name} always allows /robots.txt itself"
        if self.too_complex:
            return (
                f"{answer}: the rules are too complex. Which of them matches a path like this one "
                f"could not be found in reasonable time (dialect {row.name})"
            )
        rule = self.deciding
        if rule is None:
            return f"{answer}: {self._silence()}"
        group = self._group_in_words(rule)
        text = f"{answer} by line {rule.line}, `{rule.quote}`, {group}"
        rivals = [loser for loser in self.losers if loser.allow != rule.allow]
        if rivals:
            text += f": {_beats(rule, rivals[0], row)}"
        return f"{text} (dialect {row.name})"

    def _silence(self) -> str:
        row = self.reading.dialect
        names = " or ".join(self.reading.agents)
        chosen = self.reading.chosen
        if not chosen.records and not (self.reading.acap and self.reading.acap.records):
            if not chosen.others:
                return f"the file has no group that {row.name} could read"
            return f"no group speaks to {names}, and none to everybody (dialect {row.name})"
        group = self._group_in_words(None)
        if not self.reading.has_rules:
            return f"the rules {group} forbid nothing (dialect {row.name})"
        return f"no rule {group} matches (dialect {row.name})"

    def _group_in_words(self, rule: Rule | None) -> str:
        reading = self.reading
        records = reading.chosen.records
        acap = reading.acap.records if reading.acap else ()
        if rule is not None:
            holding = [r for r in (*records, *acap) if r.start < rule.line <= r.end]
            # A rule of ACAP may stand within an ordinary record: then ACAP's is the one meant.
            kind_acap = rule.quote[:5].lower() == "acap-" and bool(acap)
            holding = [r for r in holding if r.acap == kind_acap] or holding
        else:
            holding = list(records or acap)
        record = holding[0]
        name = _agent_of(record, reading)
        lines = _agent_lines([record])
        more = len(records) - 1 if rule is None else 0
        merged = f" and {more} more, merged" if more > 0 else ""
        whose = "everybody (`*`)" if name[:1] == "*" else f"`{name}`"
        return f"in the group for {whose} at line {lines[0]}{merged}"


def _agent_of(record: Group, reading: AgentRules) -> str:
    """The agent value of `record` for which it was chosen."""
    return next((value for value in record.agents if reading.names_us(value)), record.agents[0])


def _agent_lines(records: Sequence[Group]) -> tuple[int, ...]:
    return tuple(i + 1 for record in records for i in record.agent_lines)


def _beats(rule: Rule, rival: Rule, row: Dialect) -> str:
    other = f"line {rival.line}, `{rival.quote}`"
    if row.precedence is Precedence.FIRST:
        return f"it matches before {other}, and the first match counts"
    if rule.octets == rival.octets:
        return f"it and {other}, are {rule.octets} octets long, and {rule.says} wins a tie"
    return (
        f"at {rule.octets} octets it is longer than {other}, at {rival.octets}, "
        "and the longest rule counts"
    )


_CHOICES = {
    GroupSelection.FIRST_CONTAINING: "the first record with an agent value containing our token "
    "is obeyed, else the first for `*`; none are merged",
    GroupSelection.ALL_EQUAL: "all groups whose agent token equals ours are obeyed together, "
    "else all groups for `*`",
    GroupSelection.FIRST_EQUAL: "exactly one group is obeyed: the first whose agent token equals "
    "ours, else the first for `*`",
}
_PRECEDENCES = {
    Precedence.LONGEST: "the longest matching rule counts, and Allow wins a tie",
    Precedence.FIRST: "the first rule that matches, in file order, counts",
    Precedence.ANY_DISALLOW: "any Disallow that matches counts, and Allow is unknown",
}
