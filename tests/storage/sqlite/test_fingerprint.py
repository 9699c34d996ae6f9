"""What URLs are known by: 64 bits, keyed with a secret of the database."""

from __future__ import annotations

from storage.engine.link_table import fingerprints
from storage.sqlite.schema import connect_writer
from storage.sqlite.statements import SqliteStatements


def test_it_fits_an_integer_of_sqlite_and_differs_by_url_and_secret():
    of = fingerprints(b"0123456789abcdef")
    found = {of(f"http://a.test/{n}") for n in range(10_000)}
    assert len(found) == 10_000
    assert -(2**63) <= min(found) < -(2**61) < 2**61 < max(found) < 2**63
    assert of("http://a.test/ä") == fingerprints(b"0123456789abcdef")("http://a.test/ä")
    assert of("http://a.test/") != fingerprints(b"0123456789abcdeF")("http://a.test/")


def test_every_database_has_a_secret_of_its_own(tmp_path):
    secrets = set()
    for name in ("a.db", "b.db"):
        db = connect_writer(tmp_path / name)
        secrets.add(SqliteStatements(db).secret())
        db.close()
    assert len(secrets) == 2
    assert {len(secret) for secret in secrets} == {16}
