"""Reads bodies up to their end or their limit, decoding them on the way."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from crawler.fetching.content_coding import ContentDecoder, decoder_for
from crawler.fetching.direct import RawResponse
from crawler.fetching.exchange import Exchange
from crawler.fetching.request import BodyPlace, BodySink, Headers, OversizeError, Request

# Decoded without giving other tasks a chance to run.
STEP_BYTES: Final = 1_000_000
# By how much a body for a sink may decode to less than was received. The sink limits its size.
WIRE_BYTES_MAX: Final = 64_000_000
WAIT_SHARE: Final = 0.5  # of a request's time, for which it may wait for memory in addition
PIECE_BYTES: Final = 65_536  # maximum size of one piece of an encoded body for a sink


class BrokenOffError(Exception):
    """The connection was lost in a body whose end the closing of the connection marks."""


class SinkFaultError(Exception):
    """A BodySink raised the exception that is its cause: not a network error."""


async def read_body(
    response: RawResponse, request: Request, exchange: Exchange
) -> tuple[bytes, bool]:
    """Read a body. Returns it and whether it was cut.

    Raises OversizeError, BrokenOffError, DecodingError, NoPlaceError, and aiohttp's exceptions.
    """
    headers = response.headers
    decoder = _decoder(headers)
    bytes_max = most_bytes = exchange.limits.body_bytes_max
    if decoder is None and not request.cut_ok:
        length = headers.get("Content-Length", "")
        if length.isdecimal():
            most_bytes = int(length[:20])
            if most_bytes > bytes_max:
                raise OversizeError
    pieces: list[bytes] = []
    left = bytes_max
    room, place = None, request.place
    if place is not None and place.size_bytes < most_bytes:
        room = _Room(place, most_bytes, exchange)
        if most_bytes < bytes_max:
            await room.extend(room.ends_at + 1)  # before anything of it is in memory
    content = response.content
    while piece := await content.readany():
        if decoder is None:
            pieces.append(piece)
            left -= len(piece)
            if room is not None and room.ends_at < bytes_max - left <= bytes_max:
                await room.extend(bytes_max - left)
        else:
            left = await _decode(decoder, piece, pieces, left, room, bytes_max)
            if left >= 0 and content.total_bytes > bytes_max + STEP_BYTES:
                raise OversizeError  # a long stream that decodes to little
        if left < 0:
            if not request.cut_ok:
                raise OversizeError
            return b"".join(pieces)[:bytes_max], True
        if content.at_eof():
            break  # without another call of readany()
    if exchange.broken:
        raise BrokenOffError
    if decoder is not None:
        decoder.finish()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), False


class _Room:
    """The place of a body that is being read, which grows with it."""

    __slots__ = ("_exchange", "_most_bytes", "_place", "_waited_s", "ends_at")

    def __init__(self, place: BodyPlace, most_bytes: int, exchange: Exchange) -> None:
        self._place = place
        self._most_bytes = most_bytes
        self._exchange = exchange
        self._waited_s = 0.0
        self.ends_at = place.size_bytes

    async def extend(self, size_bytes: int) -> None:
        """Wait until the body may have this size. Nothing is read meanwhile, so no deadline of the
        network's passes. All such waits together may take WAIT_SHARE of the request's time."""
        exchange = self._exchange
        wait_s = WAIT_SHARE * exchange.limits.timeout_s - self._waited_s
        exchange.pause()
        began_s = exchange.now_s
        try:
            await self._place.grow(size_bytes, most_bytes=self._most_bytes, wait_s=wait_s)
        finally:
            self._waited_s += exchange.now_s - began_s
            exchange.resume()
        self.ends_at = self._place.size_bytes


async def pour_body(
    response: RawResponse, request: Request, sink: BodySink, exchange: Exchange
) -> tuple[int, bool]:
    """Pass a body to a sink in pieces.

    Returns the number of bytes and whether the sink wanted no more. Raises as `read_body`, and
    SinkFaultError.
    """
    poured = 0
    place = request.place
    room = None if place is None else _Room(place, exchange.limits.body_bytes_max, exchange)
    decoder = _decoder(response.headers)
    content = response.content
    while data := await content.readany():
        if content.total_bytes - poured > WIRE_BYTES_MAX:
            raise OversizeError  # a long stream that decodes to little
        piece = data if decoder is None else decoder.feed(data, PIECE_BYTES)
        while piece:
            poured += len(piece)
            if not await _take(sink, piece):
                await _end(sink)
                return poured, True
            if room is not None and sink.kept_bytes > room.ends_at:
                await room.extend(sink.kept_bytes)
            if (sink.timeout_s or 0.0) > exchange.limits.timeout_s:
                exchange.limits = replace(exchange.limits, timeout_s=sink.timeout_s or 0.0)
            if decoder is None or len(piece) < PIECE_BYTES:
                break
            piece = decoder.feed(b"", PIECE_BYTES)
    if exchange.broken:
        raise BrokenOffError
    if decoder is not None:
        decoder.finish()
    await _end(sink)
    return poured, False


async def _take(sink: BodySink, piece: bytes) -> bool:
    try:
        return await sink.take(piece)
    except OversizeError:
        raise
    except Exception as error:
        raise SinkFaultError from error


async def _end(sink: BodySink) -> None:
    try:
        await sink.end()
    except OversizeError:
        raise
    except Exception as error:
        raise SinkFaultError from error


def _decoder(headers: Headers) -> ContentDecoder | None:
    if "Content-Encoding" not in headers:
        return None
    return decoder_for(headers.getall("Content-Encoding"))


async def _decode(
    decoder: ContentDecoder,
    data: bytes,
    pieces: list[bytes],
    left: int,
    room: _Room | None,
    bytes_max: int,
) -> int:
    """Decode `data` into `pieces`. Returns what remains of `left`, negative beyond the limit."""
    while True:
        step = min(left + 1, STEP_BYTES)
        piece = decoder.feed(data, step)
        if piece:
            pieces.append(piece)
            left -= len(piece)
            if room is not None and room.ends_at < bytes_max - left <= bytes_max:
                await room.extend(bytes_max - left)
        if left < 0 or len(piece) < step:
            return left
        data = b""
        await asyncio.sleep(0)
