"""Rows arrive exactly as they were given, or not at all."""

from __future__ import annotations

import datetime as dt
import time
from collections import namedtuple
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.errors import DataError, LaminarError, RowDoesNotMatch, UnknownColumn
from laminar.runtime.statements.user_rows import to_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = dt.UTC
INSTANT = pa.timestamp("us", tz="UTC")
WALL = pa.timestamp("us")
CENTS = pa.decimal128(10, 2)
EAST = dt.timezone(dt.timedelta(hours=2))
WEST = dt.timezone(dt.timedelta(hours=-2))
POINT = pa.struct([pa.field("x", pa.int32()), pa.field("y", pa.string(), nullable=False)])

TRADES = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("Symbol", pa.string()), ("price", pa.float64())]
)
TWO: list[dict[str, Any]] = [
    {"id": 1, "Symbol": "a", "price": 1.5},
    {"id": 2, "Symbol": None, "price": 2.0},
]


def one(value: Any, kind: pa.DataType) -> Any:
    """Send one value through a column of that type."""
    table = to_arrow([{"c": value}], pa.schema([("c", kind)]), "t")
    assert table.schema == pa.schema([("c", kind)])
    return table["c"][0].as_py()


TAKEN: list[tuple[Any, pa.DataType, Any]] = [
    (True, pa.bool_(), True),
    (np.bool_(False), pa.bool_(), False),
    (127, pa.int8(), 127),
    (-(2**63), pa.int64(), -(2**63)),
    (np.int64(5), pa.int32(), 5),
    (5.0, pa.int32(), 5),
    (Decimal("5.00"), pa.int64(), 5),
    (1, pa.float64(), 1.0),
    (2**60, pa.float64(), 2.0**60),
    (Decimal("0.5"), pa.float64(), 0.5),
    (np.float32(0.5), pa.float64(), 0.5),
    (float("inf"), pa.float64(), float("inf")),
    (1.5, pa.float32(), 1.5),
    (5, CENTS, Decimal("5.00")),
    (0.25, CENTS, Decimal("0.25")),
    (Decimal("-1.5"), CENTS, Decimal("-1.50")),
    (Decimal("99999999.99"), CENTS, Decimal("99999999.99")),
    (Decimal("1E+3"), CENTS, Decimal(1000)),
    (10**35, pa.decimal128(38, 2), Decimal(10**35)),
    ("text", pa.string(), "text"),
    ("", pa.string(), ""),
    (np.str_("x"), pa.string(), "x"),
    (b"\x00\xff", pa.binary(), b"\x00\xff"),
    (bytearray(b"x"), pa.binary(), b"x"),
    (dt.date(2024, 2, 29), pa.date32(), dt.date(2024, 2, 29)),
    ("2024-02-29", pa.date32(), dt.date(2024, 2, 29)),
    (dt.datetime(2024, 1, 1), pa.date32(), dt.date(2024, 1, 1)),
    (dt.datetime(2024, 1, 1, 12), INSTANT, dt.datetime(2024, 1, 1, 12, tzinfo=UTC)),
    (dt.datetime(2024, 1, 1, 12, tzinfo=EAST), INSTANT, dt.datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T12:00:00Z", INSTANT, dt.datetime(2024, 1, 1, 12, tzinfo=UTC)),
    ("2024-01-01 12:00:00.25", INSTANT, dt.datetime(2024, 1, 1, 12, 0, 0, 250000, tzinfo=UTC)),
    ("2024-01-01T12:00:00+02:00", INSTANT, dt.datetime(2024, 1, 1, 10, tzinfo=UTC)),
    ("2024-01-01T00:00:00.1234560", INSTANT, dt.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
    ("2024-01-01", INSTANT, dt.datetime(2024, 1, 1, tzinfo=UTC)),
    (pd.Timestamp("2024-01-01", tz="UTC"), INSTANT, dt.datetime(2024, 1, 1, tzinfo=UTC)),
    (np.datetime64("2024-01-01T01:00"), INSTANT, dt.datetime(2024, 1, 1, 1, tzinfo=UTC)),
    (dt.datetime.max, INSTANT, dt.datetime.max.replace(tzinfo=UTC)),
    (dt.datetime.min, INSTANT, dt.datetime.min.replace(tzinfo=UTC)),
    (dt.datetime(2024, 1, 1), WALL, dt.datetime(2024, 1, 1)),
    ("2024-01-01T05:00:00", WALL, dt.datetime(2024, 1, 1, 5)),
    (None, pa.int64(), None),
    (pd.NA, pa.string(), None),
    (pd.NaT, INSTANT, None),
    ([1, None], pa.list_(pa.int64()), [1, None]),
    (np.array([1, 2]), pa.list_(pa.int32()), [1, 2]),
    ({"X": 1, "y": "a"}, POINT, {"x": 1, "y": "a"}),
    ({"y": "a"}, POINT, {"x": None, "y": "a"}),
    ((1, "a"), POINT, {"x": 1, "y": "a"}),
    ({"k": 1}, pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    ([{"x": 1, "y": "a"}], pa.list_(POINT), [{"x": 1, "y": "a"}]),
    (dt.timedelta(seconds=1), pa.duration("us"), dt.timedelta(seconds=1)),
    (dt.time(5), pa.time64("us"), dt.time(5)),
]


@pytest.mark.parametrize(("value", "kind", "expected"), TAKEN, ids=str)
def test_a_value_arrives(value: Any, kind: pa.DataType, expected: Any) -> None:
    found = one(value, kind)
    assert found == expected
    assert type(found) is type(expected)


def test_nan_stays_what_it_is_in_a_column_of_floats() -> None:
    assert np.isnan(one(float("nan"), pa.float64()))


REFUSED: list[tuple[Any, pa.DataType]] = [
    (1, pa.bool_()),
    ("true", pa.bool_()),
    (True, pa.int64()),
    (np.bool_(True), pa.int64()),
    (1.5, pa.int64()),
    (Decimal("1.5"), pa.int64()),
    (float("nan"), pa.int64()),
    (float("inf"), pa.int64()),
    ("1", pa.int64()),
    (128, pa.int8()),
    (2**31, pa.int32()),
    (2**63, pa.int64()),
    (True, pa.float64()),
    ("1.5", pa.float64()),
    (2**53 + 1, pa.float64()),
    (Decimal("0.1"), pa.float64()),
    (1e300, pa.float32()),
    (2**24 + 1, pa.float32()),
    (10**400, pa.float64()),
    (10**300, pa.float32()),
    (True, CENTS),
    (0.1, CENTS),
    ("1.00", CENTS),
    (Decimal("1.234"), CENTS),
    (Decimal("123456789.00"), CENTS),
    (10**8, CENTS),
    (Decimal("NaN"), CENTS),
    (Decimal("1E+1000000"), CENTS),
    (1, pa.string()),
    (1.5, pa.string()),
    (b"x", pa.string()),
    ("\ud800", pa.string()),
    (dt.date(2024, 1, 1), pa.string()),
    ("x", pa.binary()),
    (5, pa.date32()),
    (dt.datetime(2024, 1, 1, 5), pa.date32()),
    ("2024-02-30", pa.date32()),
    (5, INSTANT),
    (1.5, INSTANT),
    ("yesterday", INSTANT),
    ("2024-01-01T00:00:00.1234567", INSTANT),
    (pd.Timestamp("2024-01-01T00:00:00.000000001"), INSTANT),
    (dt.datetime.min.replace(tzinfo=EAST), INSTANT),
    (dt.datetime.max.replace(tzinfo=WEST), INSTANT),
    (dt.datetime(2024, 1, 1, tzinfo=UTC), WALL),
    ("2024-01-01T00:00:00Z", WALL),
    ([1, "a"], pa.list_(pa.int64())),
    ("abc", pa.list_(pa.string())),
    ({"x": 1}, POINT),
    ({"x": 1, "y": "a", "z": 2}, POINT),
    ({"x": "1", "y": "a"}, POINT),
    ((1,), POINT),
    (5, POINT),
    ({None: 1}, pa.map_(pa.string(), pa.int64())),
    ({"a": "b"}, pa.map_(pa.string(), pa.int64())),
    (5, pa.map_(pa.string(), pa.int64())),
    (5, pa.duration("us")),
    ({1, 2}, pa.list_(pa.int64())),
]


@pytest.mark.parametrize(("value", "kind"), REFUSED, ids=str)
def test_a_value_that_would_change_is_refused(value: Any, kind: pa.DataType) -> None:
    schema = pa.schema([("n", pa.int64()), ("c", kind)])
    with pytest.raises(RowDoesNotMatch) as caught:
        to_arrow([{"n": 1}, {"n": 2, "c": None}, {"n": 3, "c": value}], schema, "orders")
    error = caught.value
    assert (error.code, error.relation, error.row, error.column) == ("LMR-4001", "orders", 3, "c")
    assert error.value is value
    assert type(value).__name__ in error.detail


def test_the_message_names_row_column_value_and_type() -> None:
    with pytest.raises(RowDoesNotMatch) as caught:
        to_arrow([(1, "a", 1.5), (2, 7, 1.5)], TRADES, "trades")
    assert str(caught.value) == (
        'LMR-4001: row 2 of "trades" does not match, column "Symbol"\n'
        "  detail: 7 (int) is not STRING"
    )


Trade = namedtuple("Trade", ["price", "id", "SYMBOL"])
Mistyped = namedtuple("Mistyped", ["id", "symbl"])


class Gen:
    """An iterable that is no list."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(TWO)


SAME_ROWS: list[Any] = [
    TWO,
    tuple(TWO),
    Gen(),
    (row for row in TWO),
    [{"ID": 1, "symbol": "a", "PRICE": 1.5}, {"id": 2, "price": 2}],
    [(1, "a", 1.5), (2, None, 2.0)],
    [[1, "a", 1.5], (2, None, 2.0)],
    [{"id": 1, "Symbol": "a", "price": 1.5}, (2, None, 2)],
    [Trade(1.5, 1, "a"), Trade(2, 2, None)],
    pd.DataFrame(TWO),
    pd.DataFrame({"PRICE": [1.5, 2.0], "symbol": ["a", np.nan], "id": [1.0, 2.0]}),
    pd.DataFrame(TWO).convert_dtypes(),
    pd.DataFrame({"id": [1, 2], "symbol": pd.Categorical(["a", None]), "price": [1.5, 2]}),
    pd.DataFrame(TWO, index=[7, 7]),
    pa.Table.from_pylist(TWO),
    pa.RecordBatch.from_pylist(TWO),
    pa.concat_tables([pa.Table.from_pylist([row], schema=TRADES) for row in TWO]),
    pa.table(
        {
            "symbol": pa.array(["a", None]).dictionary_encode(),
            "ID": pa.array([1, 2], pa.uint8()),
            "price": pa.array([1.5, 2.0], pa.float32()),
        }
    ),
    pa.table(
        {
            "Symbol": pa.array(["a", None], pa.large_string()),
            "id": [Decimal(1), Decimal(2)],
            "price": [Decimal("1.5"), Decimal("2.0")],
        }
    ),
]


@pytest.mark.parametrize("rows", SAME_ROWS, ids=lambda rows: type(rows).__name__)
def test_rows_arrive_in_any_form(rows: Any) -> None:
    table = to_arrow(rows, TRADES, "trades")
    assert table.schema == TRADES
    assert table.to_pylist() == TWO


@pytest.mark.parametrize("rows", [[], (), pd.DataFrame(), pa.table({}), TRADES.empty_table()])
def test_no_rows_are_no_rows(rows: Any) -> None:
    assert to_arrow(rows, TRADES, "trades").equals(TRADES.empty_table())


def test_a_column_that_is_not_given_is_null() -> None:
    table = to_arrow(pa.table({"id": [1]}), TRADES, "trades")
    assert table.to_pylist() == [{"id": 1, "Symbol": None, "price": None}]


@pytest.mark.parametrize(
    "rows",
    [
        [{"Symbol": "a"}],
        [{"id": None}],
        [(None, "a", 1.5)],
        pd.DataFrame({"id": [np.nan]}),
        pa.table({"id": pa.nulls(1)}),
        pa.table({"id": pa.nulls(1, pa.int64())}),
    ],
    ids=lambda rows: str(rows).split("\n")[0],
)
def test_null_where_it_is_forbidden_is_refused(rows: Any) -> None:
    with pytest.raises(RowDoesNotMatch) as caught:
        to_arrow(rows, TRADES, "trades")
    assert (caught.value.row, caught.value.column) == (1, "id")


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": 1}, {"id": 2, "symbl": "x"}],
        pd.DataFrame({"id": [1], "symbl": ["x"]}),
        pa.table({"id": [1], "symbl": ["x"]}),
        [Mistyped(1, "x")],
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_an_unknown_column_is_refused_with_the_nearest(rows: Any) -> None:
    with pytest.raises(UnknownColumn) as caught:
        to_arrow(rows, TRADES, "trades")
    assert caught.value.suggestion == "Symbol"


@pytest.mark.parametrize(
    ("rows", "row"),
    [
        ([(1, "a", 1.5), (2, "b")], 2),
        ([(1, "a", 1.5, 9)], 1),
        ([{"id": 1}, (2,)], 2),
        ([{"id": 1}, 5], 2),
        (["abc"], 1),
        ([{"id": 1}, {"id": 1, "ID": 2}], 2),
    ],
)
def test_a_row_of_another_shape_is_refused(rows: Any, row: int) -> None:
    with pytest.raises(RowDoesNotMatch) as caught:
        to_arrow(rows, TRADES, "trades")
    assert caught.value.row == row


@pytest.mark.parametrize("rows", [{"id": [1]}, "abc", b"abc", 5, None])
def test_what_is_no_rows_is_refused(rows: Any) -> None:
    with pytest.raises(DataError):
        to_arrow(rows, TRADES, "trades")


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1, 300]), pa.int8()),
        (pa.array([1.0, 1.5]), pa.int64()),
        (pa.array([1.0, float("nan")]), pa.int64()),
        (pa.array([1, 2**53 + 1]), pa.float64()),
        (pa.array([1.0, 1e300]), pa.float32()),
        (pa.array(["a", "1"]), pa.int64()),
        (pa.array([True, True]), pa.int64()),
        (pa.array([1, 2]), pa.string()),
        (pa.array([b"a", b"b"]), pa.string()),
        (pa.array(["a", "b"]), pa.binary()),
        (pa.array([Decimal("1.00"), Decimal("1.234")]), CENTS),
        (pa.array([0.5, 0.1]), CENTS),
        (pa.array([0, 1], pa.timestamp("ns")), INSTANT),
        (pa.array([0, 1], INSTANT), WALL),
    ],
    ids=str,
)
def test_an_arrow_column_is_held_to_the_same_law(array: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(RowDoesNotMatch):
        to_arrow(pa.table({"c": array}), pa.schema([("c", kind)]), "t")


def test_a_pandas_nan_is_null_but_in_floats() -> None:
    frame = pd.DataFrame({"i": [1.0, np.nan], "s": ["a", np.nan], "f": [1.0, np.nan]})
    schema = pa.schema([("i", pa.int32()), ("s", pa.string()), ("f", pa.float64())])
    table = to_arrow(frame, schema, "t")
    assert table["i"].to_pylist() == [1, None]
    assert table["s"].to_pylist() == ["a", None]
    assert table["f"].null_count == 0


def test_a_pandas_time_is_an_instant() -> None:
    frame = pd.DataFrame({"ts": [pd.Timestamp("2024-01-01"), pd.NaT]})
    for column in (frame["ts"], frame["ts"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")):
        table = to_arrow(pd.DataFrame({"ts": column}), pa.schema([("ts", INSTANT)]), "t")
        assert table["ts"].to_pylist() == [dt.datetime(2024, 1, 1, tzinfo=UTC), None]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(),
)
KINDS = st.sampled_from(
    [pa.bool_(), pa.int8(), pa.int64(), pa.float64(), CENTS, pa.string(), pa.binary(), WALL]
)


@given(st.lists(VALUES, max_size=4), KINDS)
def test_what_arrives_equals_what_was_given(values: list[Any], kind: pa.DataType) -> None:
    schema = pa.schema([("c", kind)])
    try:
        table = to_arrow([(value,) for value in values], schema, "t")
    except LaminarError:
        # If all are refused together, one of them is refused alone.
        assert any(_refused(value, schema) for value in values)
        return
    for value, found in zip(values, table["c"].to_pylist(), strict=True):
        assert found == value or (value != value and found != found) or _is_day(value, found)


def _refused(value: Any, schema: pa.Schema) -> bool:
    try:
        to_arrow([(value,)], schema, "t")
    except LaminarError:
        return True
    return False


def _is_day(value: Any, found: Any) -> bool:
    return isinstance(value, dt.date) and found == dt.datetime(value.year, value.month, value.day)


def test_a_hundred_thousand_dicts_are_quick() -> None:
    now = dt.datetime(2024, 1, 1)
    rows = [{"id": n, "Symbol": "abc", "price": 1.5, "ts": now} for n in range(100_000)]
    schema = TRADES.append(pa.field("ts", INSTANT))
    start = time.perf_counter()
    table = to_arrow(rows, schema, "trades")
    # Generous: it takes a tenth of this; value by value would take longer than all of it.
    assert time.perf_counter() - start < 1.5
    assert table.num_rows == 100_000


@pytest.mark.spark
def test_rows_of_spark_arrive(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pd.DataFrame({"id": [1, 2], "price": [1.5, 2.0]}))
    expected = [{**row, "Symbol": None} for row in TWO]
    assert to_arrow(frame, TRADES, "trades").to_pylist() == expected
    assert to_arrow(frame.collect(), TRADES, "trades").to_pylist() == expected
