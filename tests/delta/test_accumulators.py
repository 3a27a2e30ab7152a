"""Which aggregates merge, which of them can take a retraction, and how averages divide."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

import pytest

from laminar.delta.accumulators import (
    Accumulators,
    mergeable,
    summed_kind,
    times,
)
from laminar.delta.decimal_averages import averages_exactly, decimal_quotient
from laminar.delta.decimal_sums import WHOLE, high_of, joined, low_of
from laminar.plan.nodes import AggCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def call(function: str, *args: str) -> AggCall:
    return AggCall("r", function, args, f"{function}({', '.join(args)})")


@pytest.mark.parametrize(
    ("function", "kind", "invertible"),
    [
        ("count_star", "", True),
        ("count", "string", True),
        ("count_if", "boolean", True),
        ("bool_and", "boolean", True),
        ("bool_or", "boolean", True),
        ("sum", "int", True),
        ("sum", "decimal(10,2)", True),
        ("avg", "bigint", True),
        ("sum", "double", False),
        ("avg", "float", False),
        ("min", "int", False),
        ("max", "string", False),
    ],
)
def test_what_a_retraction_can_undo(function: str, kind: str, invertible: bool) -> None:
    args = ("c1",) if kind else ()
    made = Accumulators((call(function, *args),), {"c1": kind})
    assert made.invertible is invertible


def test_a_sum_of_bigint_has_a_carry_that_moves_no_other_name() -> None:
    calls = (call("sum", "c1"), call("max", "c2"))
    made = Accumulators(calls, {"c1": "bigint", "c2": "int"})
    assert [each.name for each in made.all] == ["__n", "__a1", "__a2", "__a3", "__a2_carry"]
    assert made.finishes[0].uses == ("__a1", "__a2_carry", "__a2")


def test_a_key_under_a_collation_shows_its_least_spelling() -> None:
    made = Accumulators((), {"c1": "string collate UTF8_LCASE", "c2": "string"}, ("c1", "c2"))
    assert [each.name for each in made.all] == ["__n", "__c1_spelled"]
    assert not made.invertible


@pytest.mark.parametrize(
    ("function", "kinds", "expected"),
    [
        ("sum", ("int",), True),
        ("sum", ("interval day to second",), False),
        ("avg", ("decimal(10,2)",), True),
        ("avg", ("decimal(20,4)",), True),
        ("avg", ("decimal(38,18)",), False),
        ("avg", ("decimal(20,8)",), False),
        ("sum", ("decimal(38,18)",), True),
        ("max_by", ("string", "int"), True),
        ("max_by", ("map<string,int>", "int"), False),
        ("other", ("int",), False),
    ],
)
def test_what_has_accumulators(function: str, kinds: tuple[str, ...], expected: bool) -> None:
    types = {f"c{place}": kind for place, kind in enumerate(kinds)}
    assert mergeable((call(function, *types),), types) is expected


def test_calls_share_accumulators() -> None:
    calls = (call("sum", "c1"), call("avg", "c1"), call("count", "c1"), call("count_star"))
    made = Accumulators(calls, {"c1": "int"})
    assert [each.name for each in made.all] == ["__n", "__a1", "__a2"]


def test_only_sums_of_doubles_are_inexact() -> None:
    assert Accumulators((call("avg", "c1"),), {"c1": "float"}).is_inexact
    assert not Accumulators((call("max", "c1"),), {"c1": "double"}).is_inexact
    assert not Accumulators((call("avg", "c1"),), {"c1": "int"}).is_inexact


def test_a_row_that_does_not_count_adds_nothing_not_even_infinity() -> None:
    assert times("y", "w", "floating") == "IF(w = 0, 0D, CAST(y AS DOUBLE) * w)"
    assert times("x", "w", "integer") == "x * w"


PRODUCTS = [
    (38, "0.33333333333333333333333333333333333333", -1),
    (38, "-0.99999999999999999999999999999999999999", -1),
    (38, "0.11111111111111111111111111111111111111", 9),
    (37, "1.1111111111111111111111111111111111111", -8),
    (18, "99999999999999999999.999999999999999999", -1),
    (18, "-0.000000000000000001", -1),
    (10, "1.0000000001", 2),
    (10, "0.0000000001", 2),
    (7, "1111111111111111111111111111111.1111111", 7),
    (6, "11111111111111111111111111111111.111111", -9),
    (0, "99999999999999999999999999999999999999", -1),
    (10, "1.5", 0),
]


@pytest.mark.spark
def test_a_decimal_times_a_weight_keeps_all_digits(spark: SparkSession) -> None:
    items, expected = [], []
    with localcontext(prec=60):
        for scale, text, weight in PRODUCTS:
            kind = f"decimal(38,{scale})"
            items.append(times(f"CAST('{text}' AS {kind})", f"{weight}L", kind))
            expected.append(Decimal(text) * weight)
    for plain in "true", "false":
        session = spark.newSession()
        session.conf.set("spark.sql.ansi.enabled", plain)
        assert list(session.sql(f"SELECT {', '.join(items)}").collect()[0]) == expected


SUMS = [
    ["9", "9", "-9"],
    ["-9", "-9", "9"],
    ["99999999999999999999999999999999999999"] * 3
    + ["-99999999999999999999999999999999999999"] * 2,
    ["99999999999999999999999999999999999999", "1", "-6"],
    ["-99999999999999999999999999999999999999", "-100000000000000000000", "99999999999999999999"],
    ["-99999999999999999999999999999999999999", "-100000000000000000000", "100000000000000000000"],
    ["90000000000000000000000000000000000000", "9999999999999999999999999999999999999"],
    ["90000000000000000000000000000000000000", "10000000000000000000000000000000000000"],
    ["-60000000000000000000000000000000000000", "-60000000000000000000000000000000000000"],
    ["100000000000000000000", "-1"],
    ["0"],
]
"""In units of the last digit; what they make fits DECIMAL(38,s), but for three."""


@pytest.mark.spark
@pytest.mark.parametrize("scale", [0, 6, 10, 20, 21, 38])
def test_a_sum_of_decimals_that_fits_is_exact_by_parts(spark: SparkSession, scale: int) -> None:
    session, kind = spark.newSession(), f"decimal(38,{scale})"
    session.conf.set("spark.sql.ansi.enabled", "false")
    given = [(place, text) for place, texts in enumerate(SUMS) for text in texts]
    rows = ", ".join(f"({place}, '{text}E-{scale}', 1L)" for place, text in given)
    low = times(low_of("v", kind), "w", kind)
    high = times(high_of("v", kind), "w", WHOLE)
    found = session.sql(
        f"SELECT g, {joined('l', 'h', kind)} AS s FROM (SELECT g, SUM({low}) AS l, SUM({high}) AS h"
        f" FROM (SELECT g, CAST(v AS {kind}) AS v, w FROM VALUES {rows} t(g, v, w)) GROUP BY g)"
    ).collect()
    totals = {place: sum(map(int, texts)) for place, texts in enumerate(SUMS)}
    with localcontext(prec=60):
        fits = {place: Decimal(total).scaleb(-scale) for place, total in totals.items()}
    assert dict(found) == {
        place: value if abs(totals[place]) < 10**38 else None for place, value in fits.items()
    }
    assert sum(value is None for _, value in found) == 3


def test_only_a_sum_that_may_outgrow_its_type_has_parts() -> None:
    calls = (call("sum", "c1"), call("sum", "c2"), call("avg", "c2"))
    made = Accumulators(calls, {"c1": "decimal(19,4)", "c2": "decimal(20,4)"})
    assert made.finishes[0].uses == ("__a1", "__a2")
    assert made.finishes[1].uses == ("__a5", "__a3", "__a4")
    assert made.finishes[1].signs == {"__a3", "__a4"}


def test_sums_are_kept_in_a_kind_that_holds_them() -> None:
    assert summed_kind("tinyint") == "integer"
    assert summed_kind("decimal(5,2)") == "decimal(38,2)"
    with pytest.raises(ValueError, match="cannot add up"):
        summed_kind("string")


def test_a_quotient_has_four_digits_more_and_is_rounded_once() -> None:
    assert decimal_quotient(10, 2).endswith("AS DECIMAL(14,6))")
    assert "%" not in decimal_quotient(14, 3)
    assert "%" in decimal_quotient(18, 2)
    assert [averages_exactly(*digits) for digits in ((14, 14), (28, 4), (29, 4), (18, 6))] == [
        True,
        True,
        False,
        False,
    ]
