"""The garbage collector settings of a crawl."""

from __future__ import annotations

import subprocess
import sys

AN_OLD_CYCLE = """
import gc, weakref
from crawler.cli.process import tune

class Knot: pass

tune()
knot = Knot()
knot.itself = knot
known = weakref.ref(knot)
gc.collect(1)  # the object has survived two collections
del knot
rounds = 0
while known() is not None:
    made = [[] for _ in range(6_000)]  # triggers a young collection
    rounds += 1
    assert rounds < 1_000
"""


def test_old_cycles_are_collected() -> None:
    """About 350 pages are parsed between two young collections: 350,000 in all."""
    subprocess.run([sys.executable, "-c", AN_OLD_CYCLE], check=True, timeout=60)
