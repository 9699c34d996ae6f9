"""One source of SQL, in the words of each engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storage import sql_source
from storage.postgres import dialect as postgres
from storage.postgres.statements import statements as postgres_statements
from storage.sql_source import SHARED, read_script, statements_of
from storage.sqlite import dialect as sqlite
from storage.sqlite.statements import statements as sqlite_statements
from tests.tables import each

FILES = ("statements", "checks", "reports")

# A source, and the statements that it becomes.
SOURCES = {
    "parameters": (
        "SELECT id FROM urls WHERE id > $2::bigint AND id NOT IN $1::ids LIMIT $3::bigint",
        (
            "SELECT id FROM urls WHERE id > ?2"
            " AND id NOT IN (SELECT value FROM json_each(?1)) LIMIT ?3"
        ),
        (
            "SELECT id FROM urls WHERE id > $2::bigint AND id NOT IN"
            " (SELECT value::bigint FROM json_array_elements_text($1::json)) LIMIT $3::bigint"
        ),
    ),
    "rows that are inserted": (
        (
            "WITH v (id bigint, at double precision) AS ROWS INSERT INTO t (id, at)"
            " SELECT v.* FROM v ON CONFLICT (id) DO REPLACE"
        ),
        (
            "WITH v(id, at) AS (VALUES (?, ?)) INSERT INTO t (id, at) SELECT v.* FROM v"
            " WHERE v.id IS NOT NULL ON CONFLICT (id) DO UPDATE SET at = excluded.at"
        ),
        (
            "INSERT INTO t (id, at) SELECT v.* FROM unnest($1::bigint[], $2::double precision[])"
            " AS v (id, at) ORDER BY v.id ON CONFLICT (id) DO UPDATE SET at = excluded.at"
        ),
    ),
    "rows that are changed, in order": (
        (
            "WITH v (id bigint) AS ROWS UPDATE t SET at = least(t.at, $1::bigint)"
            " FROM v WHERE t.id = v.id AND t.at > 5"
        ),
        (
            "WITH v(id) AS (VALUES (?)) UPDATE t SET at = min(t.at, ?)"
            " FROM v WHERE t.id = v.id AND t.at > 5"
        ),
        (
            "WITH v AS ( SELECT v.* FROM unnest($1::bigint[]) AS v (id)"
            " JOIN t ON t.id = v.id AND t.at > 5 ORDER BY t.id FOR NO KEY UPDATE OF t )"
            " UPDATE t SET at = least(t.at, $2::bigint) FROM v WHERE t.id = v.id"
        ),
    ),
    "rows of a type": (
        (
            "WITH v (id bigint, at double precision) AS ROWS OF some_row"
            " UPDATE t SET at = v.at, by = $1::text FROM v WHERE t.id = v.id"
        ),
        (
            "WITH v(id, at) AS (VALUES (?, ?))"
            " UPDATE t SET at = v.at, by = ? FROM v WHERE t.id = v.id"
        ),
        (
            "WITH v AS ( SELECT v.* FROM unnest($1::some_row[]) AS v JOIN t ON t.id = v.id"
            " ORDER BY t.id FOR NO KEY UPDATE OF t )"
            " UPDATE t SET at = v.at, by = $2::text FROM v WHERE t.id = v.id"
        ),
    ),
    "rows that are deleted": (
        "WITH v (id bigint) AS ROWS DELETE FROM t WHERE of IN (SELECT v.id FROM v)",
        "WITH v(id) AS (VALUES (?)) DELETE FROM t WHERE of IN (SELECT v.id FROM v)",
        "DELETE FROM t WHERE of = ANY ($1::bigint[])",
    ),
    "JSON": (
        (
            "WITH v (id bigint) AS ROWS SELECT json_rows(json_array(v.id, (SELECT json_rows(a)"
            " FROM b))) FROM v"
        ),
        (
            "WITH v(id) AS (VALUES (?)) SELECT json_group_array(json_array(v.id,"
            " (SELECT json_group_array(a) FROM b))) FROM v WHERE v.id IS NOT NULL"
        ),
        (
            "SELECT coalesce(json_agg(json_build_array(v.id, (SELECT coalesce(json_agg(a), '[]')"
            " FROM b))), '[]') FROM unnest($1::bigint[]) AS v (id)"
        ),
    ),
    "words": (
        (
            "SELECT hex16(a) FROM b CROSS JOIN c AS d ON d.x / 1e3 IS DISTINCT FROM b.x"
            " {sqlite: LIMIT 1}{postgres: FOR UPDATE}"
        ),
        (
            "SELECT iif(a IS NULL, NULL, printf('%016x', a)) FROM b"
            " CROSS JOIN c AS d ON d.x / 1e3 IS NOT b.x LIMIT 1"
        ),
        (
            "SELECT lpad(to_hex(a), 16, '0') FROM b"
            " JOIN c AS d ON d.x / 1e3::double precision IS DISTINCT FROM b.x FOR UPDATE"
        ),
    ),
}


@pytest.mark.parametrize("what", SOURCES)
def test_each_engine_has_its_own_words(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, *wanted = SOURCES[what]
    (tmp_path / "some.sql").write_text(f"-- name: one\n{source};\n")
    monkeypatch.setattr(sql_source, "SHARED", tmp_path)
    found = [statements_of("some", dialect)["one"] for dialect in (sqlite, postgres)]
    assert [" ".join(sql.split()) for sql in found] == wanted


@each("file", FILES)
def test_no_word_of_the_source_is_left(file: str) -> None:
    words = r"[{}]|AS ROWS|json_rows|hex16|DO REPLACE|::(ids|names)\b"
    for name, sql in (*sqlite_statements(file).items(), *postgres_statements(file).items()):
        assert not re.search(words, sql), (name, sql)
    for name, sql in sqlite_statements(file).items():
        assert "::" not in sql, name
        assert "$" not in sql, name


def test_values_beside_rows_are_used_once_and_in_order() -> None:
    """SQLite numbers them by their place, behind rows of which there may be any number."""
    text = read_script(SHARED / "statements.sql")
    found = re.findall(r"^-- name: (\w+)\n(WITH v .*?)(?=^-- |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(found) > 50
    for name, sql in found:
        sqlite_only = re.sub(r"\{postgres: [^}]*\}", "", sql)
        numbers = [int(number) for number in re.findall(r"\$(\d+)::", sqlite_only)]
        assert numbers == list(range(1, len(numbers) + 1)), name
