"""Format numbers, times, addresses and rows for a page. Strings from the web are escaped: `Markup`
is made from constants and escaped values only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

from crawler.config.keys import SECTIONS
from crawler.config.units import format_bytes, format_duration
from crawler.daemon.health import HealthState
from crawler.daemon.responses import Setting, Status, Worker
from crawler.explain import formatting

NOTHING: Final = Markup('<span class="none">–</span>')

_UNFOLDED_CHARS: Final = 150  # of the value of a setting: five lines of its column
_FOLDED_CHARS: Final = 40  # shown of a folded value
_PARTS_SHOWN: Final = 500  # of a value with very many; the API has them all
_SHOWN_CHARS_MAX = 4_000  # of one string; longer ones are cut, and complete in the database
_HREF = re.compile(r"https?://[^\s\"'<>]+\Z")
_TIMES: Final = (
    "fetched_at", "blocked_at", "last_at", "due_at", "checked_at", "changed_at", "next_visit_at",
)  # fmt: skip
_URLS: Final = ("url", "referrer", "redirect_url", "robots_url")


def _real(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def plain(value: object) -> str:
    """A foreign string without control characters, and of bounded length."""
    text = formatting.plain(str(value))
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def sentence(value: object) -> str:
    """An error message as a sentence: those of the API are phrases."""
    text = plain(value).strip()
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?:;…" else f"{text}."


def count(value: object) -> str | Markup:
    """1234567 → "1,234,567"."""
    number = _real(value)
    return NOTHING if number is None else f"{number:,.0f}"


def short(value: object) -> str | Markup:
    """A short number: 1234567 → "1.23 M"; up to 99,999 in full."""
    number = _real(value)
    if number is None:
        return NOTHING
    if abs(number) < 100_000:
        return f"{number:,.0f}"
    for unit in ("k", "M", "G"):
        number /= 1000
        if abs(number) < 999.5:
            return f"{number:.3g} {unit}"
    return f"{number:,.0f} G"


def rate(value: object) -> str | Markup:
    """A rate with two or more significant digits: 0.042, 3.1, 42, 1,200."""
    number = _real(value)
    if number is None:
        return NOTHING
    if number == 0:
        return "0"
    if number < 0.1:
        return f"{number:.3f}"
    return f"{number:.1f}" if number < 10 else f"{number:,.0f}"


def size(value: object) -> str | Markup:
    number = _real(value)
    return NOTHING if number is None else format_bytes(max(0.0, number))


def duration(value: object) -> str | Markup:
    number = _real(value)
    if number is None:
        return NOTHING
    return "0 s" if number <= 0 else format_duration(number)


def percent(part: object, whole: object) -> str:
    total, some = _real(whole), _real(part)
    if not total or some is None:
        return "0 %"
    share = 100 * some / total
    return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"


def relative(value_s: float, now_s: float) -> str:
    """ "3 min ago", "in 12 s", "now": in one unit."""
    away = value_s - now_s
    if abs(away) < 1:
        return "now"
    seconds = abs(away)
    for step, unit in ((86_400 * 2, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if seconds >= step:
            per = 86_400 if unit == "d" else step
            words = f"{math.floor(seconds / per)} {unit}"
            break
    return f"in {words}" if away > 0 else f"{words} ago"


def iso(value_s: float) -> str:
    return datetime.fromtimestamp(value_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def when(value: object, now_s: float) -> Markup:
    """A `<time>` with a relative time; its title is the date and time in UTC."""
    number = _real(value)
    if number is None or not 0 < number < 1e11:
        return NOTHING
    stamp = iso(number)
    title = stamp.replace("T", " ")
    words = relative(number, now_s)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, title, words)


def date_time(value: object) -> Markup:
    """A `<time>` with the date and time in UTC."""
    number = _real(value)
    if number is None or not 0 < number < 1e11:
        return NOTHING
    stamp = iso(number)
    return Markup('<time datetime="{}">{}</time>').format(
        stamp, stamp.replace("T", " ").replace("Z", " UTC")
    )


def time_of_day(value: object) -> str | Markup:
    """ "10:31:05 UTC"."""
    number = _real(value)
    if number is None or not 0 < number < 1e11:
        return NOTHING
    return f"{datetime.fromtimestamp(number, UTC):%H:%M:%S} UTC"


def log_time(value: object, now_s: float) -> Markup:
    """A `<time>` with the time of day to a millisecond, and the date if that is not today."""
    number = _real(value)
    if number is None or not 0 < number < 1e11:
        return NOTHING
    stamp = iso(number)
    at = datetime.fromtimestamp(number, UTC).isoformat(" ", "milliseconds")[:23]
    if iso(now_s)[:10] == stamp[:10]:
        at = at[11:]
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        stamp, stamp.replace("T", " ").replace("Z", " UTC"), at
    )


def mood(status: Status) -> str:
    """The state of the crawl in a word, for titles: with a sign if it is not well."""
    word = status.state.value.capitalize()
    match status.health.state:
        case HealthState.BAD:
            return f"⚠ {word}, not well"
        case HealthState.WARNING:
            return f"⚠ {word}"
    return word


def address(value: object) -> Markup:
    """A link to the page about a URL, and one to the URL itself. Anything but http and https is
    shown as plain text."""
    if value is None:
        return NOTHING
    text = str(value)
    shown = Markup('<bdi class="url">{}</bdi>').format(_breakable(plain(text)))
    if not _HREF.match(text):
        return shown
    return Markup(
        '<span class="address"><a href="/url?url={}">{}</a>'
        '<a class="out" href="{}" rel="noreferrer noopener" target="_blank">'
        '<span class="visually-hidden">Open {} in a new tab</span>'
        '<span aria-hidden="true">↗</span></a></span>'
    ).format(quote(text, safe=""), shown, text, plain(text)[:100])


def _breakable(text: str) -> Markup:
    """Allow line breaks after slashes and ampersands of a long URL."""
    return Markup(re.sub(r"(/|&amp;|\?)(?=[^/])", r"\1<wbr>", str(escape(text))))  # noqa: S704


def host_link(value: object) -> Markup:
    if not value:
        return NOTHING
    return Markup('<a class="host" href="/host?host={}"><bdi>{}</bdi></a>').format(
        quote(str(value), safe=""), plain(value)
    )


def sentence_case(value: object) -> str:
    """Return a sentence with a capital letter; robots.txt stays as it is."""
    text = str(value)
    return "URLs" if text == "urls" else text if "." in text else text.capitalize()


def text_or_dash(value: object) -> str | Markup:
    """A foreign string, or a dash for none."""
    return NOTHING if value is None or value == "" else plain(value)


def worker_pill(worker: Worker) -> tuple[str, str]:
    """The kind and the word of a worker's state."""
    if worker.silent:
        return "bad", "silent"
    return ("calm", "idle") if worker.idle else ("good", "active")


FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "address": address,
    "clock": date_time,
    "count": count,
    "duration": duration,
    "host_link": host_link,
    "log_time": log_time,
    "mood": mood,
    "percent": percent,
    "plain": plain,
    "rate": rate,
    "sentence": sentence,
    "sentence_case": sentence_case,
    "short": short,
    "size": size,
    "time_of_day": time_of_day,
    "words": text_or_dash,
    "worker_pill": worker_pill,
}


# ---------------------------------------------------------------- rows and settings


def facts(row: Mapping[str, object], now_s: float) -> list[tuple[str, object]]:
    """The columns of a row under readable names, each formatted by its kind."""
    found: list[tuple[str, object]] = []
    for name, value in row.items():
        if name in ("url", "state", "host", "listing") or value is None:
            continue
        shown: object
        if name in _TIMES:
            if not value:
                continue
            shown = when(value, now_s) + Markup(" (") + date_time(value) + Markup(")")
        elif name in _URLS:
            shown = address(value)
        elif isinstance(value, bool):
            shown = "yes" if value else "no"
        elif name.endswith("_bytes"):
            shown = size(value)
        elif name.endswith("_s"):
            shown = duration(value)
        else:
            shown = plain(value)
        found.append((name.removesuffix("_at").removesuffix("_s").replace("_", " "), shown))
    return found


def _toml(value: object) -> str:
    """A value as in the config file; unset and hidden values in words."""
    match value:
        case None | "":
            return "not set"
        case "…":
            return "set, hidden"
        case "inf":
            return "inf"
        case float() if value.is_integer():
            return f"{value:.0f}"
        case list():
            return f"[{', '.join(_toml(each) for each in value)}]"
        case Mapping():
            pairs = (f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
    return json.dumps(value, ensure_ascii=False)


def _parts(value: object) -> list[str]:
    """The lines a long value is shown as: one for each element, or the value itself."""
    match value:
        case list():
            return [_toml(each) for each in value]
        case Mapping():
            return [f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()]
    return [_toml(value)]


def _fold(value: object, text: str) -> dict[str, object] | None:
    """The summary and the lines of a value that is too long to be shown unfolded."""
    if len(text) <= _UNFOLDED_CHARS:
        return None
    parts = _parts(value)
    number = f"{len(parts):,} values" if len(parts) > 1 else f"{len(text):,} characters"
    return {
        "summary": number,
        "start": f"{text[:_FOLDED_CHARS]}…",
        "parts": parts[:_PARTS_SHOWN],
        "more": max(0, len(parts) - _PARTS_SHOWN),
    }


def sections(settings: Sequence[Setting]) -> list[tuple[str, list[dict[str, object]]]]:
    """Settings by section, each with its description."""
    found: dict[str, list[dict[str, object]]] = {}
    for each in settings:
        section, _, name = each.key.partition(".")
        known = SECTIONS.get(section, {}).get(name)
        text = _toml(each.value)
        found.setdefault(section, []).append(
            {
                "key": name,
                "value": text,
                "fold": _fold(each.value, text),
                "source": each.source,
                "set": each.source != "default",
                "note": "" if known is None else known.doc,
            }
        )
    return list(found.items())
