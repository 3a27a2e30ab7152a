"""One value for one column: taken exactly, or refused."""

from __future__ import annotations

from collections import namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laminar.runtime.statements.exact_values import Misfit, exact, named, required

NAIVE, UTC_TIME = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
PAIR = pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string(), nullable=False)])
LATER = timezone(timedelta(hours=2))
Named = namedtuple("Named", ["b", "a"])

TAKEN: list[tuple[Any, pa.DataType, Any]] = [
    (None, pa.int32(), None),
    (pd.NA, pa.string(), None),
    (pd.NaT, UTC_TIME, None),
    (np.datetime64("NaT"), UTC_TIME, None),
    (True, pa.bool_(), True),
    (np.bool_(False), pa.bool_(), False),
    (5.0, pa.int32(), 5),
    (Decimal("5.00"), pa.int8(), 5),
    (np.int64(7), pa.int64(), 7),
    (1, pa.float64(), 1.0),
    (0.1, pa.float32(), 0.1),  # the one loss that is allowed
    (Decimal("NaN"), pa.float64(), None),
    (5, pa.decimal128(5, 2), Decimal("5.00")),
    (0.5, pa.decimal128(5, 2), Decimal("0.50")),
    (Decimal("-1.20"), pa.decimal128(3, 1), Decimal("-1.2")),
    ("é", pa.string(), "é"),
    (bytearray(b"x"), pa.binary(), b"x"),
    ("2026-01-02", pa.date32(), date(2026, 1, 2)),
    (datetime(2026, 1, 2), pa.date32(), date(2026, 1, 2)),
    (date(2026, 1, 2), UTC_TIME, datetime(2026, 1, 2, tzinfo=UTC)),
    ("2026-01-02T03:04:05", UTC_TIME, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (datetime(2026, 1, 2, 3, tzinfo=LATER), UTC_TIME, datetime(2026, 1, 2, 1, tzinfo=UTC)),
    (np.datetime64("2026-01-02T03:04"), NAIVE, datetime(2026, 1, 2, 3, 4)),
    (pd.Timestamp("2026-01-02"), NAIVE, datetime(2026, 1, 2)),
    ("03:04", pa.time64("us"), time(3, 4)),
    (timedelta(seconds=1), pa.duration("us"), timedelta(seconds=1)),
    ((1, None), pa.list_(pa.int32()), [1, None]),
    (np.array([1, 2]), pa.list_(pa.int64()), [1, 2]),
    ({"B": "x"}, PAIR, {"a": None, "b": "x"}),
    ((1, "x"), PAIR, {"a": 1, "b": "x"}),
    (Named("x", 1), PAIR, {"a": 1, "b": "x"}),
    ({"k": 1}, pa.map_(pa.string(), pa.int32()), [("k", 1)]),
    ([("k", 1)], pa.map_(pa.string(), pa.int32()), [("k", 1)]),
]


@pytest.mark.parametrize(("value", "kind", "found"), TAKEN)
def test_what_a_column_can_hold_exactly(value: Any, kind: pa.DataType, found: Any) -> None:
    made = exact(value, kind)
    if isinstance(value, Decimal) and not value.is_finite():
        assert np.isnan(made)
    else:
        assert made == found
        assert type(made) is type(found)
    pa.array([made], kind)  # so Arrow takes it


REFUSED: list[tuple[Any, pa.DataType, str]] = [
    (1, pa.bool_(), ""),
    (True, pa.int32(), ""),
    ("1", pa.int32(), ""),
    (1, pa.string(), ""),
    (1.5, pa.int32(), "fraction"),
    (128, pa.int8(), "-128 to 127"),
    (float("nan"), pa.int32(), "finite"),
    (2**53 + 1, pa.float64(), "exactly"),
    (1e300, pa.float32(), "too large"),
    (Decimal("1e5000"), pa.float64(), "exponent"),
    (Decimal("1.005"), pa.decimal128(5, 2), "2 decimal places"),
    (1000, pa.decimal128(5, 2), "5 digits"),
    (float("inf"), pa.decimal128(5, 2), "finite"),
    ("\ud800", pa.string(), "half of a character"),
    ("x", pa.binary(), ""),
    ("02.01.2026", pa.date32(), "ISO 8601"),
    (datetime(2026, 1, 2, 3), pa.date32(), "time of day"),
    (5, pa.date32(), ""),
    ("2026-01-02T03:04:05.1234567", UTC_TIME, "microsecond"),
    (pd.Timestamp("2026-01-02T00:00:00.000000001"), UTC_TIME, "microsecond"),
    (datetime(2026, 1, 2, tzinfo=UTC), NAIVE, "time zone"),
    (datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))), UTC_TIME, "out of range"),
    (5, UTC_TIME, ""),
    (time(3, tzinfo=UTC), pa.time64("us"), ""),
    (5, pa.duration("us"), ""),
    ("ab", pa.list_(pa.string()), ""),
    ({"a": 1}, PAIR, 'NULL in "b"'),
    ({"a": 1, "b": "x", "c": 2}, PAIR, "its fields are a, b, c"),
    ({"b": "x", "B": "y"}, PAIR, "its fields are b, B"),
    ((1,), PAIR, "1 values for 2 fields"),
    (5, PAIR, ""),
    ({None: 1}, pa.map_(pa.string(), pa.int32()), "a key is NULL"),
    (["k"], pa.map_(pa.string(), pa.int32()), ""),
    (object(), pa.null(), "Invalid null value"),
]


@pytest.mark.parametrize(("value", "kind", "why"), REFUSED)
def test_what_it_cannot(value: Any, kind: pa.DataType, why: str) -> None:
    with pytest.raises(Misfit, match=why or "^$"):
        exact(value, kind)


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
KINDS = [pa.int8(), pa.int32(), pa.int64(), pa.uint16(), pa.float64(), pa.decimal128(20, 4)]


@given(NUMBERS | st.decimals(allow_nan=False, allow_infinity=False), st.sampled_from(KINDS))
def test_a_number_never_changes_its_amount(value: Any, kind: pa.DataType) -> None:
    try:
        made = exact(value, kind)
    except Misfit:
        return
    assert Fraction(made) == Fraction(value)
    assert Fraction(pa.array([made], kind).to_pylist()[0]) == Fraction(value)


def test_parts_that_may_not_be_null() -> None:
    assert required(None, pa.field("a", pa.int32())) is None
    with pytest.raises(Misfit, match='NULL in "a"'):
        required(None, pa.field("a", pa.int32(), nullable=False))


def test_rows_with_names() -> None:
    assert named(Named("x", 1)) == {"b": "x", "a": 1}
    assert named((1, 2)) == (1, 2)
    assert named({"a": 1}) == {"a": 1}
