"""Commands to a running crawl, from the API or the page: what is refused, and what is delayed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from crawler.clock import Clock
from crawler.config import ConfigError
from crawler.daemon.api.settings_list import without_folder
from crawler.daemon.problem import Problem, as_problems
from crawler.front_door.tls import Certificate, CertificateError
from crawler.operator_commands import CrawlState, OperatorCommand, Reloaded, Result
from crawler.steering.control import Control

COMMAND_WAIT_S = 5.0  # for an unavailable database, before the request is answered
NEW_CERTIFICATE: Final = "daemon.tls_certificate: another certificate, for new connections"
_LATER: Final = (
    "the command is kept and runs when the database is available again, unless the crawl ends "
    "first; do not repeat it"
)


async def carried_out(control: Control, command: OperatorCommand[Result]) -> Result:
    """The result of a command. Raises Problem."""
    base = control.config.given.base
    try:
        with as_problems():
            result = await _in_time(control, command)
    except ConfigError as error:
        problems = tuple(without_folder(each, base) for each in error.problems)
        title = "the config is not valid"
        raise Problem(422, "; ".join(problems), title=title, problems=problems) from None
    if isinstance(result, Reloaded):
        warnings = tuple(without_folder(each, base) for each in result.warnings)
        return structs.replace(result, warnings=warnings)
    return result


async def _in_time(control: Control, command: OperatorCommand[Result]) -> Result:
    """Raises Problem where the database delays a command: it stays pending then, and runs when the
    database is available again."""
    doing = asyncio.ensure_future(control.execute(command))
    try:
        while not (await asyncio.wait({doing}, timeout=COMMAND_WAIT_S))[0]:
            trouble = control.store_trouble
            if trouble is not None and control.state is not CrawlState.STOPPING:
                doing.add_done_callback(lambda late: late.cancelled() or late.exception())
                raise Problem(503, f"{trouble.sentence}; {_LATER}")
    except asyncio.CancelledError:
        doing.cancel()  # a step that has begun is a task of the crawl, and is not cut short
        raise
    return doing.result()


class CertificateReload:
    """Renews the certificate of the page with each reload of the config."""

    def __init__(self, certificate: Certificate, clock: Clock) -> None:
        self._certificate = certificate
        self._clock = clock

    def problems(self) -> Sequence[str]:
        try:
            self._certificate.changed()
        except CertificateError as error:
            return [f"daemon.tls_certificate: {error}"]
        return []

    def reload(self, done: Reloaded) -> Reloaded:
        changes: Sequence[str] = ()
        try:
            if self._certificate.changed():
                if not done.dry_run:
                    self._certificate.renew()
                changes = [NEW_CERTIFICATE]
            warnings = self._certificate.warnings(datetime.fromtimestamp(self._clock.wall(), UTC))
        except CertificateError as error:  # replaced at this very moment
            changes = ()
            warnings = (f"daemon.tls_certificate: {error}; the previous one stays in use",)
        return structs.replace(
            done, changes=(*done.changes, *changes), warnings=(*done.warnings, *warnings)
        )
