"""What every page has around its subject: the state of the crawl, the way to other pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from crawler.clock import Clock
from crawler.daemon.answering.answers import Answers
from crawler.daemon.web import words
from crawler.daemon.web.render import NAV

SAID: Final[Mapping[str, str]] = {
    "paused": "The crawl is paused: no new contact begins, what is in flight ends.",
    "resumed": "The crawl goes on.",
    "host-paused": "Paused: no new contact with {host} begins. This lasts until it is resumed.",
    "host-resumed": "{host} goes on at its own pace.",
    "host-retried": "What failed at {host} is queued again.",
    "host-slowed": "{host} is slowed: a contact is followed by that rest at least.",
}


class Frame:
    """Makes the values that every template needs. `logout`: there are sessions to be ended."""

    def __init__(self, answers: Answers, clock: Clock, *, logout: bool) -> None:
        self._answers = answers
        self._clock = clock
        self._logout = logout

    async def values(self, request: web.Request, page: str) -> dict[str, object]:
        """`page` is the place in the navigation; what was done before is said once."""
        said = SAID.get(request.query.get("said", ""))
        if said is not None:
            said = said.format(host=words.plain(request.query.get("host", "the host"))[:300])
        return {
            "status": await self._answers.status(),
            "now_s": self._clock.wall(),
            "page": page,
            "nav": NAV,
            "said": said,
            "live": True,
            "logout": self._logout,
            "problem": None,
        }


def link(path: str, asked: Mapping[str, str]) -> str:
    """A link without what says nothing."""
    plain = {"state": "all", "sort": "host"}
    said = {key: value for key, value in asked.items() if value and value != plain.get(key)}
    return f"{path}?{urlencode(said)}" if said else path
