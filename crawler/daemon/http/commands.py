"""Commands among the requests: who gives them, and a log event for those that are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web

from crawler.command_table import name_of
from crawler.config.secrets import HIDDEN
from crawler.daemon.actor import API, PAGE, Actor, acting, behind_socket
from crawler.daemon.monitoring.access_log import AccessLog
from crawler.daemon.problem import Problem
from crawler.front_door.request_handler import ON_SOCKET
from storage.store import StoreError

CREDENTIAL_CHARS: Final = 8  # shorter strings may be part of our own words

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# For access control: the name of the token, and the client's address behind proxies.
ACTOR_NAME: Final[web.RequestKey[str]] = web.RequestKey("actor_name", str)
ACTOR_PEER: Final[web.RequestKey[str]] = web.RequestKey("actor_peer", str)
# A refusal that a page shows among others, instead of raising it.
REFUSAL: Final[web.RequestKey[str]] = web.RequestKey("refusal", str)


def command_in(request: web.Request) -> str:
    """The name of the command in a request that changes the crawl, if it is granted; "" in
    others."""
    if request.method != hdrs.METH_POST or request.query.get("dry_run") in ("1", "true"):
        return ""
    return name_of(request.path)


def actor_of(request: web.Request, *, local: bool) -> Actor:
    """Return who sent a request. local: through the Unix socket."""
    if local and request.transport is not None:
        return behind_socket(request.transport.get_extra_info("socket"))
    via = API if request.path.startswith("/api/") else PAGE
    name, peer = request.get(ACTOR_NAME, ""), request.get(ACTOR_PEER, request.remote or "")
    if peer == ON_SOCKET and request.transport is not None:
        found = behind_socket(request.transport.get_extra_info("socket"))
        return Actor(name=name or found.name, peer=found.peer, via=via)
    return Actor(name=name, peer=peer, via=via)


async def answered(
    request: web.Request, handler: Handler, access: AccessLog, *, local: bool
) -> web.StreamResponse:
    """Run a handler for whoever sent the request. A command that is refused or fails is logged to
    `access`."""
    with acting(actor_of(request, local=local)):
        if not (name := command_in(request)):
            return await handler(request)
        why = ""
        try:
            return await handler(request)
        except Problem as problem:
            why = "; ".join(problem.problems) or problem.detail
            raise
        except web.HTTPException as answer:
            why = answer.reason if answer.status >= 400 else ""
            raise
        except StoreError as error:
            why = str(error)
            raise
        except Exception as error:
            why = f"failed: {type(error).__name__}"
            raise
        finally:
            if why := why or request.get(REFUSAL, ""):
                access.refused(name, _without_credentials(request, why))


def route_of(request: web.Request) -> str:
    """The route of a request, without anything that the client wrote: "" if there is none."""
    resource = request.match_info.route.resource
    if resource is None or resource.canonical.startswith("/{tail"):
        return ""
    return resource.canonical


def _without_credentials(request: web.Request, why: str) -> str:
    """A refusal may quote what was sent, even a token or the name of a session."""
    given = [*request.cookies.values(), *request.headers.get(hdrs.AUTHORIZATION, "").split(" ", 1)]
    for one in given:
        if len(one) >= CREDENTIAL_CHARS:
            why = why.replace(one, HIDDEN)
    return why
