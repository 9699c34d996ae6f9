"""Numbers, times and addresses as a page shows them. What comes from the web is escaped here too:
`Markup` is made of constants and of `escape`d values only.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

from crawler.config.units import format_bytes, format_duration

NOTHING: Final = Markup('<span class="none">–</span>')

# Control characters, and those that turn the direction of a text around: shown, never obeyed.
_ODD = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SHOWN_CHARS_MAX = 4_000  # of one text; a longer one is cut, the whole stands in the database
_HREF = re.compile(r"https?://[^\s\"'<>]+\Z")


def _real(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def plain(value: object) -> str:
    """Text of foreign origin: without what would be obeyed, and of bounded length."""
    text = _ODD.sub("\N{REPLACEMENT CHARACTER}", str(value))
    return text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…"


def sentence(value: object) -> str:
    """What a problem says, as a sentence: the API's are phrases, which may be quoted anywhere."""
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
    """A number for a small place: 1234567 → "1.23 M"; up to 99,999 as it is."""
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
    """Things per second, as many digits as help: 0.042, 3.1, 42, 1,200."""
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
    """ "3 min ago", "in 12 s", "now": one unit, as a person would say it."""
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
    """A `<time>`, in relative words; its title is the moment in UTC."""
    number = _real(value)
    if number is None or not 0 < number < 1e11:
        return NOTHING
    stamp = iso(number)
    title = stamp.replace("T", " ")
    words = relative(number, now_s)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, title, words)


def clock_of(value: object) -> Markup:
    """A `<time>`, as the moment itself."""
    number = _real(value)
    if number is None or not 0 < number < 1e11:
        return NOTHING
    stamp = iso(number)
    return Markup('<time datetime="{}">{}</time>').format(
        stamp, stamp.replace("T", " ").replace("Z", " UTC")
    )


def address(value: object) -> Markup:
    """A URL of the web: a link to what we know of it, and one out to the page itself.

    Only http and https become links: anything else is shown as the text that it is."""
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
    """A long URL breaks behind its slashes and ampersands, not in the middle of a word."""
    return Markup(re.sub(r"(/|&amp;|\?)(?=[^/])", r"\1<wbr>", str(escape(text))))  # noqa: S704


def host_link(value: object) -> Markup:
    if not value:
        return NOTHING
    return Markup('<a class="host" href="/host?host={}"><bdi>{}</bdi></a>').format(
        quote(str(value), safe=""), plain(value)
    )


def words(value: object) -> str | Markup:
    """Text of foreign origin, or the sign for nothing."""
    return NOTHING if value is None or value == "" else plain(value)
