"""Content codings: whole, in pieces, several members, cut short, and never more than asked for."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
import zlib

import brotli  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.fetching.content_coding import (
    ACCEPT_ENCODING,
    MEMBERS_MAX,
    ContentDecoder,
    DecodingError,
    decoder_for,
)
from tests.tables import each

try:
    from compression import zstd  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    from backports import zstd


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


COMPRESS = {
    "gzip": gzip.compress, "deflate": zlib.compress, "raw deflate": raw_deflate,
    "br": brotli.compress, "zstd": zstd.compress,
}  # fmt: skip
MEMBERED = ("gzip", "zstd")


def new(coding: str) -> ContentDecoder:
    decoder = decoder_for([coding.removeprefix("raw ")])
    assert decoder is not None
    return decoder


def decode(coding: str, pieces: list[bytes], bytes_max: int = 1 << 20) -> bytes:
    decoder = new(coding)
    out = b""
    for data in pieces:
        while True:
            got = decoder.feed(data, bytes_max)
            out += got
            data = b""
            if len(got) < bytes_max:
                break
    decoder.finish()
    return out


def split(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


@pytest.mark.parametrize("coding", COMPRESS)
@given(data=st.binary(max_size=3000), size=st.integers(1, 4000), bytes_max=st.integers(1, 4000))
def test_any_split_and_any_step_give_the_same(coding, data, size, bytes_max):
    assert decode(coding, split(COMPRESS[coding](data), size), bytes_max) == data


@pytest.mark.parametrize("coding", MEMBERED)
@given(members=st.lists(st.binary(max_size=300), max_size=5), size=st.integers(1, 700))
def test_members_follow_one_another(coding, members, size):
    wire = b"".join(COMPRESS[coding](m) for m in members)
    assert decode(coding, split(wire, size)) == b"".join(members)


@each("coding", [c for c in COMPRESS if c != "br"])
@each("padding", [bytes(1), bytes(1000), b"garbage", b"\x1f", b"\x1f\x00"])
def test_lenient_padding_behind_the_stream_is_ignored(coding, padding):
    """As browsers do; the stream itself was whole."""
    assert decode(coding, [COMPRESS[coding](b"hello"), padding]) == b"hello"
    assert decode(coding, [COMPRESS[coding](b"hello") + padding]) == b"hello"


@pytest.mark.parametrize("apart", [False, True])
def test_padding_behind_br_is_not(apart):
    """Its decoder does not say where the stream ended."""
    pieces = [brotli.compress(b"hello"), b"garbage"]
    with pytest.raises(DecodingError):
        decode("br", pieces if apart else [b"".join(pieces)])


@pytest.mark.parametrize("coding", COMPRESS)
@given(data=st.binary(min_size=1, max_size=3000), at=st.floats(0, 1))
def test_every_cut_is_noticed(coding, data, at):
    wire = COMPRESS[coding](data)
    short = wire[: max(1, int(at * (len(wire) - 1)))]
    with pytest.raises(DecodingError):
        decode(coding, [short])


@pytest.mark.parametrize("coding", COMPRESS)
@given(junk=st.binary(max_size=300))
def test_junk_raises_nothing_else(coding, junk):
    with contextlib.suppress(DecodingError):
        decode(coding, [junk], 1000)


@each("coding", COMPRESS)
def test_empty_body_is_an_empty_body(coding):
    """Some servers label the empty body of a redirect."""
    assert decode(coding, []) == b""


@each("coding", MEMBERED)
def test_members_have_a_bound(coding):
    with pytest.raises(DecodingError, match="256"):
        decode(coding, [COMPRESS[coding](b"") * (MEMBERS_MAX + 1)])


@each("coding", COMPRESS)
def test_bomb_takes_no_more_memory_than_asked_for(coding):
    bomb = COMPRESS[coding](bytes(20_000_000))
    decoder = new(coding)
    tracemalloc.start()
    try:
        assert 100_000 <= len(decoder.feed(bomb, 100_000)) < 400_000
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_rfc9659_zstd_window_over_8_mb_is_refused():
    wide = zstd.ZstdCompressor(
        options={
            zstd.CompressionParameter.window_log: 27,
            zstd.CompressionParameter.enable_long_distance_matching: 1,
        }
    )
    wire = wide.compress(bytes(100_000)) + wide.compress(b"x" * 50_000) + wide.flush()
    with pytest.raises(DecodingError):
        decode("zstd", [wire])


@each("values", [[], ["identity"], ["utf-8"], ["none", ""], ["compress"]])
def test_lenient_unknown_codings_are_none(values):
    assert decoder_for(values) is None


@each("value", ["GZIP", " gzip ", "x-gzip", "identity, gzip", "gzip,"])
def test_names_of_codings_are_read_loosely(value):
    assert decoder_for([value]) is not None


@pytest.mark.parametrize("values", [["gzip, br"], ["gzip", "gzip"]])
def test_body_encoded_twice_is_refused(values):
    with pytest.raises(DecodingError, match="more than once"):
        decoder_for(values)


def test_what_can_be_read_is_asked_for():
    assert ACCEPT_ENCODING == "gzip, deflate, br, zstd"
