"""Between which times the rows of a segment lie: found while it is written, without a Spark job.

A column is named by its path: `ts`, or `c3.end` for a field of a struct. A column without a value,
or one that is no time and no whole number, has no span.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar.model.trace import Span
from laminar.store import parquet


def of_table(table: pa.Table, times: Sequence[str]) -> dict[str, Span]:
    """Return the spans of columns of a table in memory."""
    found = {}
    for path in times:
        span = _span(_column(table, path))
        if span is not None:
            found[path] = span
    return found


def of_files(paths: Sequence[Path], times: Sequence[str]) -> dict[str, Span]:
    """Return the spans of columns of files just written, from their footers if those can tell."""
    found: dict[str, Span] = {}
    for time in times:
        spans = [span for path in paths if (span := _of_file(path, time)) is not None]
        if spans:
            found[time] = (min(span[0] for span in spans), max(span[1] for span in spans))
    return found


def _of_file(path: Path, time: str) -> Span | None:
    with parquet.opened(path) as file:
        groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
        known = [_statistics(group, time) for group in groups if group.num_rows]
        spans = [span for span in known if span is not None]
        if spans and len(spans) == len(known):
            return min(span[0] for span in spans), max(span[1] for span in spans)
        # Spark may write times without statistics; the column alone is quickly read.
        return _span(_column(file.read(columns=[time]), time))


def _statistics(group: pq.RowGroupMetaData, time: str) -> Span | None:
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema == time:
            if not column.is_stats_set or not column.statistics.has_min_max:
                return None
            low, high = _micros(column.statistics.min), _micros(column.statistics.max)
            return None if low is None or high is None else (low, high)
    return None


def _column(table: pa.Table, path: str) -> Any:
    name, *fields = path.split(".")
    column = table.column(name)
    return pc.struct_field(column, fields) if fields else column


def _span(column: Any) -> Span | None:
    if not (pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)):
        return None
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    ends = pc.min_max(column).as_py()
    return None if ends["min"] is None else (ends["min"], ends["max"])


def _micros(value: Any) -> int | None:
    if isinstance(value, int):
        return value
    if not hasattr(value, "tzinfo"):
        return None
    return pa.scalar(value, pa.timestamp("us", value.tzinfo and "UTC")).value  # type: ignore[no-any-return]
