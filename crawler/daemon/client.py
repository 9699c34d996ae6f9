"""Asking the crawl that holds a database, through the socket beside it. Needs neither aiohttp nor
an event loop: a command that asks once starts quickly."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from crawler.daemon.problem import Problem
from crawler.daemon.socket_path import short_name, socket_path

ANSWER_S = 75.0  # robots.txt is asked for at its host's turn, for at most a minute
ANSWER_BYTES_MAX = 64_000_000


class NobodyAnswersError(Exception):
    """No crawl holds this database, or it has no socket."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(self.timeout)
        with short_name(self._path) as name:
            self.sock.connect(name)


def ask(
    database: Path,
    method: str,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
) -> Mapping[str, object]:
    """The JSON that a route answers with. Raises NobodyAnswersError, and the Problem that the route
    answered with."""
    connection = _Connection(socket_path(database))
    raw = None if body is None else json.dumps(body).encode()
    headers = {} if raw is None else {"Content-Type": "application/json"}
    try:
        where = path + (f"?{urlencode(query)}" if query else "")
        connection.request(method, where, body=raw, headers=headers)
        response = connection.getresponse()
        answer = json.loads(response.read(ANSWER_BYTES_MAX))
    except TimeoutError:
        raise Problem(504, "the crawl that holds the database does not answer") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NobodyAnswersError(str(error)) from None
    finally:
        connection.close()
    if not isinstance(answer, dict):
        raise NobodyAnswersError("what answers there is no crawl")
    if response.status >= 400:
        raise Problem(
            response.status,
            str(answer.get("detail", response.reason)),
            field=None if answer.get("field") is None else str(answer["field"]),
        )
    return answer
