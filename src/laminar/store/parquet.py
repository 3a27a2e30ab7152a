"""Segments as Parquet files through Arrow, and what is known of their rows; no Spark here.

A span says between which times the rows of a segment lie. It is found while the segment is written,
without a Spark job. A column is named by its path: `ts`, or `c3.end` for a field of a struct. A
column without a value, or one that is no time and no whole number, has no span.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar.errors.store import SegmentCorrupt, SegmentMissing
from laminar.model.trace import WEIGHT, Span
from laminar.store.durable_files import SummedFile, checksum_of

ROW_GROUP = 131_072
"""Small enough that Spark can split a large file between tasks and skip parts of it."""

_OPTIONS = {
    # As Spark itself does: its vectorised reader decodes integers much faster than byte arrays.
    "store_decimal_as_integer": True,
}

_FLOATING = re.compile(r"\b(float|double|real)\b", re.IGNORECASE)
_NOTHING_SKIPPED = {
    f"parquet.filter.{what}.enabled": "false"
    for what in ("stats", "dictionary", "columnindex", "bloom")
}


def reading_options(schema: str) -> dict[str, str]:
    """Return the options with which Spark reads files of a schema (DDL) and sees all that matches.

    Parquet takes NaN and -0.0 for other values than Spark does: what it knows of the least and the
    greatest value leaves NaN out, to Spark the greatest of all, and a dictionary that has -0.0 has
    no 0.0. A condition on a fraction would skip rows for which it holds.
    """
    return _NOTHING_SKIPPED if _FLOATING.search(schema) else {}


def weighted(table: pa.Table) -> pa.Table:
    """Return the table with a BIGINT weight; rows that came without one count once."""
    if WEIGHT not in table.column_names:
        return table.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))
    at = table.column_names.index(WEIGHT)
    weight = table.column(at)
    if weight.null_count:
        raise ValueError(f"{WEIGHT} must not be NULL")
    if weight.type == pa.int64():
        return table
    return table.set_column(at, WEIGHT, weight.cast(pa.int64()))


def weights(table: pa.Table) -> tuple[int, int]:
    """Return the smallest and the largest weight of a table that has rows."""
    found = pc.min_max(table[WEIGHT])
    return int(found["min"].as_py()), int(found["max"].as_py())


def positive(table: pa.Table) -> frozenset[str]:
    """Name the accumulators that are greater than zero in every row."""
    return frozenset(
        name
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name.startswith("__") and name != WEIGHT and _is_positive(column)
    )


def _is_positive(column: pa.ChunkedArray) -> bool:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return False
    # Not a number is greater than all numbers, and its sum with anything is not zero.
    return column.null_count == 0 and bool(pc.min(column).as_py() > 0)


def spans(table: pa.Table, times: Sequence[str]) -> dict[str, Span]:
    """Return the spans of columns of a table in memory."""
    found = ((path, _span(_column(table, path))) for path in times)
    return {path: span for path, span in found if span is not None}


def write(sink: SummedFile, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write tables of one schema as one file."""
    with pq.ParquetWriter(sink, schema, **_layout(schema)) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=ROW_GROUP)


@lru_cache(maxsize=1024)
def _layout(schema: pa.Schema) -> dict[str, Any]:
    """Say how each column is encoded.

    Texts and weights repeat, so they have a dictionary; for numbers one is dear to look up. Whole
    numbers and times are kept as differences, packed: half the size of compressed ones, at half
    the cost, and Spark reads them as fast. Fractions hardly compress.
    """
    repeats = [each.name for each in schema if each.name == WEIGHT or _is_text(each.type)]
    packed = [each.name for each in schema if each.name != WEIGHT and _is_whole(each.type)]
    plain = {*packed, *(each.name for each in schema if pa.types.is_floating(each.type))}
    leaves = {column.path for column in _columns(schema)}
    return {
        **_OPTIONS,
        "use_dictionary": repeats,
        "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        "compression": {path: "none" if path in plain else "lz4" for path in leaves},
    }


def _columns(schema: pa.Schema) -> list[pq.ColumnSchema]:
    """Return the columns as Parquet counts them: one for each leaf of a nested type."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema):
        pass
    found = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [found.column(at) for at in range(len(found))]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def encode(table: pa.Table) -> bytes:
    """Return the table as the bytes of a Parquet file, each page with its checksum."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=ROW_GROUP,
        compression="lz4",
        write_page_checksum=True,
        **_OPTIONS,
    )
    return bytes(sink.getvalue())


