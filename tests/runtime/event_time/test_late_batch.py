"""What the clock made of an epoch, as values that later rooms share."""

from __future__ import annotations

from laminar.model.schema import Schema
from laminar.model.trace import WEIGHT
from laminar.runtime.event_time.late_batch import (
    LATE_DDL,
    LATE_ROWS,
    LATE_SCHEMA,
    LateBatch,
    TimedResults,
)
from laminar.sql.system import SYSTEM


def test_late_rows_are_kept_where_no_relation_of_a_user_is() -> None:
    assert LATE_ROWS.startswith(f"{SYSTEM}.")


def test_spark_and_arrow_agree_on_the_columns_of_late_rows() -> None:
    declared = [each.name for each in Schema.parse(LATE_DDL).fields]
    assert declared == LATE_SCHEMA.names
    assert declared[-1] == WEIGHT
    assert LateBatch("v", 0, LATE_SCHEMA.empty_table()).rows.num_rows == 0


def test_results_of_some_traces_alone() -> None:
    done = TimedResults(frozenset({"a!pending", "b!pending"}), frozenset({"a", "b"}), {"b#2": 7})
    assert done.only(lambda trace: trace.startswith("a")) == TimedResults(
        frozenset({"a!pending"}), frozenset({"a"}), {}
    )
    assert done.only(lambda _: True) == done
