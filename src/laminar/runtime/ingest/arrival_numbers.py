"""Rows of tables are numbered in the order they come; FIRST and LAST go by it.

A number is that of a batch (what was pushed together, or an epoch's range of a source) and the
place in it. Batches of one table are numbered upwards, and reading the same range again gives the
same order. A deletion carries the number of the row that it takes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from laminar.model.trace import ARRIVAL, WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BITS = 32
"""A batch may have so many rows, as a power of two, that are told apart."""

_ROW_BITS = 20


def numbered(table: pa.Table, batch: int, place: int = 0) -> pa.Table:
    """Number the rows of a batch that have no number, before the weight if there is one.

    The first of them is the row at `place` in the batch.
    """
    fresh = pa.array(np.arange(table.num_rows, dtype=np.int64) + ((batch << BITS) + place))
    names = table.column_names
    if ARRIVAL not in names:
        at = names.index(WEIGHT) if WEIGHT in names else len(names)
        return table.add_column(at, ARRIVAL, fresh)
    given = table.column(ARRIVAL)
    if given.null_count == 0:
        return table
    inserted = pc.and_(pc.is_null(given), pc.greater(table.column(WEIGHT), 0))
    return table.set_column(names.index(ARRIVAL), ARRIVAL, pc.if_else(inserted, fresh, given))


def numbered_frame(frame: DataFrame, batch: int) -> DataFrame:
    """Number the rows that Spark reads: by partition, then by place in it.

    Rows of a partition beyond a million share a number; equal numbers are ordered by value.
    """
    place = "MONOTONICALLY_INCREASING_ID()"
    row = f"LEAST({place} & {(1 << 33) - 1}L, {(1 << _ROW_BITS) - 1}L)"
    number = f"{batch << BITS}L + SHIFTLEFT(SHIFTRIGHT({place}, 33), {_ROW_BITS}) + {row}"
    return frame.selectExpr("*", f"{number} AS {ARRIVAL}")


def pending_number() -> str:
    """Render the number of a row that waits in a file named after its batch."""
    return (
        f"COALESCE({ARRIVAL}, IF({WEIGHT} > 0, SHIFTLEFT(CAST(SUBSTRING(_metadata.file_name, 1, 12)"
        f" AS BIGINT), {BITS}) + _metadata.row_index, NULL))"
    )
