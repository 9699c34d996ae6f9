"""Some URLs of an origin, chosen by their fingerprints: as good as at random."""

from __future__ import annotations

from typing import Final

from storage.engine.statements import Statements
from storage.paging import check_limit, findable

_SAMPLE: Final = (
    "SELECT u.path, u.state FROM urls AS u WHERE u.id IN (SELECT k.id FROM known AS k"
    " WHERE k.origin = :origin AND k.id > 0 ORDER BY k.fingerprint LIMIT :limit)"
)


def sampled_urls(sql: Statements, origin: str, limit: int) -> list[str]:
    """As `Reader.sampled_urls`. Raises ValueError for an invalid limit."""
    check_limit(limit)
    name = findable(origin)
    found = sql.select("SELECT id FROM origins WHERE name = :name", {"name": name})
    if not found:
        return []
    rows = sql.select(_SAMPLE, {"origin": found[0][0], "limit": limit})
    return [f"{name}{path}" for path, state in rows if isinstance(path, str) and state in (0, 1)]
