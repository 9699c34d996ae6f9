"""robots.txt in every dialect: text to lines to records to a verdict with its reason.

file = robots.parse(body)
verdict = file.decide("https://example.com/p?q=1", agent="examplebot", dialect=robots.SLURP)
print(verdict)
"""

from policies.robots.dialect import (
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
from policies.robots.fields import CleanParam, RequestRate, Usage
from policies.robots.file import Policy, RobotsFile, parse
from policies.robots.lint import Finding, Severity, lint
from policies.robots.reading import Rule
from policies.robots.row import Dialect
from policies.robots.syntax import BYTES_MAX, LINE_BYTES_MAX, Kind, Line
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
    "Dialect",
    "Finding",
    "Kind",
    "Line",
    "Policy",
    "RequestRate",
    "RobotsFile",
    "Rule",
    "Severity",
    "UnknownDialectError",
    "Usage",
    "Verdict",
    "dialects",
    "lint",
    "parse",
    "path_of",
]
