"""Parquet: typed columns, found by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")


def read_parquet(path: Path, schema: pa.Schema) -> pa.Table | None:
    """Return the rows of a file; None unless its types are exactly the declared ones."""
    if not path.stat().st_size:
        return schema.empty_table()
    try:
        with pq.ParquetFile(path) as file:
            found = file.schema_arrow
            if not _same_types(found, schema):
                return None
            present = [name for name in schema.names if name in found.names]
            table = file.read(columns=present)
    except pa.ArrowInvalid:
        return None
    columns = [
        table[field.name].cast(field.type)
        if field.name in present
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _same_types(found: pa.Schema, declared: pa.Schema) -> bool:
    # Old Spark wrote dates in another calendar and said so; Spark turns them, Arrow does not.
    if any(key in (found.metadata or {}) for key in _OLD_CALENDAR):
        return False
    folded = {field.name.casefold(): field for field in found}
    if len(folded) < len(found):
        return False
    for field in declared:
        there = folded.get(field.name.casefold())
        # Spark finds a column whatever its case, and decides which types may be widened.
        if there is not None and (there.name != field.name or there.type != field.type):
            return False
    # Without any of the columns there would be nothing to tell the number of rows by.
    return any(field.name.casefold() in folded for field in declared)
