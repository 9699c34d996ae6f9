"""`courtly robots batch`: verdicts by the thousand, JSON lines in and out."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from crawler.cli.errors import FAILED, tell
from crawler.cli.robots.check import no_url
from crawler.cli.text import bytes_out
from crawler.config.readers import did_you_mean
from crawler.telling.words import counted
from policies import robots
from policies.robots import RobotsFile

LINE_BYTES_MAX = 16_000_000  # of a request; robots.txt files are used to 500 KiB
FILES_MAX = 512  # parsed files kept for lines that repeat them
FILES_BYTES_MAX = 16_000_000  # of their text; parsed, hostile ones take ten times as much
_CHUNK_BYTES = 1 << 16


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    """One line of input."""

    url: str
    robots: str | None = None
    robots_b64: bytes | None = None
    agent: str | list[str] | None = None
    dialect: str | list[str] | None = None


class _Verdict(msgspec.Struct):
    allowed: bool
    rule: str | None
    line: int | None


class _Error(msgspec.Struct):
    error: str


class Files:
    """Parsed files by their text, the latest kept; bounded in number and bytes."""

    def __init__(self) -> None:
        self._files: OrderedDict[str | bytes, RobotsFile] = OrderedDict()
        self._bytes = 0

    def parsed(self, text: str | bytes) -> RobotsFile:
        file = self._files.get(text)
        if file is not None:
            self._files.move_to_end(text)
            return file
        body = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        file = self._files[text] = robots.parse(body)
        self._bytes += len(body)
        while len(self._files) > FILES_MAX or self._bytes > FILES_BYTES_MAX:
            _, dropped = self._files.popitem(last=False)
            self._bytes -= len(dropped.source.body)
        return file


class Answers:
    """Answers lines, remembering the files in them; `errors` counts those it could not answer."""

    def __init__(self, *, agents: Sequence[str], dialects: Sequence[str]) -> None:
        self._agents = tuple(agents)
        self._dialects = tuple(dialects)
        self._files = Files()
        self._decode = msgspec.json.Decoder(_Asked).decode
        self._encode = msgspec.json.Encoder().encode
        self.errors = 0

    def answer(self, line: bytes) -> bytes:
        """One line of JSON, without its line end."""
        try:
            return self._encode(self._verdict(line))
        except RecursionError:
            self.errors += 1
            return self._encode(_Error("this line is nested too deeply"))
        except ValueError as error:  # no JSON, no such dialect
            self.errors += 1
            return self._encode(_Error(_sentence(error)))

    def _verdict(self, line: bytes) -> _Verdict:
        asked = self._decode(line)
        text = asked.robots if asked.robots_b64 is None else asked.robots_b64
        if text is None:
            raise ValueError('one of "robots" and "robots_b64" is needed')
        if asked.robots is not None and asked.robots_b64 is not None:
            raise ValueError('"robots" and "robots_b64" cannot both be given')
        if "://" not in asked.url and not asked.url.startswith("/"):
            raise ValueError(no_url(asked.url))
        agents = self._agents if asked.agent is None else asked.agent
        if not agents or not all(agents):
            raise ValueError('"agent" must name a crawler')
        dialects = self._dialects if asked.dialect is None else asked.dialect
        verdict = self._files.parsed(text).decide(asked.url, agent=agents, dialect=dialects)
        rule = verdict.deciding
        if rule is None:
            return _Verdict(verdict.allowed, None, None)
        return _Verdict(verdict.allowed, rule.quote, rule.line)


def _sentence(error: ValueError) -> str:
    if isinstance(error, msgspec.ValidationError):
        if unknown := re.search(r"unknown field `(.*)`", str(error), re.DOTALL):
            hint = did_you_mean(unknown[1], _Asked.__struct_fields__)
            return f'there is no key "{unknown[1]}"{hint}'
        return f"this line does not fit: {error}"
    return (
        f"this line is not JSON: {error}" if isinstance(error, msgspec.DecodeError) else str(error)
    )


def lines_of(stream: BinaryIO) -> Iterator[list[bytes | None]]:
    """The lines that have come in, without waiting for more; None: one beyond LINE_BYTES_MAX."""
    read = getattr(stream, "read1", stream.read)
    kept: list[bytes] = []  # of a line whose end has not come yet
    size = 0
    while chunk := read(_CHUNK_BYTES):
        *whole, rest = chunk.split(b"\n")
        found: list[bytes | None] = []
        for piece in whole:
            found.append(None if size > LINE_BYTES_MAX else b"".join((*kept, piece)))
            kept, size = [], 0
        size += len(rest)
        kept = [*kept, rest] if size <= LINE_BYTES_MAX else []
        yield found
    if size:
        yield [None if size > LINE_BYTES_MAX else b"".join(kept)]


def answer_all(*, agents: Sequence[str], dialects: Sequence[str]) -> None:
    """Answer all of standard input on standard output. SystemExit(1) if a line had no answer."""
    answers = Answers(agents=agents, dialects=dialects)
    out = bytes_out()
    too_long = msgspec.json.encode(_Error(f"this line has more than {LINE_BYTES_MAX:,} bytes"))
    count = 0
    for lines in lines_of(sys.stdin.buffer):
        for line in lines:
            if line is None:
                answers.errors += 1
                out.write(too_long + b"\n")
            elif line.strip():
                out.write(answers.answer(line) + b"\n")
            else:
                continue
            count += 1
        out.flush()  # whoever asks line by line, waits for it
    if answers.errors:
        tell(f"{answers.errors:,} of {counted(count, 'line')} could not be answered")
        raise SystemExit(FAILED)
