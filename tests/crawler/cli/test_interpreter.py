"""How a crawl sets its interpreter."""

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
gc.collect(1)  # it has outlived two looks
del knot
looks = 0
while known() is not None:
    made = [[] for _ in range(6_000)]  # a young collection each
    looks += 1
    assert looks < 1_000
"""


def test_an_old_cycle_does_not_last() -> None:
    """About 350 pages are read between two looks at what is young: here 350,000 in all."""
    subprocess.run([sys.executable, "-c", AN_OLD_CYCLE], check=True, timeout=60)
