"""What is known of a URL or a host, in words: pure, over the rows that a Reader gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from crawler.config.units import format_bytes, format_duration
from crawler.telling import backoff
from crawler.telling.words import at, counted, plain
from policies.robots import RobotsFile
from policies.robots_policy import Closed, Open, RobotsPolicy
from policies.scope import SKIP_KEYS, SKIP_WORDS
from storage.store import Row

_CONTACTS_SHOWN = 5
_CHAIN_SHOWN = 24  # more URLs than `fetch.max_redirects` has by default
_NO_CONNECTION = ("dns", "address", "connect", "tls")  # codes of `failed`


def of_url(row: Row, now_s: float, *, again: str = "") -> Iterator[str]:
    """Sentences on one URL: its state and reason, its attempts, how it was found.

    `again`: the options that name the database, for the commands it suggests."""
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
        yield "not queued: known only as the target of a link, which was left out when it was found"
    else:
        yield f"left out: {_reason(str(row['reason']))}"
    if row.get("sitemap") and state != "sitemaps":
        yield "it is a sitemap or a feed, and no page"
    if isinstance(listing := row.get("listing"), Mapping):
        yield from _listed(listing)
    if row.get("referrer"):
        anchor = f", by the link “{_text(row['anchor'])}”" if row.get("anchor") else ""
        yield f"found on {_text(row['referrer'])}{anchor}"
    elif row.get("sitemap"):
        yield (
            "no page led to it: a robots.txt names it, it is one of `scope.sitemap_paths`, or it "
            "was given as a seed"
        )
    else:
        yield "no page led to it: it was given as a seed"


def _reason(reason: str) -> str:
    key = SKIP_KEYS.get(reason)
    return f"{SKIP_WORDS.get(reason, reason)}{f' ({key})' if key else ''}"


def redirects(chain: Sequence[str]) -> str:
    """The URLs of a redirect chain, those in the middle of a long one left out."""
    shown = list(chain)
    if len(shown) > _CHAIN_SHOWN:
        left_out = len(shown) - _CHAIN_SHOWN
        shown[_CHAIN_SHOWN // 2 : -_CHAIN_SHOWN // 2] = [f"({left_out} more)"]
    return f"redirects led to it: {' → '.join(shown)}"


def _visited(row: Row, now_s: float) -> Iterator[str]:
    kind = f" {_text(row['content_type'])}" if row["content_type"] else ""
    yield (
        f"visited at {at(row['fetched_at'])}: status {row['status']},{kind} "
        f"{format_bytes(_number(row['body_bytes']))} in "
        f"{format_duration(_number(row['elapsed_s']))}, "
        f"{_links(row['depth'])}"
    )
    if isinstance(visits := row.get("visits"), int) and visits > 1:
        yield (
            f"visited {_times(visits)}, last at {at(row['checked_at'])}; "
            f"it last said something new at {at(row['changed_at'])}"
        )
    if row.get("next_visit_at"):
        due_at = _number(row["next_visit_at"])
        yield f"to be visited again at {at(due_at)}, {_in(due_at, now_s)}"
    if row.get("cut"):
        yield f"not read of it: {'; '.join(map(_reason, str(row['cut']).split()))}"
    if row["title"]:
        yield f"its title: {_text(row['title'])}"
    if row["redirect_url"]:
        yield f"it redirects to {_text(row['redirect_url'])}"
    if not row["indexable"]:
        yield "it asks not to be indexed: only sinks with noindex = true get it"
    if not row["followable"]:
        yield "it asks that its links be not followed"
    if not row["archivable"]:
        yield "it asks that no copy be kept"
    if row.get("canonical_url") not in (None, row["url"]):
        yield f"it calls {_text(row['canonical_url'])} canonical"
    if row.get("usage"):
        yield f"of the use of its content it says: {_text(row['usage'])}"


def _sitemap(row: Row) -> Iterator[str]:
    kinds = {"index": "an index of sitemaps", "rss": "an RSS feed", "atom": "an Atom feed"}
    kind = kinds.get(str(row["kind"]), "a sitemap")
    yield (
        f"{kind}, read at {at(row['fetched_at'])}: status {row['status']}, "
        f"{format_bytes(_number(row['body_bytes']))}, {counted(int(_number(row['urls'])), 'URL')} "
        "taken from it"
    )
    if row["error"]:
        yield f"not all of it could be used: {_text(row['error'])}"


def _listed(row: Mapping[str, object]) -> Iterator[str]:
    said = []
    if row["lastmod_at"] is not None:
        said.append(f"changed at {at(row['lastmod_at'])}")
    if row["changefreq"]:
        said.append(f"changes {row['changefreq']}")
    if row["priority"] is not None:
        said.append(f"priority {row['priority']}")
    yield f"a sitemap says of it: {', '.join(said)}"


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
    due_at = _number(row["due_at"])
    due = f", its next try at {at(due_at)}, {_in(due_at, now_s)}" if due_at > now_s else ""
    links = f", {_links(row['depth'])}" if row.get("depth") is not None else ""
    yield f"queued{links}{due}"
    last = f"; the last: {_text(row['error'])}" if row.get("error") else ""
    if row["attempts"]:
        yield f"tried {_times(row['attempts'])} without an answer that counts{last}"
    elif last:  # 429 and 503 are no attempts
        yield f"asked for without success{last}"


def waits(host: Row, now_s: float) -> Iterator[str]:
    """What keeps the queued URLs of a host, the strongest reason first. `host`: of `Reader.host`,
    for its contacts."""
    if host["paused"]:
        yield "its host is paused by hand"
        return
    backoff_until = _number(host["backoff_until"])
    if backoff_until > now_s:
        why = backoff.words(host["contacts"]).removeprefix("it ")
        yield f"its host {why}, until {at(backoff_until)}, {_in(backoff_until, now_s)}"
    if host.get("connect_failures"):
        yield f"its host could not be connected to, {_times(host['connect_failures'])} in a row"
    next_at = _number(host["next_at"])
    if next_at > max(now_s, backoff_until):
        yield f"its host may be contacted again at {at(next_at)}, {_in(next_at, now_s)}"
    elif backoff_until <= now_s:
        yield "its host may be contacted now: it waits for a crawl to run, or for its turn in one"


def left_out(skip: str, whose: str) -> str:
    """Why scope does not want a URL, and the key that says so."""
    key = SKIP_KEYS.get(skip)
    return f"{whose} leaves it out: {SKIP_WORDS.get(skip, skip)}{f' ({key})' if key else ''}"


def no_connection(origin: str) -> str:
    """What is to be said where robots.txt is not known because nobody answered."""
    return f"{origin}/robots.txt: no connection could be made to ask for it"


def out_of_reach(host: Row | None, row: Row | None = None) -> bool:
    """Whether a host (of `Reader.host`) could not be connected to: by the error of a URL of it, the
    count of connections that failed, or a request for robots.txt that got no answer."""
    if row is not None and row.get("error"):
        return str(row["error"]).partition(":")[0] in _NO_CONNECTION
    if host is None:
        return False
    ring = host["contacts"] if isinstance(host["contacts"], list) else []
    asked = [each for each in ring if isinstance(each, Mapping) and each["kind"] == "robots"]
    return bool(host["connect_failures"] or (asked and asked[-1]["status"] is None))


def of_host(row: Row, now_s: float) -> Iterator[str]:
    """Sentences on a host: its counts, clock, delay and source, back-off."""
    yield (
        f"{_number(row['visited']):,.0f} visited ({format_bytes(_number(row['body_bytes']))}), "
        f"{_number(row['blocked']):,.0f} blocked, {_number(row['failed']):,.0f} failed, "
        f"{_number(row['queued']):,.0f} queued"
    )
    source = f" ({_text(row['delay_source'])})" if row["delay_source"] else ""
    if row["delay_s"] or row["contacts"]:  # before its first contact nobody has reckoned it
        yield f"rests {format_duration(_number(row['delay_s']))} after each contact{source}"
    if row.get("slow_s"):
        yield f"slowed by hand to {format_duration(_number(row['slow_s']))}"
    if row.get("latency_s"):
        yield f"answers in {format_duration(_number(row['latency_s']))}, smoothed"
    if row["queued"]:
        yield from (reason.replace("its host", "it", 1) for reason in waits(row, now_s))
    elif row["paused"]:
        yield "paused by hand"


def contacts(row: Row, ring: object) -> Iterator[str]:
    """How many contacts there were, and the latest of the ring (oldest first)."""
    if not row["contacts"]:
        yield "never contacted"
        return
    least = row["smallest_rest_s"]
    rest = (
        "" if least is None else f", the least rest between two {format_duration(_number(least))}"
    )
    breaches = _number(row["breaches"])
    early = f", {breaches:.0f} of them too early" if breaches else ""
    yield f"{counted(int(_number(row['contacts'])), 'contact')}{rest}{early}"
    latest = [each for each in ring if isinstance(each, Mapping)] if isinstance(ring, list) else []
    if latest:
        yield "latest contacts:"
    for contact in latest[-_CONTACTS_SHOWN:]:
        start, end = _number(contact["start_at"]), _number(contact["end_at"])
        answer = "no answer" if contact["status"] is None else f"status {contact['status']}"
        took = format_duration(max(0.0, end - start))
        yield f"  {at(start)} {contact['kind']}: {answer} in {took}"


def of_robots(row: Row, now_s: float) -> str:
    """One sentence on what is known of an origin's robots.txt."""
    words = {
        "rules": f"a copy of {at(row['fetched_at'])} is in force",
        "stale": "the last good copy is in force, as it cannot be had anew",
        "unreachable": "cannot be had",
        "absent": f"there is none (status {row['status']})",
        "unknown": "not asked for yet",
    }
    sentence = f"{row['origin']}/robots.txt: {words.get(str(row['state']), str(row['state']))}"
    if row.get("error"):
        sentence += f": {_text(row['error'])}"
    if row.get("truncated"):
        sentence += "; only its first 500 KiB are used"
    next_at = _number(row["retry_at"]) or _number(row["expires_at"])
    if next_at > now_s:
        sentence += f"; to be asked for again at {at(next_at)}, {_in(next_at, now_s)}"
    return sentence


def of_line(file: RobotsFile, row: Row) -> Iterator[str]:
    """The line that a URL was blocked by, as the copy of that time has it."""
    number = row["line"]
    if isinstance(number, int) and 0 < number <= len(file.lines):
        yield f"line {number} of the copy it was judged by: `{_text(file.lines[number - 1].rule)}`"


def without_rules(stands: RobotsPolicy | None, now_s: float) -> list[str]:
    """What holds for pages where there is no copy to judge them by; nothing where there is one."""
    if isinstance(stands, Open):
        return [f"so all its pages may be asked for: {stands.reason}"]
    if isinstance(stands, Closed):
        until = stands.until_s
        again = f", until {at(until)}, {_in(until, now_s)}" if until and until > now_s else ""
        return [f"so none of its pages may be asked for: {stands.reason}{again}"]
    return []


def _text(value: object) -> str:
    return plain(str(value))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _in(then_s: float, now_s: float) -> str:
    return f"in {format_duration(then_s - now_s)}"


def _times(value: object) -> str:
    count = int(_number(value))
    return "once" if count == 1 else f"{count} times"


def _links(depth: object) -> str:
    count = int(_number(depth))
    return "at a seed" if count == 0 else f"{count} link{'' if count == 1 else 's'} from a seed"