def decode(path: Path, expected: str | None = None) -> pa.Table:
    """Read back a file that `encode` made.

    Args:
        path: the file.
        expected: the checksum of all its bytes, where it is known. A page has its own, but not so
            the footer, which says what the pages mean.

    Raises:
        SegmentMissing: it is not there.
        SegmentCorrupt: it does not hold what was written.
    """
    try:
        data = path.read_bytes()
        found = checksum_of(data)
        if expected is not None and found != expected:
            raise SegmentCorrupt(str(path), f"checksum is {found}, written was {expected}")
        return pq.read_table(pa.BufferReader(data), page_checksum_verification=True)
    except FileNotFoundError:
        raise SegmentMissing(str(path)) from None
    except (OSError, pa.ArrowException) as error:
        raise SegmentCorrupt(str(path), str(error)) from error


def opened(path: Path) -> pq.ParquetFile:
    """Open a file for reading.

    Raises:
        SegmentMissing: it is not there.
        SegmentCorrupt: it is not Parquet.
    """
    try:
        # Spark may write timestamps as INT96; in nanoseconds most of the calendar does not fit.
        return pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
    except FileNotFoundError as error:
        raise SegmentMissing(str(path)) from error
    except (pa.ArrowException, OSError) as error:
        raise SegmentCorrupt(str(path), str(error)) from error


def count(path: Path) -> int:
    """Return how many rows a file has, from its footer."""
    with opened(path) as file:
        return int(file.metadata.num_rows)


def footer(path: Path) -> tuple[int, tuple[int, int]]:
    """Return the rows and the range of weights of a file, from its footer where it can tell."""
    with opened(path) as file:
        rows: int = file.metadata.num_rows
        if rows == 0:
            return 0, (0, 0)
        found = _statistics(file, WEIGHT)
        if found is None:
            return rows, weights(file.read(columns=[WEIGHT]))
        return rows, (int(found[0]), int(found[1]))


def spans_of_files(paths: Sequence[Path], times: Sequence[str]) -> dict[str, Span]:
    """Return the spans of columns of files just written, from their footers if those can tell."""
    found: dict[str, Span] = {}
    for time in times:
        known = [span for path in paths if (span := _span_of_file(path, time)) is not None]
        if known:
            found[time] = (min(span[0] for span in known), max(span[1] for span in known))
    return found


def _span_of_file(path: Path, time: str) -> Span | None:
    with opened(path) as file:
        low, high = map(_micros, _statistics(file, time) or (None, None))
        if low is not None and high is not None:
            return low, high
        # Spark may write times without statistics; the column alone is quickly read.
        return _span(_column(file.read(columns=[time]), time))


def conformed(paths: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows of files in order under one schema, in pieces worth a row group."""
    held: list[pa.Table] = []
    rows = 0
    for path in paths:
        for batch in _batches(path):
            held.append(_conform(pa.Table.from_batches([batch]), schema))
            rows += batch.num_rows
            # One write is at least one row group: many small ones would make a slow file.
            if rows >= ROW_GROUP:
                yield pa.concat_tables(held)
                held, rows = [], 0
    if held:
        yield pa.concat_tables(held)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with opened(path) as file:
        try:
            yield from file.iter_batches(batch_size=ROW_GROUP)
        except (pa.ArrowException, OSError) as error:
            raise SegmentCorrupt(str(path), str(error)) from error


def _statistics(file: pq.ParquetFile, path: str) -> tuple[Any, Any] | None:
    """Return the least and the largest value of a column; None unless every row group tells."""
    found: list[tuple[Any, Any]] = []
    for at in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(at)
        if group.num_rows == 0:
            continue
        columns = (group.column(place) for place in range(group.num_columns))
        column = next((each for each in columns if each.path_in_schema == path), None)
        if column is None or not column.is_stats_set or not column.statistics.has_min_max:
            return None
        found.append((column.statistics.min, column.statistics.max))
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


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


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Name, order and type columns as the schema says; Spark finds them in any case, as here."""
    if table.schema.equals(schema):
        return table
    found = {name.casefold(): at for at, name in enumerate(table.column_names)}
    columns = []
    for field in schema:
        at = found.get(field.name.casefold())
        # A column that was added later is NULL in older files.
        column = pa.nulls(table.num_rows, field.type) if at is None else table.column(at)
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)
