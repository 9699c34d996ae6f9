"""The web of one attack, as a process of its own.

    python -m tests.neighbours.server ATTACK [CERTIFICATE KEY]

Prints its port and serves until its standard input ends. Then it prints as JSON how many pages each
host was asked for, and for how long, at most, a request for an attack was in progress.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections import Counter

from tests.neighbours.attacks import ATTACKS, PORT, Attack, Target, page, sized


class Web:
    """Serves each connection in a thread of its own."""

    def __init__(self, attack: Attack, context: ssl.SSLContext | None) -> None:
        self._attack = attack
        self._context = context
        self.pages: Counter[str] = Counter()
        self.longest_s = 0.0

    def serve(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._connection, args=(connection,), daemon=True).start()

    def _connection(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            if self._attack.deaf:
                while connection.recv(65_536):
                    pass
            received = b""
            while data := connection.recv(65_536):
                received += data
                while b"\r\n\r\n" in received:
                    head, _, received = received.partition(b"\r\n\r\n")
                    if not self._answer(connection, head):
                        return

    def _answer(self, connection: socket.socket, head: bytes) -> bool:
        """Answer a request. Returns whether the connection may serve another."""
        path = head.split(b" ")[1].decode()
        host = head.partition(b"\r\nHost: ")[2].partition(b"\r\n")[0].decode().partition(":")[0]
        if path == "/robots.txt" and self._attack.target is not Target.ROBOTS:
            scheme = "http" if self._context is None else "https"
            port = connection.getsockname()[1]
            maps = range(50 if self._attack.target is Target.SITEMAP else 0)
            lines = [f"Sitemap: {scheme}://{host}:{port}/sitemap/{n}.xml\n" for n in maps]
            kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
            connection.sendall(sized("".join(lines).encode(), kind=kind))
            return True
        attacked = {
            Target.PAGE: path != "/",
            Target.ROBOTS: path == "/robots.txt",
            Target.SITEMAP: path.startswith("/sitemap"),
        }[self._attack.target]
        self.pages[host] += not path.endswith((".txt", ".xml"))
        if not attacked:
            for piece in page(path):
                assert isinstance(piece, bytes)
                connection.sendall(piece)
            return True
        started_s = time.monotonic()
        try:
            self._send(connection, path)
        finally:
            self.longest_s = max(self.longest_s, time.monotonic() - started_s)
        return self._attack is ATTACKS["none"] or self._attack is ATTACKS["garbage-after"]

    def _send(self, connection: socket.socket, path: str) -> None:
        port = b"%d" % connection.getsockname()[1]
        for piece in self._attack.pieces(path):
            if isinstance(piece, bytes) and PORT in piece:
                piece = piece.replace(PORT, port)
            if isinstance(piece, float):
                connection.settimeout(piece)
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(1):
                        raise ConnectionResetError  # the client has closed it
                connection.settimeout(None)
            elif size := self._attack.record_bytes:
                for at in range(0, len(piece), size):
                    connection.send(piece[at : at + size])
            else:
                connection.sendall(piece)
        if self._attack is ATTACKS["resets"]:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self._attack is not ATTACKS["none"]:
            # Without the wait, unread data would be lost with a reset.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):
                    pass


def main(name: str, certificate: str = "", key: str = "") -> None:
    attack = ATTACKS[name]
    context = None
    if attack.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
    web = Web(attack, context)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        _say(listener.getsockname()[1])
        threading.Thread(target=web.serve, args=(listener,), daemon=True).start()
        sys.stdin.read()
        _say(json.dumps({"pages": web.pages, "longest_s": web.longest_s}))


def _say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
