"""64 bits by which a URL is known at its origin."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b


def fingerprints(secret: bytes) -> Callable[[str], int]:
    """The function from a canonical URL to its fingerprint, a signed integer of 8 bytes.

    It is keyed with a secret of the database, so that nobody can build a URL that is taken for
    another. That two of one origin are alike by chance has a probability of 3 in 100 million for a
    million URLs there; those of different origins may be alike, since the origin is in the key too.
    """
    seeded = blake2b(secret, digest_size=8)

    def fingerprint(url: str) -> int:
        state = seeded.copy()  # 0.26 us for a URL of 75 characters; with `key=` it would be 0.57
        state.update(url.encode())
        return int.from_bytes(state.digest(), "big", signed=True)

    return fingerprint
