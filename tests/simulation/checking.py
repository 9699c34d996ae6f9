"""Whether a database is consistent, by the queries of `courtly db check`."""

from __future__ import annotations

import sqlite3

from storage.database_info import wrong_hosts, wrong_origins
from storage.sqlite.statements import statements


def inconsistencies(db: sqlite3.Connection) -> list[str]:
    queries = dict(statements("checks"))
    recounted, summed = queries.pop("recounted"), queries.pop("summed")
    found = []
    for sql in queries.values():
        count, sentence = db.execute(sql).fetchone()
        if count:
            found.append(f"{count} {sentence}")
    found += wrong_origins(db.execute(recounted))
    found += wrong_hosts(db.execute(summed))
    return found
