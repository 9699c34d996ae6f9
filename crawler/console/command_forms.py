"""The forms of commands, from their table: each executes one and redirects, so that reloading the
page repeats nothing. The form about several hosts shows first what it would do."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web
from msgspec import structs

from crawler.command_table import BULK_FORM, COMMANDS, CommandRow
from crawler.console.rendering import PageHandlers, form_of, link, number_in
from crawler.daemon.problem import as_problems, invalid
from crawler.explain.formatting import counted
from crawler.operator_commands import (
    ALL_HOSTS,
    FailedDropped,
    HostCommand,
    OperatorCommand,
    Retried,
)
from crawler.steering.queue_waits import PHRASES
from storage.read_records import UrlList

_BACK = re.compile(r"/hosts?(\?[!-~]{0,4000})?\Z")  # where a form may redirect to
_NUMBERS: Final = frozenset(("delay_s",))
_BULK: Final = {row.name.removeprefix("host_"): row for row in COMMANDS if BULK_FORM in row.forms}
STATES: Final = (
    ("all", "any"),
    ("queued", "with queued URLs"),
    ("waiting", "waiting"),
    ("paused", "paused"),
    ("slowed", "slowed"),
    ("backing-off", "backing off"),
    ("failing", "with failures"),
    ("done", "done"),
)
REASONS: Final = (("", "anything"), *((one.value, one.value.replace("-", " ")) for one in PHRASES))
_DEFAULTS: Final = {"search": "", "state": "all", "reason": ""}


class CommandForms(PageHandlers):
    """Handlers of the forms."""

    def routes(self) -> list[web.RouteDef]:
        """The routes of all forms that have no page of their own."""
        found = {path: (row, said) for row in COMMANDS for path, said in row.forms.items() if said}
        del found[BULK_FORM]
        one_by_one = [web.post(path, self._handler(path, *each)) for path, each in found.items()]
        return [*one_by_one, web.post(BULK_FORM, self._steer)]

    def _handler(
        self, path: str, row: CommandRow, said: str
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            form = await form_of(request)
            if path.startswith("/host/") and not form.get("host"):  # it would apply to all hosts
                raise invalid("host", "must name a host")
            result = await self.operations.execute(_command_of(row, form))
            raise _after(path, form, said, result)

        return handle

    async def _steer(self, request: web.Request) -> web.Response:
        """Show what a command would do to the chosen hosts, or to all that match; with `confirmed`,
        do it."""
        form = await form_of(request)
        row = _BULK.get(form.get("command", ""))
        if row is None:
            raise invalid("command", f"must be one of {', '.join(_BULK)}")
        command = await _bulk_command_of(request, row, form)
        if "confirmed" not in form:
            return await self._preview(request, form, command)
        done = await self.operations.execute(command)
        raise _back({**form, "host": counted(done.hosts, "host")}, row.forms[BULK_FORM])

    async def _preview(
        self, request: web.Request, form: Mapping[str, str], command: HostCommand
    ) -> web.Response:
        found = await self.operations.execute(structs.replace(command, dry_run=True))
        back = form.get("back", "")
        values = {
            "verb": form["command"],
            "delay_s": structs.asdict(command).get("delay_s"),
            "chosen": command.hosts,
            "fields": filter_of(form),
            "found": found,
            "more": found.hosts - len(found.names),
            "selected": command.selection if command.selects else "",
            "back": back if _BACK.match(back) else "/hosts",
            "live": False,
        }
        return await self.page(request, "hosts", values, template="steer_hosts")


def _command_of(row: CommandRow, form: Mapping[str, str], **values: Any) -> OperatorCommand[Any]:
    """The command with the fields of a form, and other values. Raises Problem."""
    for name in row.command.__struct_fields__:
        if name in _NUMBERS:
            values[name] = number_in(form, name)
        elif text := form.get(name, "").strip():
            values.setdefault(name, text)
    with as_problems():
        return row.command(**values)


async def _bulk_command_of(
    request: web.Request, row: CommandRow, form: Mapping[str, str]
) -> HostCommand:
    """The command about the chosen hosts, or about all that match the filter. Raises Problem."""
    named = [one for one in (await request.post()).getall("host", []) if isinstance(one, str)]
    numbers = {name: form[name] for name in _NUMBERS if name in form}
    if form.get("which") != "all":
        if not named:
            raise invalid("host", "choose at least one host")
        command = _command_of(row, numbers, hosts=tuple(named))
    else:
        wanted = {name: text for name, text in conditions(filter_of(form)).items() if text}
        if wanted == {"state": "all"}:
            wanted["pattern"] = ALL_HOSTS
        command = _command_of(row, numbers, **wanted)
    assert isinstance(command, HostCommand)
    return command


def _after(path: str, form: Mapping[str, str], said: str, result: object) -> web.HTTPSeeOther:
    """The redirect after a form, to the page with what it changed."""
    if path.startswith("/host/"):
        return _back(form, said)
    query = {"said": said}
    if path.startswith("/urls/"):
        assert isinstance(result, Retried | FailedDropped)
        count = result.retried if isinstance(result, Retried) else result.dropped
        host = form.get("host", "").strip()
        query |= {"state": str(UrlList.FAILED), "host": host, "number": counted(count, "URL")}
        return web.HTTPSeeOther(link("/urls", query))
    return web.HTTPSeeOther(link("/", query))


def _back(form: Mapping[str, str], said: str) -> web.HTTPSeeOther:
    """The redirect back to the page with the form."""
    back = form.get("back", "")
    path = back if _BACK.match(back) else "/hosts"
    query = link("", {"said": said, "host": form.get("host", "")})
    return web.HTTPSeeOther(path + (query.replace("?", "&", 1) if "?" in path else query))


def filter_of(query: Mapping[str, object]) -> dict[str, str]:
    """The fields of the filter in a query or form, with their defaults."""
    found = {}
    for name, default in _DEFAULTS.items():
        given = query.get(name)
        found[name] = given.strip() or default if isinstance(given, str) else default
    return found


def is_filtered(fields: Mapping[str, str]) -> bool:
    """Return whether a filter leaves out any host."""
    return any(fields[name] != default for name, default in _DEFAULTS.items())


def conditions(fields: Mapping[str, str]) -> dict[str, str]:
    """The arguments of `Operations.hosts` for a filter. A search with `*` is a host pattern."""
    search = fields["search"]
    name = "pattern" if "*" in search else "search"
    return {name: search, "state": fields["state"], "reason": fields["reason"]}
