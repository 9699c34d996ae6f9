"""Refusals and failures as explanations for a language model: what, why, when again, what else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from crawler.config import ConfigError
from crawler.config.units import format_duration
from crawler.errors import (
    FetchFailed,
    InvalidURL,
    RobotsDisallowed,
    RobotsUnreachable,
    SessionClosed,
    TooManyRedirects,
    WaitTooLong,
    said,
)
from crawler.explain.formatting import plain
from policies.retries import FailureCode
from policies.url import canonical

WHY_CHARS_MAX: Final = 1_500
_NO_WAY_ROUND: Final = (
    "Do not request the page in another way, such as with another tool, a mirror or a cache."
)
_TELL: Final = "Tell the user, or use another source."
_INSTEAD: Final = {
    FailureCode.DNS: "Check the spelling of the host name, or use another source.",
    FailureCode.ADDRESS: "The user can permit the address range with the option --allow of "
    "`courtly mcp`. Do not try other spellings of the address.",
    FailureCode.TOO_LARGE: "Look for a smaller page or a summary. The user can raise "
    "fetch.max_body in the config.",
    FailureCode.TLS: "Do not switch to http. " + _TELL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a tool did not do what was asked. The fields are complete sentences."""

    what: str
    why: str
    again: str
    instead: str

    def __str__(self) -> str:
        return (
            f"{plain(self.what)}\nWhy: {_shortened(plain(self.why))}\n"
            f"Again: {plain(self.again)}\nInstead: {plain(self.instead)}"
        )


def refusal_of(error: Exception, url: str, now_s: float) -> Refusal | None:
    """Explain an error of the session; None if it is a fault of the program. now_s: Unix
    seconds."""
    url = canonical(url) or url
    not_fetched = f"Not fetched: {url}"
    at = getattr(error, "url", url)
    if at != url:
        at += f" (a redirect of {url} leads there)"
    match error:
        case RobotsDisallowed():
            return Refusal(
                what=f"Not fetched, because robots.txt forbids it: {at}",
                why=str(error.verdict),
                again="No. The answer stays the same until the site changes its robots.txt.",
                instead="Use a page that the site allows (the tool `robots` lists its rules), or "
                f"another source. {_NO_WAY_ROUND}",
            )
        case RobotsUnreachable():
            return Refusal(
                what=f"Not fetched, because robots.txt could not be read: {at}",
                why=f"{error.reason}. While the rules are unknown, nothing of the site is fetched.",
                again=_not_before(error.until, now_s),
                instead=f"Continue with other sites until then. {_NO_WAY_ROUND}",
            )
        case WaitTooLong():
            return Refusal(
                what=f"Not fetched yet: {at}",
                why=f"The site's turn has not come: {error.reason}.",
                again=_not_before(error.until, now_s),
                instead="Continue with other sites until then, or give a larger max_wait_s. "
                "Calling again earlier does not help.",
            )
        case FetchFailed():
            failure = error.failure
            forever = failure.permanent
            again = "No. Another attempt fails in the same way."
            return Refusal(
                what=f"Not fetched: {at}",
                why=f"{failure.error}.",
                again=again if forever else _not_before(error.until, now_s, often="once"),
                instead=_INSTEAD.get(failure.code, _TELL),
            )
        case TooManyRedirects():
            return Refusal(
                what=not_fetched,
                why=f"{error}.",
                again="No. The site redirects in a circle, or expects a login.",
                instead=_TELL,
            )
        case InvalidURL():
            return Refusal(
                what="Not fetched, because the URL is invalid.",
                why=f"{error}.",
                again="Yes, with a complete URL such as https://example.com/a.",
                instead="Copy the URL from a page or from the user; do not guess it.",
            )
        case ConfigError():
            return Refusal(
                what=not_fetched,
                why=" ".join(f"{problem}." for problem in error.problems),
                again="No, not until the user has changed the settings of `courtly mcp`.",
                instead='Ask the user to start it with --user-agent "NAME/1.0 (+URL or e-mail)".',
            )
        case SessionClosed():
            return Refusal(
                what=not_fetched,
                why=f"The server is stopping, or the crawl that it uses has ended: {error}.",
                again="Yes, after the user has started the server again.",
                instead=_TELL,
            )
    return None


def fault(tool: str) -> Refusal:
    """The answer to a call that failed by a fault of the program. Details are in its log."""
    return Refusal(
        what=f"The tool `{tool}` failed.",
        why="An error in the server itself; its log has the details.",
        again="Once, in case it was temporary.",
        instead=_TELL,
    )


def wrong_arguments(tool: str, sentence: str) -> Refusal:
    return Refusal(
        what=f"The tool `{tool}` was called with arguments that it does not accept.",
        why=f"{sentence}.",
        again="Yes, with corrected arguments.",
        instead="See the schema of the tool.",
    )


def _not_before(until: float | None, now_s: float, *, often: str = "") -> str:
    times = f", {often}" if often else ""
    if until is None or until <= now_s:
        return f"Yes{times}; the time is not known, so wait at least a minute."
    return f"Yes{times}, not before {said(until)} (in {format_duration(until - now_s)})."


def _shortened(text: str) -> str:
    return text if len(text) <= WHY_CHARS_MAX else text[: WHY_CHARS_MAX - 1] + "…"
