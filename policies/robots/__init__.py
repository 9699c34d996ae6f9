"""robots.txt in several dialects: parsing, groups, verdicts with their reasons, lint.

file = robots.parse(body)
verdict = file.decide("https://example.com/p?q=1", agent="examplebot", dialect=robots.SLURP)
print(verdict)
"""

from policies.robots.agent_rules import Rule
from policies.robots.dialect import Dialect
from policies.robots.dialects import (
    BING,
    DIALECTS,
    GOOGLE,
    GOOGLE2010,
    RES1994,
    RES1996,
    RFC9309,
    SLURP,
    TEOMA,
    YANDEX,
    UnknownDialectError,
    dialects,
)
from policies.robots.fields import CleanParam, ContentUsage, RequestRate
from policies.robots.file import RobotsFile, RuleSet, parse
from policies.robots.lint import lint
from policies.robots.lint_rules import Finding, Severity
from policies.robots.syntax import BYTES_MAX, LINE_BYTES_MAX, Line, LineKind
from policies.robots.verdict import Verdict, path_of

__all__ = [
    "BING",
    "BYTES_MAX",
    "DIALECTS",
    "GOOGLE",
    "GOOGLE2010",
    "LINE_BYTES_MAX",
    "RES1994",
    "RES1996",
    "RFC9309",
    "SLURP",
    "TEOMA",
    "YANDEX",
    "CleanParam",
    "ContentUsage",
    "Dialect",
    "Finding",
    "Line",
    "LineKind",
    "RequestRate",
    "RobotsFile",
    "Rule",
    "RuleSet",
    "Severity",
    "UnknownDialectError",
    "Verdict",
    "dialects",
    "lint",
    "parse",
    "path_of",
]
