"""The public names of the store without a file."""

from __future__ import annotations

from storage.memory.store import MemoryStore

__all__ = ["MemoryStore"]
