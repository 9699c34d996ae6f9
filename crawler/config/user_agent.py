"""Who we say we are: the product token, the contact, and what is odd about a name."""

from __future__ import annotations

import functools
import re

OWN_NAME = "courtly"
TOKEN_LETTERS_MIN = 5  # shorter ones turn up inside other agents' names

# Agents that real robots.txt files name: a record for one of them that a dialect compares by
# "contains" (slurp, res1996) would count for a crawler whose token is a part of that name.
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


@functools.lru_cache(maxsize=64)  # asked for every page
def product_token(user_agent: str) -> str:
    """The crawler's name as robots.txt knows it: `examplebot` of `examplebot/1.0 (+https://…)`.

    Behind a browser's mask (`Mozilla/5.0 (compatible; examplebot/1.0; +https://…)`) it is the name
    after "compatible".
    """
    if masked := _COMPATIBLE.match(user_agent):
        return masked[1].strip()
    found = _PRODUCT.match(user_agent)
    return found.group() if found else ""


def token_warnings(token: str) -> tuple[str, ...]:
    """What is allowed in a product token, but leads to surprises in robots.txt files."""
    found = []
    if odd := sorted(set(re.sub(r"[A-Za-z_-]", "", token))):
        listed = " ".join(f'"{char}"' for char in odd)
        found.append(
            f'the product token "{token}" has characters beyond letters, "_" and "-" ({listed}): '
            "RFC 9309 readers cut it there"
        )
    if len(token) < TOKEN_LETTERS_MIN:
        found.append(
            f'the product token "{token}" has under {TOKEN_LETTERS_MIN} letters: '
            "rules for other agents may contain it"
        )
    if within := next((name for name in WELL_KNOWN_AGENTS if token.lower() in name), None):
        found.append(
            f'the product token "{token}" is contained in "{within}", an agent of someone else: '
            "its rules would count for you"
        )
    return tuple(found)
