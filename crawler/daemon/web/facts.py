"""Rows and settings as a page shows them: each value as what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from crawler.config.keys import SECTIONS
from crawler.daemon.shapes import Setting
from crawler.daemon.web import words

_TIMES: Final = (
    "fetched_at", "blocked_at", "last_at", "due_at", "checked_at", "changed_at", "next_visit_at",
)  # fmt: skip
_URLS: Final = ("url", "referrer", "redirect_url", "robots_url")
_FLAGS: Final = ("indexable", "followable", "archivable", "withdrawn")


def facts(row: Mapping[str, object], now_s: float) -> list[tuple[str, object]]:
    """The columns of a row under readable names, each shown as what it is."""
    found: list[tuple[str, object]] = []
    for name, value in row.items():
        if name in ("url", "state", "host", "listing") or value is None:
            continue
        shown: object
        if name in _TIMES:
            shown = words.when(value, now_s) + Markup(" (") + words.clock_of(value) + Markup(")")
            if not value:
                continue
        elif name in _URLS:
            shown = words.address(value)
        elif name in _FLAGS:
            shown = "yes" if value else "no"
        elif name.endswith("_bytes"):
            shown = words.size(value)
        elif name.endswith("_s"):
            shown = words.duration(value)
        else:
            shown = words.plain(value)
        label = name.removesuffix("_at").removesuffix("_s").replace("_", " ")
        found.append((label, shown))
    return found


def _toml(value: object) -> str:
    """A value as the config file would say it; what is not set, and what is kept back, as words."""
    match value:
        case None | "":
            return "not set"
        case "…":
            return "set, and not shown"
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


def sections(settings: Sequence[Setting]) -> list[tuple[str, list[dict[str, object]]]]:
    """Settings by section, each with what it means."""
    found: dict[str, list[dict[str, object]]] = {}
    for each in settings:
        section, _, key = each["key"].partition(".")
        known = SECTIONS.get(section, {}).get(key)
        value = each["value"]
        found.setdefault(section, []).append(
            {
                "key": key,
                "value": _toml(value),
                "source": each["source"],
                "set": each["source"] != "default",
                "note": "" if known is None else known.doc,
            }
        )
    return list(found.items())
