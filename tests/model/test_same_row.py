"""Which values Spark compares more coarsely than by bytes, and what stands in place of that."""

from __future__ import annotations

import math
import struct

import pytest

from laminar.delta.extremes import extreme
from laminar.model.same_row import (
    RowType,
    collation_of,
    decoded,
    encoded,
    has_variants,
    identity,
    is_coarse,
    same,
    sought,
)
from laminar.testing.bags import difference, frozen

OTHER_NAN = struct.unpack("d", struct.pack("Q", 0x7FF8000000000001))[0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("int", False),
        ("string", False),
        ("decimal(38,2)", False),
        ("array<struct<a:int,b:timestamp>>", False),
        ("string collate UTF8_BINARY", False),
        ("float", True),
        ("double", True),
        ("string collate UTF8_LCASE", True),
        ("array<float>", True),
        ("struct<a:int,b:array<string collate UNICODE_CI>>", True),
        ("map<string,int>", True),
        ("variant", True),
    ],
)
def test_which_types_spark_compares_more_coarsely(kind: str, expected: bool) -> None:
    assert is_coarse(kind) is expected
    assert (identity("x", kind).by == ("x",)) is not expected


@pytest.mark.parametrize(
    ("kind", "schemas"),
    [
        ("array<struct<variant:int>>", None),
        ("array<variant>", "TRANSFORM(x, __e0 -> SCHEMA_OF_VARIANT(__e0))"),
        ("struct<a:int,v:variant>", "STRUCT(SCHEMA_OF_VARIANT(x.`v`))"),
        ("map<int,variant>", "TRANSFORM(MAP_VALUES(x), __e0 -> SCHEMA_OF_VARIANT(__e0))"),
    ],
)
def test_variants_that_are_written_alike_differ_by_their_schemas(
    kind: str, schemas: str | None
) -> None:
    assert has_variants(kind) is (schemas is not None)
    assert identity("x", kind).by[1:] == (() if schemas is None else (schemas,))


def test_a_column_that_spark_tells_apart_is_grouped_by_as_it_is() -> None:
    assert identity("x", "int").shown == "x"
    assert same("a", "b", "bigint") == "a <=> b"
    assert same("a", "b", "double").startswith("a <=> b AND ")
    assert extreme("MIN", "x", "") == "MIN(x)"


def test_codes_lead_back_to_their_values() -> None:
    assert decoded(encoded("x", "float"), "float") == "CAST(CAST(x AS STRING) AS FLOAT)"
    assert encoded("x", "int") == decoded("x", "int") == "x"
    assert collation_of("string collate UNICODE_CI_RTRIM") == "UNICODE_CI_RTRIM"
    code = encoded("x", "string collate UTF8_LCASE")
    assert code == "(x COLLATE UTF8_BINARY)"
    assert decoded(code, "string collate UTF8_LCASE") == f"({code} COLLATE UTF8_LCASE)"


def test_a_map_is_found_in_any_order_but_told_apart_by_it() -> None:
    assert "MAP_ENTRIES" in sought("m", "map<string,double>").by[0]
    assert "MAP_ENTRIES" not in identity("m", "map<string,double>").by[0]


def test_columns_keep_their_types() -> None:
    row = RowType(("a", "b"), ("int", "double"))
    assert row.only(("b",)) == RowType(("b",), ("double",))
    assert row.plus("c", "date").kind("c") == "date"


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        (0.0, -0.0, False),
        (-0.0, -0.0, True),
        (math.nan, OTHER_NAN, True),
        ("a", "A", False),
        ([0.0], [-0.0], False),
        ({"x": (0.0, math.nan)}, {"x": (-0.0, math.nan)}, False),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        (1, True, False),
    ],
)
def test_bags_compare_bytes(one: object, other: object, are_same: bool) -> None:
    assert (frozen(one) == frozen(other)) is are_same
    assert (difference([(one, 1.5)], [(other, 1.5)]) == ([], [])) is are_same
