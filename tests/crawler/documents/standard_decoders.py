"""The decoders of the Encoding Standard as it writes them, a byte at a time: what ours are compared
with. Indexes are ours (their checksums are tested)."""

from __future__ import annotations

from collections import deque
from functools import cache

from crawler.documents.encoding_index import characters, jis0212, pairs, place, singles

ERROR = "\ufffd"
END = -1


def read_slowly(data: bytes, name: str) -> str:
    queue = deque(data)
    if name in ("gbk", "gb18030"):
        return _gb18030(queue)
    if name == "euc-jp":
        return _euc_jp(queue)
    if name == "iso-2022-jp":
        return _iso_2022_jp(queue)
    return _two_bytes(queue, name)


@cache
def _index(name: str) -> dict[bytes, str]:
    return dict(characters(name))


def _take(queue: deque[int]) -> int:
    return queue.popleft() if queue else END


def _two_bytes(queue: deque[int], name: str) -> str:
    """Sections 12.1.1, 13.3.1 and 14.1.1."""
    index, out, lead = _index(name), "", 0
    leads = _SHIFT_JIS_LEADS if name == "shift_jis" else range(0x81, 0xFF)
    while (byte := _take(queue)) != END:
        if lead:
            found = index.get(bytes((lead, byte)))
            lead = 0
            if found is None:
                out += ERROR
                if byte < 0x80:
                    queue.appendleft(byte)
            else:
                out += found
        elif byte in leads:
            lead = byte
        else:
            out += singles(name)[byte]
    return out + ERROR * bool(lead)


_SHIFT_JIS_LEADS = {*range(0x81, 0xA0), *range(0xE0, 0xFD)}


def _gb18030(queue: deque[int]) -> str:
    """Section 10.2.1."""
    index, out = _index("gb18030"), ""
    held: list[int] = []
    while (byte := _take(queue)) != END:
        if len(held) == 3:
            if not 0x30 <= byte <= 0x39:
                queue.extendleft([byte, held[2], held[1]])
                out += ERROR
            else:
                four = bytes((*held, byte))
                text = four.decode("gb18030", "replace")
                text = "\ue7c7" if four == b"\x81\x35\xf4\x37" else text
                out += text if len(text) == 1 else ERROR
            held = []
        elif len(held) == 2:
            if 0x81 <= byte <= 0xFE:
                held.append(byte)
            else:
                queue.extendleft([byte, held[1]])
                out += ERROR
                held = []
        elif len(held) == 1:
            if 0x30 <= byte <= 0x39:
                held.append(byte)
                continue
            found = index.get(bytes((held[0], byte)))
            held = []
            if found is None:
                out += ERROR
                if byte < 0x80:
                    queue.appendleft(byte)
            else:
                out += found
        elif 0x81 <= byte <= 0xFE:
            held = [byte]
        else:
            out += singles("gb18030")[byte]
    return out + ERROR * bool(held)


def _euc_jp(queue: deque[int]) -> str:
    """Section 13.1.1."""
    index, out, lead, third = _index("euc-jp"), "", 0, False
    while (byte := _take(queue)) != END:
        if lead == 0x8F and 0xA1 <= byte <= 0xFE:
            third, lead = True, byte
        elif lead:
            pair = bytes((lead, byte))
            found = index.get(pair)
            if third:
                found = jis0212()[place(pair)] if 0xA1 <= byte <= 0xFE else None
                found = None if found == ERROR else found
            lead, third = 0, False
            if found is None:
                out += ERROR
                if byte < 0x80:
                    queue.appendleft(byte)
            else:
                out += found
        elif byte < 0x80:
            out += chr(byte)
        elif byte in (0x8E, 0x8F) or 0xA1 <= byte <= 0xFE:
            lead = byte
        else:
            out += ERROR
    return out + ERROR * bool(lead)


_ESCAPES = {b"(B": "ASCII", b"(J": "Roman", b"(I": "katakana", b"$@": "lead", b"$B": "lead"}


def _iso_2022_jp(queue: deque[int]) -> str:
    """Section 13.2.1."""
    state = after = "ASCII"
    out, lead, output = "", 0, False
    while True:
        byte = _take(queue)
        if state == "escape start":
            if byte in (0x24, 0x28):
                lead, state = byte, "escape"
                continue
            if byte != END:
                queue.appendleft(byte)
            output, state = False, after
            out += ERROR
        elif state == "escape":
            chosen = _ESCAPES.get(bytes((lead, byte))) if byte != END else None
            if chosen is not None:
                state = after = chosen
                out += ERROR * output
                output = True
                continue
            queue.extendleft([lead] if byte == END else [byte, lead])
            output, state = False, after
            out += ERROR
        elif state == "trail":
            if byte == 0x1B:
                state = "escape start"
                out += ERROR
            elif 0x21 <= byte <= 0x7E:
                state = "lead"
                out += pairs("euc-jp")[place(bytes((lead | 0x80, byte | 0x80)))]
            else:
                state = "lead"
                out += ERROR
        elif byte == END:
            return out
        elif byte == 0x1B:
            state = "escape start"
        else:
            output = False
            if state == "lead" and 0x21 <= byte <= 0x7E:
                lead, state = byte, "trail"
            elif state == "katakana" and 0x21 <= byte <= 0x5F:
                out += chr(0xFF61 - 0x21 + byte)
            elif state == "Roman" and byte in (0x5C, 0x7E):
                out += "\xa5" if byte == 0x5C else "\u203e"
            elif state in ("ASCII", "Roman") and byte < 0x80 and byte not in (0x0E, 0x0F):
                out += chr(byte)
            else:
                out += ERROR
