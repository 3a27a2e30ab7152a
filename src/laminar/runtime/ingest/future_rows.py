"""Rows far ahead of the wall clock, which would make all others late."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from laminar.model.trace import ARRIVAL, WEIGHT
from laminar.runtime.event_time.late_batch import LATE_SCHEMA, LateBatch


def split(table: pa.Table, column: str, limit_us: int) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows up to a time, and those after it if there are any; NULL is no time."""
    times = table.column(column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    high = pc.max(times).as_py()
    if high is None or high <= limit_us:
        return table, None
    ahead = pc.fill_null(pc.greater(times, limit_us), False)
    return table.filter(pc.invert(ahead)), table.filter(ahead)


def as_late(relation: str, column: str, rows: pa.Table, epoch: int, limit: int) -> LateBatch:
    """Return rows that stay out of a table as late ones; some of them are kept."""
    kept = rows.slice(0, limit)
    shown = kept.drop([name for name in (ARRIVAL, WEIGHT) if name in kept.column_names])
    texts = [json.dumps(row, default=str) for row in shown.to_pylist()]
    weights = (
        kept.column(WEIGHT).combine_chunks()
        if WEIGHT in kept.column_names
        else pa.array([1] * kept.num_rows, pa.int64())
    )
    table = pa.table(
        {
            "epoch": pa.array([epoch] * kept.num_rows, pa.int64()),
            "relation": pa.array([relation] * kept.num_rows),
            "reason": pa.array(["future"] * kept.num_rows),
            "event_time": kept.column(column).cast(pa.timestamp("us", tz="UTC")),
            "row": pa.array(texts, pa.string()),
            WEIGHT: weights,
        },
        schema=LATE_SCHEMA,
    )
    return LateBatch(relation, rows.num_rows, table)
