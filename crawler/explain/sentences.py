"""Sentences about one URL or host, made from the rows that a `Reader` returns. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from crawler.config.units import format_bytes, format_duration
from crawler.explain.formatting import at, connections_failed, counted, plain
from crawler.frontier.reasons import latest_backoff
from policies.retries import is_address_refused
from policies.robots import RobotsFile
from policies.robots_policy import Closed, Open, RobotsPolicy
from policies.scope import SKIP_KEYS, SKIP_WORDS
from storage.row_values import number
from storage.store import Row

_CONTACTS_SHOWN = 5
_CHAIN_SHOWN = 24  # more URLs than `fetch.max_redirects` has by default
_DATA_SHOWN = 200  # characters
FORBIDDEN: Final = "the config does not allow"  # the beginning of a reason
_NO_CONNECTION = ("dns", "address", "connect", "tls")  # codes of `failed`


def url_sentences(row: Row, now_s: float, *, again: str = "") -> Iterator[str]:
    """Describe a URL: its state and the reason, its attempts, how it was found.

    `again`: options that name the database, for the commands suggested."""
    state = str(row["state"])
    if state == "visited":
        yield from _visited(row, now_s)
    elif state == "blocked":
        yield from _blocked(row)
    elif state == "failed":
        yield f"failed: {_text(row['error'])}"
        yield f"tried {_times(row['attempts'])}, last at {at(row['last_at'])}"
        yield f"`courtly retry failed --host {row['host']}{again}` queues it again"
    elif state == "queued":
        yield from _queued(row, now_s)
    elif state == "sitemaps":
        yield from _sitemap(row)
    elif row.get("reason") is None:  # kept for the view `links` alone
        yield "not queued: known only as the target of a link that was skipped"
    else:
        yield f"skipped: {skip_words(str(row['reason']))}"
    if row.get("sitemap") and state != "sitemaps":
        yield "it is a sitemap or a feed, not a page"
    if isinstance(listing := row.get("listing"), Mapping):
        yield from _listed(listing)
    if row.get("referrer"):
        anchor = f", by the link “{_text(row['anchor'])}”" if row.get("anchor") else ""
        yield f"found on {_text(row['referrer'])}{anchor}"
    elif row.get("sitemap"):
        yield (
            "no page links to it: it is named by a robots.txt, listed in `scope.sitemap_paths` or "
            "given as a seed"
        )
    else:
        yield "no page links to it: it was given as a seed"
    if isinstance(data := row.get("data"), str):
        yield f"data: {data if len(data) <= _DATA_SHOWN else data[:_DATA_SHOWN] + '…'}"


def redirect_sentence(chain: Sequence[str]) -> str:
    """Name the URLs of a redirect chain; the middle of a long chain is left out."""
    shown = list(chain)
    if len(shown) > _CHAIN_SHOWN:
        left_out = len(shown) - _CHAIN_SHOWN
        shown[_CHAIN_SHOWN // 2 : -_CHAIN_SHOWN // 2] = [f"({left_out} more)"]
    return f"reached by redirects: {' → '.join(shown)}"


def _visited(row: Row, now_s: float) -> Iterator[str]:
    kind = f" {_text(row['content_type'])}" if row["content_type"] else ""
    yield (
        f"visited at {at(row['fetched_at'])}: status {row['status']},{kind} "
        f"{format_bytes(number(row['body_bytes']))} in "
        f"{format_duration(number(row['elapsed_s']))}, "
        f"{_links(row['depth'])}"
    )
    if isinstance(visits := row.get("visits"), int) and visits > 1:
        yield (
            f"visited {_times(visits)}, last at {at(row['checked_at'])}; "
            f"its content last changed at {at(row['changed_at'])}"
        )
    if row.get("next_visit_at"):
        due_at = number(row["next_visit_at"])
        yield f"next visit due at {at(due_at)}, {_in(due_at, now_s)}"
    if row.get("cut"):
        yield f"read only in part: {'; '.join(map(skip_words, str(row['cut']).split()))}"
    if row["title"]:
        yield f"title: {_text(row['title'])}"
    if row["redirect_url"]:
        yield f"it redirects to {_text(row['redirect_url'])}"
    if not row["indexable"]:
        yield "it asks not to be indexed: only sinks with noindex = true receive it"
    if not row["followable"]:
        yield "it asks that its links not be followed"
    if not row["archivable"]:
        yield "it asks that no copy be kept"
    if row.get("canonical_url") not in (None, row["url"]):
        yield f"its canonical URL is {_text(row['canonical_url'])}"
    if row.get("usage"):
        yield f"content usage preferences: {_text(row['usage'])}"


def _sitemap(row: Row) -> Iterator[str]:
    kinds = {"index": "a sitemap index", "rss": "an RSS feed", "atom": "an Atom feed"}
    kind = kinds.get(str(row["kind"]), "a sitemap")
    yield (
        f"{kind}, read at {at(row['fetched_at'])}: status {row['status']}, "
        f"{format_bytes(number(row['body_bytes']))}, {counted(int(number(row['urls'])), 'URL')} "
        "taken from it"
    )
    if row["error"]:
        yield f"part of it could not be used: {_text(row['error'])}"


def _listed(row: Mapping[str, object]) -> Iterator[str]:
    facts = []
    if row["lastmod_at"] is not None:
        facts.append(f"last modified at {at(row['lastmod_at'])}")
    if row["changefreq"]:
        facts.append(f"changes {row['changefreq']}")
    if row["priority"] is not None:
        facts.append(f"priority {row['priority']}")
    yield f"listed in a sitemap: {', '.join(facts)}" if facts else "listed in a sitemap"


def _blocked(row: Row) -> Iterator[str]:
    rule = f"line {row['line']}, `{_text(row['rule'])}`, of" if row["rule"] else "the state of"
    where = f"{rule} {_text(row['robots_url'])} (dialect {row['dialect']})"
    reasons = {
        "robots": f"blocked by {where}",
        "redirect": f"blocked, because it redirects to a URL that is blocked by {where}",
        "noindex-line": f"blocked by a Noindex line: {where}",
    }
    yield f"{reasons.get(str(row['reason']), str(row['reason']))}, since {at(row['blocked_at'])}"
    if row["withdrawn"]:
        yield "it had been fetched before, and was withdrawn when that rule became known"


def _queued(row: Row, now_s: float) -> Iterator[str]:
    due_at = number(row["due_at"])
    due = f", next attempt at {at(due_at)}, {_in(due_at, now_s)}" if due_at > now_s else ""
    links = f", {_links(row['depth'])}" if row.get("depth") is not None else ""
    yield f"queued{links}{due}"
    last = f"; last error: {_text(row['error'])}" if row.get("error") else ""
    if row["attempts"]:
        yield f"tried {_times(row['attempts'])} without a usable answer{last}"
    elif last:  # 429 and 503 are no attempts
        yield f"requested without success{last}"


def wait_sentences(
    host: Row, now_s: float, *, it: str = "its host", times: bool = True
) -> Iterator[str]:
    """Say what delays the queued URLs of a host, the strongest reason first.

    `host`: a row of `Reader.host`, with its contacts. `it`: the name of the host in the sentence.
    `times`: say when it may be contacted next.
    """
    if host["paused"]:
        yield f"{it} is paused by an operator"
        return
    backoff_until = number(host["backoff_until"])
    if backoff_until > now_s:
        why = latest_backoff(host["contacts"]).sentence
        yield f"{it}: {why}, until {at(backoff_until)}, {_in(backoff_until, now_s)}"
    if host.get("connect_failures"):
        yield f"{it}: {connections_failed(int(number(host['connect_failures'])))}"
    if not times:
        return
    next_at = number(host["next_at"])
    if next_at > max(now_s, backoff_until):
        yield f"{it} may be contacted again at {at(next_at)}, {_in(next_at, now_s)}"
    elif backoff_until <= now_s:
        yield f"{it} may be contacted now, as soon as a crawl is running and reaches it"


def skip_sentence(skip: str, whose: str) -> str:
    """Name the reason why scope excludes a URL, and the config key that decides it."""
    return f"{whose} excludes it: {skip_words(skip)}"


def is_unreachable(host: Row | None, row: Row | None = None) -> bool:
    """Return whether no connection to a host (a row of `Reader.host`) could be made: judged by the
    error of one of its URLs, its failed connections, or a request for robots.txt without an answer.
    """
    if row is not None and row.get("error"):
        return str(row["error"]).partition(":")[0] in _NO_CONNECTION
    if host is None:
        return False
    ring = host["contacts"] if isinstance(host["contacts"], list) else []
    robots = [each for each in ring if isinstance(each, Mapping) and each["kind"] == "robots"]
    return bool(host["connect_failures"] or (robots and robots[-1]["status"] is None))


def is_forbidden(row: Row | None) -> bool:
    """Return whether a URL failed because the config does not allow the address of its host."""
    return row is not None and is_address_refused(str(row.get("error")))


def host_sentences(row: Row, now_s: float, *, waits: Sequence[str] = ()) -> Iterator[str]:
    """Describe a host: its counts, its politeness delay and the source of that, its backoff.

    `waits`: what delays its queued URLs, where more is known than the times in the row."""
    yield (
        f"{number(row['visited']):,.0f} visited ({format_bytes(number(row['body_bytes']))}), "
        f"{number(row['blocked']):,.0f} blocked, {number(row['failed']):,.0f} failed, "
        f"{number(row['queued']):,.0f} queued"
    )
    source = f" ({_text(row['delay_source'])})" if row["delay_source"] else ""
    if row["delay_s"] or row["contacts"]:  # unknown before the first contact
        yield f"{format_duration(number(row['delay_s']))} between requests{source}"
    if row.get("slow_s"):
        yield f"slowed by an operator to {format_duration(number(row['slow_s']))} between requests"
    if row.get("latency_s"):
        yield f"average response time {format_duration(number(row['latency_s']))}"
    if row["queued"]:
        yield from wait_sentences(row, now_s, it="it", times=not waits)
    elif row["paused"]:
        yield "paused by an operator"
    yield from waits


def returns_sentence(returns: int, at_s: float) -> str:
    """Describe the returns of a database to an earlier state; at_s: of the latest."""
    often = f" ({returns:,} times so far)" if returns > 1 else ""
    return (
        f"the database went back in time at {at(at_s)}{often}: what was stored last before that is"
        " lost, and its pages are fetched again"
    )


def contact_sentences(row: Row, ring: object) -> Iterator[str]:
    """Count the contacts with a host and list the latest of the ring (oldest first)."""
    if not row["contacts"]:
        yield "never contacted"
        return
    smallest = row["smallest_rest_s"]
    gap = "" if smallest is None else f", at least {format_duration(number(smallest))} apart"
    breaches = number(row["breaches"])
    early = f", {breaches:.0f} of them too early" if breaches else ""
    yield f"{counted(int(number(row['contacts'])), 'contact')}{gap}{early}"
    if unproven := int(number(row["unproven"])):
        yield f"{counted(unproven, 'contact')} after a delay that nobody could measure"
    latest = [each for each in ring if isinstance(each, Mapping)] if isinstance(ring, list) else []
    if latest:
        yield "latest contacts:"
    for contact in latest[-_CONTACTS_SHOWN:]:
        start, end = number(contact["start_at"]), number(contact["end_at"])
        answer = "no answer" if contact["status"] is None else f"status {contact['status']}"
        took = format_duration(max(0.0, end - start))
        yield f"  {at(start)} {contact['kind']}: {answer} in {took}"


def robots_sentence(row: Row, now_s: float) -> str:
    """Describe what is known of an origin's robots.txt, from a row of the view `robots`."""
    words = {
        "rules": f"the copy fetched at {at(row['fetched_at'])} applies",
        "stale": "the last good copy applies, because the file could not be fetched again",
        "unreachable": "could not be fetched",
        "absent": f"does not exist (status {row['status']})",
        "unknown": "not fetched yet",
    }
    sentence = f"{row['origin']}/robots.txt: {words.get(str(row['state']), str(row['state']))}"
    if row.get("error"):
        sentence += f": {_text(row['error'])}"
    if row.get("truncated"):
        sentence += "; only its first 500 KiB are used"
    next_at = number(row["retry_at"]) or number(row["expires_at"])
    if next_at > now_s:
        sentence += f"; next fetch at {at(next_at)}, {_in(next_at, now_s)}"
    return sentence


