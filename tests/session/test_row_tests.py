"""What Arrow decides about rows before the bridge, Spark would decide in the same way."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from laminar.bridge.prefix import Prefix, passes
from laminar.model.row_test import Compare, Some
from laminar.plan.row_tests import row_test

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {
    "i": ("int", pa.int32(), [None, -5, 0, 5, 2**31 - 1, 6]),
    "l": ("bigint", pa.int64(), [None, -(2**63), 2**53 + 1, 5, 0, 1]),
    "f": ("float", pa.float32(), [None, float("nan"), 0.1, -0.0, float("inf"), 16777216.0]),
    "d": ("double", pa.float64(), [None, float("nan"), 0.1, -0.0, float("-inf"), 1e300]),
    "s": ("string", pa.string(), [None, "", "a", "Ab", "ä", "a "]),
    "m": (
        "decimal(10,2)",
        pa.decimal128(10, 2),
        [None, Decimal("0.10"), Decimal("-1.50"), Decimal("1.50"), Decimal(0), Decimal("99.99")],
    ),
    "t": ("date", pa.date32(), [None, *(date(2024, 1, day) for day in (1, 2, 3, 30, 31))]),
    "b": ("boolean", pa.bool_(), [None, True, False, True, False, None]),
}
VALUES = {
    "i": ("5", "-5", "0"),
    "l": ("5", "9223372036854775807", "-3"),
    "f": ("0.1", "0", "16777216", "1.5e3"),
    "d": ("0.1", "0", "-0.0", "1e300"),
    "s": ("'a'", "''", "'ä'"),
    "m": ("1.5", "0", "0.10", "-1.50"),
    "t": ("DATE '2024-01-02'",),
    "b": ("true", "false"),
}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


def conditions() -> list[str]:
    simple = [
        f"{column} {operator} {value}"
        for column, values in VALUES.items()
        for value in values
        for operator in OPERATORS
    ]
    simple += [f"{column} IS NULL" for column in COLUMNS]
    simple += ["b", "i IN (5, 6)", "s IN ('a', 'ä')", "m IN (1.5, 99.99)", "l IN (0)"]
    mixed = [f"NOT ({each})" for each in simple]
    mixed += [f"({a}) AND NOT ({b})" for a, b in zip(simple, simple[7:], strict=False)]
    mixed += [f"({a}) OR ({b})" for a, b in zip(simple, simple[13:], strict=False)]
    return simple + mixed


@pytest.mark.spark
def test_arrow_and_spark_agree(spark: SparkSession) -> None:
    table = pa.table({name: pa.array(values, kind) for name, (_, kind, values) in COLUMNS.items()})
    types = {name: kind for name, (kind, _, _) in COLUMNS.items()}
    names = {name: name for name in COLUMNS}
    known = conditions()
    found = [row_test(each, names, types) for each in known]
    left_out = [text for text, test in zip(known, found, strict=True) if test is None]
    assert left_out == []
    frame = spark.createDataFrame(table).coalesce(1)
    listed = [f"({text}) AS c{at}" for at, text in enumerate(known)]
    by_spark = frame.selectExpr(*listed).toArrow()
    for at, (text, test) in enumerate(zip(known, found, strict=True)):
        assert test is not None
        assert passes(test, table).to_pylist() == by_spark[f"c{at}"].to_pylist(), text


def test_a_prefix_keeps_rows_that_pass_and_columns_that_are_wanted() -> None:
    table = pa.table({"n": [1, 2, None, 4], "note": ["a", "b", "c", "d"], "__weight": [1] * 4})
    tests = (Compare("n", ">", 3), Compare("n", "=", 1))
    kept = Prefix(("n",), ("note",), tests)
    assert kept.applied(table).to_pydict() == {"n": [1, 4], "__weight": [1, 1]}
    assert kept.test == Some(tests)
    assert Prefix(("n", "note")).applied(table) is table
    assert kept.covers(Prefix(("n",), ("note",), tests[:1]))
    assert not kept.covers(Prefix(("n",), ("note",)))
    assert not kept.covers(Prefix(("n", "note"), (), tests))
    assert not kept.covers(Prefix(("n",), (), (Compare("n", ">", 2),)))
    assert Prefix(("n", "note")).covers(kept)
