"""Templates to pages, escaped by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from crawler.daemon.web import words
from crawler.daemon.web.assets import Assets
from crawler.version import __version__

NAV: Final = (
    ("overview", "/", "Overview"),
    ("hosts", "/hosts", "Hosts"),
    ("blocked", "/blocked", "Blocked"),
    ("url", "/url", "URL"),
    ("tester", "/tester", "Robots tester"),
    ("seeds", "/seeds", "Seeds"),
    ("config", "/config", "Config"),
)


class Renderer:
    """Pages from templates. A name that a template uses and nobody gave is an error."""

    def __init__(self, assets: Assets) -> None:
        env = Environment(
            loader=PackageLoader("crawler.daemon.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        env.globals.update(asset=assets.url, version=__version__)
        env.filters.update(
            address=words.address,
            clock=words.clock_of,
            count=words.count,
            duration=words.duration,
            host_link=words.host_link,
            percent=words.percent,
            plain=words.plain,
            rate=words.rate,
            sentence=words.sentence,
            short=words.short,
            size=words.size,
            when=_when,
            words=words.words,
        )
        self._env = env

    def text(self, template: str, values: Mapping[str, object]) -> str:
        return self._env.get_template(template).render(values)

    def response(
        self, template: str, values: Mapping[str, object], *, status: int = 200
    ) -> web.Response:
        return web.Response(
            status=status,
            text=self.text(template, values),
            content_type="text/html",
        )


@pass_context
def _when(context: Context, value: object, now_s: float | None = None) -> Markup:
    return words.when(value, context["now_s"] if now_s is None else now_s)