def deciding_line(file: RobotsFile, row: Row) -> Iterator[str]:
    """Quote the line that blocked a URL, from the copy of robots.txt that blocked it."""
    number = row["line"]
    if isinstance(number, int) and 0 < number <= len(file.lines):
        yield f"line {number} of the copy that blocked it: `{_text(file.lines[number - 1].rule)}`"


def policy_sentences(policy: RobotsPolicy | None, now_s: float) -> list[str]:
    """Say what applies to pages where no copy of robots.txt decides; empty where one does."""
    if isinstance(policy, Open):
        return [f"so all of its pages may be fetched: {policy.reason}"]
    if isinstance(policy, Closed):
        until = policy.until_s
        again = f", until {at(until)}, {_in(until, now_s)}" if until and until > now_s else ""
        return [f"so none of its pages may be fetched: {policy.reason}{again}"]
    return []


def skip_words(skip: str) -> str:
    """Return why links are skipped, with the key of the config that says so."""
    key = SKIP_KEYS.get(skip)
    return f"{SKIP_WORDS.get(skip, skip)}{f' ({key})' if key else ''}"


def _text(value: object) -> str:
    return plain(str(value))


def _in(then_s: float, now_s: float) -> str:
    """ "in 12 s", or "12 s ago" for a time that has passed."""
    away_s = then_s - now_s
    return f"in {format_duration(away_s)}" if away_s >= 0 else f"{format_duration(-away_s)} ago"


def _times(value: object) -> str:
    count = int(number(value))
    return "once" if count == 1 else f"{count} times"


def _links(depth: object) -> str:
    count = int(number(depth))
    return "at a seed" if count == 0 else f"{counted(count, 'link')} from a seed"
