"""`courtly robots batch`: verdicts on many URLs, as JSON lines."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from crawler.cli.exit_codes import FAILED, print_problems
from crawler.cli.robots.url_checks import invalid_url
from crawler.cli.text import bytes_out
from crawler.config.readers import did_you_mean
from crawler.explain.formatting import counted
from policies import robots
from policies.robots import RobotsFile

LINE_BYTES_MAX = 16_000_000  # of input; only the first 500 KiB of a robots.txt count
FILES_MAX = 512  # parsed files that are cached for lines that repeat them
FILES_BYTES_MAX = 16_000_000  # of their text; a parsed file takes up to ten times as much
_CHUNK_BYTES = 1 << 16


class _Question(msgspec.Struct, forbid_unknown_fields=True):
    """One line of input."""

    url: str
    robots: str | None = None
    robots_b64: bytes | None = None
    agent: str | list[str] | None = None
    dialect: str | list[str] | None = None


class _Answer(msgspec.Struct):
    allowed: bool
    rule: str | None
    line: int | None


class _Error(msgspec.Struct):
    error: str


class ParsedFileCache:
    """The parsed files that were used last, by their text; bounded in number and bytes."""

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


class BatchAnswers:
    """Answers lines of input, and counts in `errors` those answered with an error."""

    def __init__(self, *, agents: Sequence[str], dialects: Sequence[str]) -> None:
        self._agents = tuple(agents)
        self._dialects = tuple(dialects)
        self._files = ParsedFileCache()
        self._decode = msgspec.json.Decoder(_Question).decode
        self._encode = msgspec.json.Encoder().encode
        self.errors = 0

    def answer(self, line: bytes) -> bytes:
        """Answer one line of JSON; neither line includes its line end."""
        try:
            return self._encode(self._verdict(line))
        except RecursionError:
            self.errors += 1
            return self._encode(_Error("the line is nested too deeply"))
        except ValueError as error:  # invalid JSON, unknown dialect
            self.errors += 1
            return self._encode(_Error(_sentence(error)))

    def _verdict(self, line: bytes) -> _Answer:
        question = self._decode(line)
        text = question.robots if question.robots_b64 is None else question.robots_b64
        if text is None:
            raise ValueError('either "robots" or "robots_b64" is required')
        if question.robots is not None and question.robots_b64 is not None:
            raise ValueError('"robots" and "robots_b64" cannot both be given')
        if "://" not in question.url and not question.url.startswith("/"):
            raise ValueError(invalid_url(question.url))
        agents = self._agents if question.agent is None else question.agent
        if not agents or not all(agents):
            raise ValueError('"agent" must name a crawler')
        dialects = self._dialects if question.dialect is None else question.dialect
        verdict = self._files.parsed(text).decide(question.url, agent=agents, dialect=dialects)
        rule = verdict.deciding
        if rule is None:
            return _Answer(verdict.allowed, None, None)
        return _Answer(verdict.allowed, rule.quote, rule.line)


def _sentence(error: ValueError) -> str:
    if isinstance(error, msgspec.ValidationError):
        if unknown := re.search(r"unknown field `(.*)`", str(error), re.DOTALL):
            hint = did_you_mean(unknown[1], _Question.__struct_fields__)
            return f'there is no key "{unknown[1]}"{hint}'
        return f"the line is invalid: {error}"
    invalid = isinstance(error, msgspec.DecodeError)
    return f"the line is not valid JSON: {error}" if invalid else str(error)


def lines_of(stream: BinaryIO) -> Iterator[list[bytes | None]]:
    """The lines received so far, without waiting for more; None for one over LINE_BYTES_MAX."""
    read = getattr(stream, "read1", stream.read)
    kept: list[bytes] = []  # of a line that is incomplete
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
    """Answer all of standard input on standard output. Raises SystemExit(1) if any line had an
    error."""
    answers = BatchAnswers(agents=agents, dialects=dialects)
    out = bytes_out()
    too_long = msgspec.json.encode(_Error(f"the line has more than {LINE_BYTES_MAX:,} bytes"))
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
        out.flush()  # the other side may wait for answers before it sends more
    if answers.errors:
        print_problems(f"{answers.errors:,} of {counted(count, 'line')} could not be answered")
        raise SystemExit(FAILED)
