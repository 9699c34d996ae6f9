"""Decodes content codings a bounded piece at a time, and detects truncated streams.

aiohttp's own decompression is not used: it accepts a truncated gzip, br or zstd stream as complete,
and allocates whatever window size a zstd stream demands.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

try:
    import brotli  # type: ignore[import-untyped]
except ImportError:  # pragma: no cover - aiohttp[speedups] brings it
    brotli = None
try:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    try:
        from backports import zstd
    except ImportError:  # pragma: no cover - aiohttp[speedups] brings it
        zstd = None

# A stream may consist of several members; each costs a copy of the input that follows it.
MEMBERS_MAX: Final = 256
# RFC 9659: as a content coding, zstd has a window of at most 8 MB.
ZSTD_WINDOW_LOG_MAX: Final = 23


class DecodingError(Exception):
    """The body does not match its Content-Encoding; the message is a sentence for people."""


class ContentDecoder(Protocol):
    def feed(self, data: bytes, bytes_max: int) -> bytes:
        """Decode at most about `bytes_max` bytes.

        Fewer mean that all input is used up; otherwise `feed(b"", ...)` may return more. Raises
        DecodingError.
        """
        ...

    def finish(self) -> None:
        """End the input. Raises DecodingError if the stream is not complete."""
        ...


class _Decompressor(Protocol):
    """The common interface of the decompressors of zlib and zstd."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Members:
    """gzip, deflate, zstd: one or more members, then perhaps padding, which is ignored."""

    coding = ""
    magic = b""  # of each further member; b"": there is only one
    errors: tuple[type[Exception], ...] = (zlib.error,)

    def __init__(self) -> None:
        self._stream: _Decompressor | None = None
        self._input = b""
        self._count = 0
        self._done = False

    def decompressor(self, data: bytes) -> _Decompressor:
        """A decompressor for the member that begins with `data`."""
        raise NotImplementedError

    def feed(self, data: bytes, bytes_max: int) -> bytes:
        pieces: list[bytes] = []
        left = bytes_max
        if self._input:
            data = self._input + data
            self._input = b""
        while left > 0 and not self._done:
            stream = self._stream or self._next(data)
            if stream is None:
                break
            try:
                piece = stream.decompress(data, left)
            except self.errors as exc:
                raise DecodingError(f"the body is not valid {self.coding}") from exc
            pieces.append(piece)
            left -= len(piece)
            if not stream.eof:
                # zlib returns the input it did not use; zstd keeps it.
                data = getattr(stream, "unconsumed_tail", b"")
                break
            data = stream.unused_data
            self._stream = None
        if data and not self._done:
            self._input = data
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _next(self, data: bytes) -> _Decompressor | None:
        """Start the next member. Returns None if there is none, or too little to tell."""
        if self._count:
            if not self.magic or not self.magic.startswith(data[: len(self.magic)]):
                self._done = True
                return None
            if len(data) < len(self.magic):
                return None
        elif not data:
            return None
        self._count += 1
        if self._count > MEMBERS_MAX:
            raise DecodingError(f"the body has more than {MEMBERS_MAX} {self.coding} members")
        self._stream = self.decompressor(data)
        return self._stream

    def finish(self) -> None:
        if self._stream is not None:
            raise DecodingError(f"the {self.coding} body is incomplete")


class _Gzip(_Members):
    coding = "gzip"
    magic = b"\x1f\x8b"

    def decompressor(self, data: bytes) -> _Decompressor:
        return zlib.decompressobj(16 + zlib.MAX_WBITS)


class _Deflate(_Members):
    coding = "deflate"

    def decompressor(self, data: bytes) -> _Decompressor:
        # RFC 9110, 8.4.1.2 requires zlib; some send raw deflate. The only method of zlib is 8.
        return zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)


class _Zstd(_Members):
    coding = "zstd"
    magic = b"\x28\xb5\x2f\xfd"
    errors = () if zstd is None else (zstd.ZstdError,)

    def decompressor(self, data: bytes) -> Any:
        parameter = zstd.DecompressionParameter.window_log_max
        return zstd.ZstdDecompressor(options={parameter: ZSTD_WINDOW_LOG_MAX})


class _Brotli:
    __slots__ = ("_stream", "_used")

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._used = False

    def feed(self, data: bytes, bytes_max: int) -> bytes:
        stream = self._stream
        if not self._used:
            if not data:
                return b""
            self._used = True
        if stream.is_finished():
            if data:
                raise DecodingError("the br body continues after its end")
            return b""
        try:
            piece: bytes = stream.process(data, output_buffer_limit=bytes_max)
            while len(piece) < bytes_max and not stream.can_accept_more_data():
                piece += stream.process(b"", output_buffer_limit=bytes_max - len(piece))
        except brotli.error as exc:
            raise DecodingError("the body is not valid br") from exc
        return piece

    def finish(self) -> None:
        if self._used and not self._stream.is_finished():
            raise DecodingError("the br body is incomplete")


_DECODERS: Final[dict[str, Callable[[], ContentDecoder]]] = {"gzip": _Gzip, "deflate": _Deflate}
# Before 1.2 brotli cannot limit its output: br is then not offered in Accept-Encoding.
if brotli is not None and hasattr(brotli.Decompressor, "can_accept_more_data"):
    _DECODERS["br"] = _Brotli
if zstd is not None:
    _DECODERS["zstd"] = _Zstd

ACCEPT_ENCODING: Final = ", ".join(_DECODERS)


def decoder_for(content_encoding: Iterable[str]) -> ContentDecoder | None:
    """The decoder for the values of Content-Encoding; None if the body is not encoded.

    Unknown codings (`utf-8`, `none`) are ignored, as in browsers. Raises DecodingError for a body
    encoded more than once.
    """
    codings = [c.strip().lower() for value in content_encoding for c in value.split(",")]
    known = [c for c in (c.removeprefix("x-") for c in codings) if c in _DECODERS]
    if not known:
        return None
    if len(known) > 1:
        raise DecodingError(f"the body is encoded more than once ({', '.join(known)})")
    return _DECODERS[known[0]]()
