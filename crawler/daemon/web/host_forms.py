"""The forms about hosts: pause, resume and slow one of them, some, or all that match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct

from crawler.daemon.api.host_steering import HostCommand, selection_of
from crawler.daemon.problem import invalid
from crawler.daemon.responses import Controlled
from crawler.daemon.web.host_filters import conditions, filter_of
from crawler.daemon.web.rendering import PageHandlers, form_of, number_in
from crawler.explain.formatting import counted
from crawler.steering.host_selection import HostSelection

_BACK = re.compile(r"/hosts?(\?[!-~]{0,4000})?\Z")  # where a form may redirect to
_DONE: Final = {
    HostCommand.PAUSE: "paused",
    HostCommand.RESUME: "resumed",
    HostCommand.SLOW: "slowed",
}


class _Command(Struct, frozen=True, kw_only=True):
    """A command about several hosts, from a form. selection: None for `hosts`; `filter` has its
    fields."""

    command: HostCommand
    hosts: tuple[str, ...]
    selection: HostSelection | None
    filter: dict[str, str]
    delay_s: float | None
    back: str


async def _command_of(request: web.Request) -> _Command:
    """Raises Problem."""
    form = await form_of(request)
    named = (await request.post()).getall("host", [])
    try:
        command = HostCommand(form.get("command", ""))
    except ValueError:
        raise invalid("command", f"must be one of {', '.join(HostCommand)}") from None
    hosts: tuple[str, ...] = ()
    selection, chosen = None, filter_of(form)
    if form.get("which") == "all":
        wanted = conditions(chosen)
        state = "" if wanted["state"] == "all" else wanted["state"]
        selection = selection_of(**(wanted | {"state": state})) or HostSelection()
    else:
        hosts = tuple(one for one in named if isinstance(one, str))
        if not hosts:
            raise invalid("host", "choose at least one host")
    delay_s = number_in(form, "delay_s") if command is HostCommand.SLOW else None
    back = form.get("back", "")
    return _Command(
        command=command,
        hosts=hosts,
        selection=selection,
        filter=chosen,
        delay_s=delay_s,
        back=back,
    )


class HostForms(PageHandlers):
    """Handlers of the forms about hosts."""

    async def pause(self, request: web.Request) -> web.Response:
        raise await self._steered(request, HostCommand.PAUSE)

    async def resume(self, request: web.Request) -> web.Response:
        raise await self._steered(request, HostCommand.RESUME)

    async def slow(self, request: web.Request) -> web.Response:
        raise await self._steered(request, HostCommand.SLOW)

    async def _steered(self, request: web.Request, command: HostCommand) -> web.HTTPSeeOther:
        form = await form_of(request)
        delay_s = number_in(form, "delay_s") if command is HostCommand.SLOW else None
        await self._steer(command, [form.get("host", "")], None, delay_s=delay_s)
        return _back(form, f"host-{_DONE[command]}")

    async def retry(self, request: web.Request) -> web.Response:
        form = await form_of(request)
        if not (host := form.get("host", "")):  # without one, all hosts would be retried
            raise invalid("host", "must name a host")
        await self.operations.url_lists.retry(host)
        raise _back(form, "host-retried")

    # ------------------------------------------------------------ several hosts

    async def steer(self, request: web.Request) -> web.Response:
        """Show what a command would do to the chosen hosts, or to all that match; with `confirmed`,
        do it."""
        command = await _command_of(request)
        if "confirmed" not in await request.post():
            return await self._preview(request, command)
        done = await self._steer(
            command.command, command.hosts, command.selection, delay_s=command.delay_s
        )
        said = f"hosts-{_DONE[command.command]}"
        raise _back({"back": command.back, "host": counted(done.hosts, "host")}, said)

    async def _preview(self, request: web.Request, command: _Command) -> web.Response:
        found = await self._steer(
            command.command,
            command.hosts,
            command.selection,
            delay_s=command.delay_s,
            dry_run=True,
        )
        values = {
            "command": command,
            "found": found,
            "more": found.hosts - len(found.names),
            "selected": "" if command.selection is None else str(command.selection),
            "back": command.back if _BACK.match(command.back) else "/hosts",
            "live": False,
        }
        return await self.page(request, "hosts", values, template="steer_hosts")

    async def _steer(
        self,
        command: HostCommand,
        hosts: Sequence[str],
        selection: HostSelection | None,
        *,
        delay_s: float | None = None,
        dry_run: bool = False,
    ) -> Controlled:
        return await self.operations.host_steering.steer(
            command, hosts=hosts, selection=selection, delay_s=delay_s, dry_run=dry_run
        )


def _back(form: dict[str, str], said: str) -> web.HTTPSeeOther:
    """The redirect after a form, back to the page with the form."""
    back = form.get("back", "")
    path = back if _BACK.match(back) else "/hosts"
    query = {"said": said, "host": form.get("host", "")}
    return web.HTTPSeeOther(f"{path}{'&' if '?' in path else '?'}{urlencode(query)}")
