"""Page requisites: the files a page needs for display, with their kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from crawler.config.model import CurrentConfig
from crawler.documents.page_parser import PageParser
from crawler.fetching.request import LARGE_BYTES, Answer
from policies.indexing import Directives
from policies.url import path_of
from storage.store import Queued, Rel

if TYPE_CHECKING:
    from crawler.sinks.dispatch import Sinks
    from crawler.sinks.references import ReferenceRole
    from crawler.sinks.requisites import Requisites

# Where the element does not say what kind of file it is, its ending does. All others are images.
_ENDINGS: Final[Mapping[str, Rel]] = {
    **dict.fromkeys(("woff", "woff2", "ttf", "otf", "eot"), Rel.FONT),
    **dict.fromkeys(
        (
            "aac", "flac", "m4a", "m4v", "mkv", "mov", "mp3", "mp4", "oga", "ogg", "ogv", "opus",
            "vtt", "wav", "webm",
        ),
        Rel.MEDIA,
    ),
}  # fmt: skip


# Requisites that need others, one after the other: style sheets that import style sheets, on real
# sites three or four.
DEPTH_MAX: Final = 10


class Needed(Struct, frozen=True):
    """Canonical URLs with what they are; whether these are all."""

    rels: Mapping[str, Rel]
    whole: bool = True


def wanted(effective: CurrentConfig, sinks: Sinks | None) -> bool:
    """Return whether the config or a sink may want what pages need to be shown."""
    return sinks is not None or effective.config.requisites


async def needed(
    queued: Queued, name: str, answer: Answer, directives: Directives, effective: CurrentConfig,
    sinks: Sinks | None, pages: PageParser,
) -> Needed | None:  # fmt: skip
    """Return what an answer of the host `name` needs besides, to be shown: all of it where the
    config asks for requisites, else what sinks want; None if nobody wants any. A large page is
    looked through beside the event loop."""
    if not answer.body:
        return None
    content_type = answer.headers.get("Content-Type")
    if effective.config.site(name).scope.requisites or (
        queued.requisite and effective.config.requisites
    ):
        from crawler.sinks.requisites import requisites  # few crawls need it

        look: Callable[[], Requisites | None]
        look = partial(requisites, queued.url, content_type, answer.body, scripts=True)
    elif sinks is not None and directives.index and directives.archive:
        look = partial(
            sinks.requisites,
            queued.url,
            answer.status,
            content_type,
            answer.body,
            requisite=queued.requisite,
        )
    else:
        return None
    found = look() if len(answer.body) <= LARGE_BYTES else await pages.beside(queued.url, look)
    if found is None:
        return None
    return Needed({url: _rel(url, role) for url, role in found.roles.items()}, found.whole)


def _rel(url: str, role: ReferenceRole) -> Rel:
    if role == "manifest":
        return Rel.REQUISITE
    if role != "part":
        return Rel(str(role))
    ending = path_of(url).partition("?")[0].rpartition("/")[2].rpartition(".")[2].lower()
    return _ENDINGS.get(ending, Rel.IMAGE)
