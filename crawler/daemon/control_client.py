"""A client of the crawl that holds a database, over the local socket. It needs neither aiohttp nor
an event loop, so that commands start quickly."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from crawler.daemon.problem import Problem
from storage.socket_path import short_name, socket_path

ANSWER_S = 75.0  # a polite fetch of robots.txt takes up to a minute
ANSWER_BYTES_MAX = 64_000_000


class NobodyAnswersError(Exception):
    """No crawl holds this database, or it has no socket."""


class _UnixConnection(http.client.HTTPConnection):
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
    """Call a route and return its JSON. Raises NobodyAnswersError, and Problem for an error
    response."""
    connection = _UnixConnection(socket_path(database))
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
        raise NobodyAnswersError("the socket belongs to another program")
    if response.status >= 400:
        raise Problem(
            response.status,
            str(answer.get("detail", response.reason)),
            field=None if answer.get("field") is None else str(answer["field"]),
            problems=[str(one) for one in answer.get("problems", ())],
        )
    return answer
