"""How far each part of a source has come: a watermark is the least of them.

A source that is read in parts (a topic's partitions, say) names the part of each row in a column
that only the engine sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar.model.trace import PARTITION

WHOLE = "0"
"""The one part of a source that has no others."""


def largest(table: pa.Table, column: str) -> dict[str, int]:
    """Return part -> its largest event time, of rows in memory."""
    times = table.column(column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    if PARTITION not in table.column_names:
        high = pc.max(times).as_py()
        return {} if high is None else {WHOLE: high}
    parts = table.column(PARTITION).cast(pa.string())
    grouped = pa.table({"part": parts, "time": times}).group_by("part").aggregate([("time", "max")])
    pairs = zip(grouped["part"].to_pylist(), grouped["time_max"].to_pylist(), strict=True)
    return {part: high for part, high in pairs if part is not None and high is not None}


def largest_of_files(paths: Sequence[Path], column: str) -> dict[str, int]:
    """Return the same, of files that Spark has written."""
    found: dict[str, int] = {}
    for path in paths:
        file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        if PARTITION in file.schema_arrow.names:
            for part, high in largest(file.read(columns=[column, PARTITION]), column).items():
                found[part] = max(high, found.get(part, high))
    return found


def without(table: pa.Table) -> pa.Table:
    """Return the rows without the name of their part."""
    return table.drop([PARTITION]) if PARTITION in table.column_names else table
