"""Names of values become numbers, and each value has the type that it has in Python."""

from __future__ import annotations

from storage.engine.statements import Parameter
from storage.postgres.dialect import with_numbers


def test_each_value_has_one_number() -> None:
    sql, arguments = with_numbers("SELECT :a WHERE b = :a AND c > :c", {"a": "x", "c": 5})
    assert sql == "SELECT $1::text WHERE b = $1::text AND c > $2::bigint"
    assert arguments == ["x", 5]


def test_types() -> None:
    values: dict[str, Parameter] = {"a": b"x", "b": 0.5, "c": None, "d": 2**62}
    sql, arguments = with_numbers("(:a, :b) > (:c, :d)", values)
    assert sql == "($1::bytea, $2::double precision) > ($3::text, $4::bigint)"
    assert arguments == [b"x", 0.5, None, 2**62]


def test_several_integers() -> None:
    sql, arguments = with_numbers("id IN :ids AND o IN (SELECT :o)", {"ids": [], "o": 1})
    assert sql == "id = ANY ($1::bigint[]) AND o IN (SELECT $2::bigint)"
    assert arguments == [[], 1]


def test_values_that_are_not_named_are_left_out_and_casts_remain() -> None:
    assert with_numbers("SELECT x::text", {"a": 1}) == ("SELECT x::text", [])
