"""The public names of `crawler`, under the name of the distribution: `import courtly`.

The wheel contains this directory a second time, as the package `courtly` (`pyproject.toml`). Its
names are loaded when they are first used, as in `crawler`.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder


def _check_not_hidden() -> None:
    """Raise ImportError if `crawler` is a module of another program. It is not imported for that:
    it may be the running script."""
    module = sys.modules.get("crawler") or PathFinder.find_spec("crawler")
    file = getattr(module, "__file__", None) or getattr(module, "origin", None)
    if file is None or os.path.exists(os.path.join(os.path.dirname(file), "alias")):
        return
    raise ImportError(
        f'{file} hides the package "crawler" of courtly, because Python finds it first: rename it',
        name="crawler",
        path=file,
    )


_check_not_hidden()
_crawler = importlib.import_module("crawler")
__all__ = _crawler.__all__


def __getattr__(name: str) -> object:
    if name.startswith("__") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_crawler, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
