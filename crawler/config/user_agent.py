"""The product token of a user agent, and warnings about names that robots.txt may mistake."""

from __future__ import annotations

import functools
import re

OWN_NAME = "courtly"
TOKEN_LETTERS_MIN = 5  # shorter tokens occur inside the names of other agents

# Agents that real robots.txt files name. Dialects that compare by "contains" (slurp, res1996) would
# apply a group for one of them to a crawler whose token is part of that name.
WELL_KNOWN_AGENTS = (
    "adsbot-google", "ahrefsbot", "amazonbot", "anthropic-ai", "applebot", "archive.org_bot",
    "baiduspider", "bingbot", "bytespider", "ccbot", "chatgpt-user", "claudebot", "cohere-ai",
    "diffbot", "dotbot", "duckduckbot", "facebookexternalhit", "google-extended", "googlebot",
    "googlebot-image", "googlebot-news", "gptbot", "ia_archiver", "linkedinbot",
    "mediapartners-google", "mj12bot", "mozilla", "msnbot", "oai-searchbot", "perplexitybot",
    "petalbot", "pinterestbot", "rogerbot", "scrapy", "screaming frog seo spider", "semrushbot",
    "seznambot", "slackbot", "slurp", "sogou web spider", "teoma", "twitterbot", "wget",
    "yahoo! slurp", "yandexbot", "yeti",
)  # fmt: skip

_COMPATIBLE = re.compile(r"Mozilla/[\d.]+ \((?:compatible; *)([^;/()]+)", re.IGNORECASE)
_PRODUCT = re.compile(r"[^\s/()]*")


@functools.lru_cache(maxsize=64)  # called for every page
def product_token(user_agent: str) -> str:
    """Return the crawler's name in robots.txt: `examplebot` of `examplebot/1.0 (+https://…)`.

    Of `Mozilla/5.0 (compatible; examplebot/1.0; +https://…)`, it is the name after "compatible".
    """
    if masked := _COMPATIBLE.match(user_agent):
        return masked[1].strip()
    found = _PRODUCT.match(user_agent)
    return found.group() if found else ""


def token_warnings(token: str) -> tuple[str, ...]:
    """Return warnings about a product token that is valid but may match the wrong groups."""
    found = []
    if odd := sorted(set(re.sub(r"[A-Za-z_-]", "", token))):
        listed = " ".join(f'"{char}"' for char in odd)
        found.append(
            f'the product token "{token}" has characters other than letters, "_" and "-" '
            f"({listed}): parsers that follow RFC 9309 truncate it there"
        )
    if len(token) < TOKEN_LETTERS_MIN:
        found.append(
            f'the product token "{token}" has fewer than {TOKEN_LETTERS_MIN} letters: '
            "rules for other agents may contain it"
        )
    if within := next((name for name in WELL_KNOWN_AGENTS if token.lower() in name), None):
        found.append(
            f'the product token "{token}" is contained in "{within}", the name of another '
            "crawler: rules for it may apply to yours"
        )
    return tuple(found)
