"""The stateless prefix: rows and columns that nobody wants do not cross the bridge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from laminar.model.row_test import Among, Compare, Every, Flag, IsNull, Not, RowTest, Some

_PLACE = "__place"

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Prefix:
    """What is kept of a source: some columns, and the rows that pass one of some tests.

    Of a source with a key it is the newest row of each: those in between never cross.
    """

    columns: tuple[str, ...]
    pruned: tuple[str, ...] = ()
    tests: tuple[RowTest, ...] | None = None
    """None if every row is kept."""
    key: tuple[str, ...] = ()
    """Of rows that come together and have the same key, only the last one counts."""

    @property
    def test(self) -> RowTest | None:
        """All tests as one: a row that passes any of them is kept."""
        if self.tests is None:
            return None
        return self.tests[0] if len(self.tests) == 1 else Some(self.tests)

    def covers(self, other: Prefix) -> bool:
        """Whether all that another one keeps is kept by this one, as far as can be seen."""
        if not set(other.columns) <= set(self.columns):
            return False
        return self.tests is None or (
            other.tests is not None and set(other.tests) <= set(self.tests)
        )

    def applied(self, table: pa.Table) -> pa.Table:
        """Return rows and columns that are kept; of rows with one key, the last."""
        test = self.test
        if test is not None:
            # A filter keeps rows for which the test is true: neither false nor NULL.
            table = table.filter(passes(test, table), null_selection_behavior="drop")
        if self.key:
            table = last_of_each(table, self.key)
        pruned = [name for name in self.pruned if name in table.column_names]
        return table.drop_columns(pruned) if pruned else table


@dataclass(slots=True)
class PrefixCounters:
    """Rows before a prefix and after it."""

    rows_in: int = 0
    rows_kept: int = 0


@dataclass(slots=True)
class PrefixStage:
    """Applies the prefix that holds when rows come: views may change it at any time."""

    counters: PrefixCounters = field(default_factory=PrefixCounters)

    def run(self, prefix: Prefix | None, table: pa.Table) -> pa.Table:
        """Return what is kept of some rows; all of them without a prefix."""
        if prefix is None:
            return table
        kept = prefix.applied(table)
        self.counters.rows_in += table.num_rows
        self.counters.rows_kept += kept.num_rows
        return kept


def last_of_each(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the last row for every key, in the order of the rows.

    Keys are told apart as Spark's `=` does: 0.0 and -0.0 are one.
    """
    places = pa.array(np.arange(table.num_rows))
    keyed = keys_of(table, key).append_column(_PLACE, places)
    found = keyed.group_by(list(key)).aggregate([(_PLACE, "max")])
    if found.num_rows == table.num_rows:
        return table
    return table.take(found.column(f"{_PLACE}_max").sort())


def keys_of(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the columns of a key, with equal keys written alike."""
    keys = table.select(list(key))
    for place, (name, kind) in enumerate(zip(keys.schema.names, keys.schema.types, strict=True)):
        if pa.types.is_floating(kind):
            plain = pc.add(keys.column(place), pa.scalar(0.0, kind))
            keys = keys.set_column(place, name, plain)
    return keys


def passes(test: RowTest, table: pa.Table) -> Any:
    """Decide a test for every row as Spark does: true, false or NULL."""
    match test:
        case Compare(column, operator, value):
            return _compared(table.column(column), operator, value)
        case Among(column, values):
            return pc.if_else(
                pc.is_null(table.column(column)),
                pa.scalar(None, pa.bool_()),
                _is_in(table.column(column), values),
            )
        case IsNull(column):
            return pc.is_null(table.column(column))
        case Flag(column):
            return table.column(column)
        case Not(inner):
            return pc.invert(passes(inner, table))
        case Every(tests) | Some(tests):
            join = pc.and_kleene if isinstance(test, Every) else pc.or_kleene
            found = passes(tests[0], table)
            for each in tests[1:]:
                found = join(found, passes(each, table))
            return found


def _compared(column: pa.ChunkedArray, operator: str, value: Any) -> Any:
    kind = column.type
    compare = _COMPARE[operator]
    if pa.types.is_floating(kind):
        wide = column.cast(pa.float64())
        found = compare(wide, pa.scalar(float(value), pa.float64()))
        # Spark holds that not-a-number is greater than all numbers.
        return pc.or_kleene(found, pc.is_nan(wide)) if operator in (">", ">=") else found
    if pa.types.is_integer(kind):
        return compare(column.cast(pa.int64()), pa.scalar(value, pa.int64()))
    return compare(column, pa.scalar(value, kind))


def _is_in(column: pa.ChunkedArray, values: tuple[Any, ...]) -> Any:
    kind = pa.int64() if pa.types.is_integer(column.type) else column.type
    return pc.is_in(column.cast(kind), pa.array(values, kind))
