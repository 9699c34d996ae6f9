"""A body read to its end or its bound, decoded on the way, never more of it in memory than that."""

from __future__ import annotations

import asyncio
from typing import Final

from crawler.decoding import Decoder, decoder_for
from crawler.direct import Reply
from crawler.exchange import Exchange
from crawler.request import Request

# Decoded in one go, between which other tasks may run.
STEP_BYTES: Final = 1_000_000


class OversizeError(Exception):
    """The body passed its bound."""


class BrokenOffError(Exception):
    """The connection broke under a body that would have ended with it."""


async def read_body(response: Reply, request: Request, exchange: Exchange) -> tuple[bytes, bool]:
    """The body, and whether it is cut.

    Raises OversizeError, BrokenOffError, DecodingError, and what aiohttp raises.
    """
    headers = response.headers
    decoder: Decoder | None = None
    if "Content-Encoding" in headers:
        decoder = decoder_for(headers.getall("Content-Encoding"))
    bytes_max = exchange.limits.body_bytes_max
    if decoder is None and not request.cut_ok:
        length = headers.get("Content-Length", "0")
        if length.isdecimal() and int(length[:20]) > bytes_max:
            raise OversizeError
    pieces: list[bytes] = []
    left = bytes_max
    content = response.content
    while piece := await content.readany():
        if decoder is None:
            pieces.append(piece)
            left -= len(piece)
        else:
            left = await _decode(decoder, piece, pieces, left)
            if left >= 0 and content.total_bytes > bytes_max + STEP_BYTES:
                raise OversizeError  # a stream that says nothing at length
        if left < 0:
            if not request.cut_ok:
                raise OversizeError
            return b"".join(pieces)[:bytes_max], True
    if exchange.broken:
        raise BrokenOffError
    if decoder is not None:
        decoder.finish()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces), False


async def _decode(decoder: Decoder, data: bytes, pieces: list[bytes], left: int) -> int:
    """Append what `data` decodes to; what is left of `left`, negative once it is passed."""
    while True:
        step = min(left + 1, STEP_BYTES)
        piece = decoder.feed(data, step)
        if piece:
            pieces.append(piece)
            left -= len(piece)
        if left < 0 or len(piece) < step:
            return left
        data = b""
        await asyncio.sleep(0)
