"""What is done to rows as they come in: weighed, numbered, split by time, asked how far they are.

Rows of tables are numbered in the order they come; FIRST and LAST go by it. A number is that of a
batch (what was pushed together, or an epoch's range of a source) and the place in it. Batches of
one table are numbered upwards, and reading the same range again gives the same order. A deletion
carries the number of the row that it takes back.

A source that is read in parts (a topic's partitions, say) names the part of each row in a column
that only the engine sees: its watermark is the least of theirs. Rows far ahead of the wall clock
would make all others late, so they stay out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from laminar.connectors.source import LiveSource, Source, takes_back
from laminar.delta.change import quote
from laminar.errors import TakesNothingBack
from laminar.model.trace import ARRIVAL, PARTITION, WEIGHT
from laminar.runtime.catalog.definitions import Pairs, TableDefinition
from laminar.runtime.catalog.settings import TimeSettings
from laminar.runtime.event_time.late_batch import LATE_SCHEMA, LateBatch
from laminar.store.parquet import weighted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BITS = 32
"""A batch may have so many rows, as a power of two, that are told apart."""

WHOLE = "0"
"""The one part of a source that has no others."""

_ROW_BITS = 20


# Numbers


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


# Weights


def weighed(name: str, rows: pa.Table, *, takes_back: bool) -> pa.Table:
    """Return rows with the weights that their source gave them; 1 is not written down.

    Args:
        name: of the source.
        rows: as it delivered them.
        takes_back: whether it said that it takes rows back; then all have a weight.

    Raises:
        TakesNothingBack: they have weights that they must not have.
    """
    if WEIGHT not in rows.column_names:
        return weighted(rows) if takes_back else rows
    kind = rows.schema.field(WEIGHT).type
    _refuse_weights(name, takes_back=takes_back, is_whole=pa.types.is_integer(kind), kind=kind)
    weights = rows.column(WEIGHT)
    if weights.null_count:
        raise TakesNothingBack(name, "a weight is NULL")
    found = weighted(rows)
    there = pc.not_equal(found.column(WEIGHT), 0)
    return found if pc.all(there).as_py() in (None, True) else found.filter(there)


def weighed_frame(name: str, frame: DataFrame, *, takes_back: bool) -> DataFrame:
    """Return the same of rows that Spark reads."""
    if WEIGHT not in frame.columns:
        return frame
    kind = frame.schema[WEIGHT].dataType.simpleString()
    is_whole = kind in ("tinyint", "smallint", "int", "bigint")
    _refuse_weights(name, takes_back=takes_back, is_whole=is_whole, kind=kind)
    others = [quote(each) for each in frame.columns if each != WEIGHT]
    weight = f"COALESCE(CAST({WEIGHT} AS BIGINT), RAISE_ERROR('a weight is NULL')) AS {WEIGHT}"
    return frame.selectExpr(*others, weight).where(f"{WEIGHT} <> 0")


def _refuse_weights(name: str, *, takes_back: bool, is_whole: bool, kind: object) -> None:
    if not takes_back:
        reason = f"there is a column {WEIGHT}, and its connector says that it takes nothing back"
        raise TakesNothingBack(name, reason)
    if not is_whole:
        raise TakesNothingBack(name, f"{WEIGHT} is of type {kind}, which is no whole number")


# Texts


def filled(table: pa.Table, chars: Pairs) -> pa.Table:
    """Return rows with the blanks that CHAR(n) has, as Spark reads them; longer texts stay."""
    for name, length in chars:
        at = table.column_names.index(name)
        texts = table.column(at).cast(pa.large_string())
        full = pc.utf8_rpad(texts, width=int(length), padding=" ")
        table = table.set_column(at, table.schema.field(at), full.cast(table.schema.field(at).type))
    return table


def filled_frame(frame: DataFrame, chars: Pairs) -> DataFrame:
    """Return the same of rows that Spark reads."""
    columns = {
        name: f"IF(CHAR_LENGTH({quote(name)}) < {length}, RPAD({quote(name)}, {length}),"
        f" {quote(name)}) AS {quote(name)}"
        for name, length in chars
    }
    return frame.selectExpr(*(columns.get(name, quote(name)) for name in frame.columns))


# Times


def is_live(source: Source | None) -> bool:
    """Whether a row far ahead of the wall clock is a mistake; a pushed one always is.

    One that may be taken back is none: what stays out could not be taken back later.
    """
    return source is None or (
        isinstance(source, LiveSource) and source.live and not takes_back(source)
    )


@dataclass(frozen=True, slots=True)
class RowTimes:
    """The event time of a table's rows, and when one of them is too far in the future.

    Where a method takes the wall clock, None stands for the one of now.
    """

    column: str | None
    """None if its rows have no time."""
    is_live: bool
    settings: TimeSettings

    @classmethod
    def of(
        cls, definition: TableDefinition, source: Source | None, settings: TimeSettings
    ) -> RowTimes:
        """Return those of a table whose rows come from a source, or are pushed."""
        return cls(definition.event_time, is_live(source), settings)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of which a segment shall know the span."""
        return () if self.column is None else (self.column,)

    def split(self, rows: pa.Table, now_ms: int | None = None) -> tuple[pa.Table, pa.Table | None]:
        """Return the rows that come in, and those that lie in the future if there are any."""
        if self.column is None or not self.is_live:
            return rows, None
        return split_at(rows, self.column, self.limit(now_ms))

    def largest(self, rows: pa.Table, now_ms: int | None = None) -> dict[str, int]:
        """Return part -> its largest event time, of rows that are not in the future."""
        if self.column is None:
            return {}
        return largest(self.split(rows, now_ms)[0], self.column)

    def limit(self, now_ms: int | None) -> int:
        """Return the last time that is not the future, in microseconds from 1970."""
        now = self.settings.clock() if now_ms is None else now_ms
        return (now + self.settings.future_ms) * 1000


def split_at(table: pa.Table, column: str, limit_us: int) -> tuple[pa.Table, pa.Table | None]:
    """Return the rows up to a time, and those after it if there are any; NULL is no time."""
    times = _micros(table, column)
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


# Parts


def largest(table: pa.Table, column: str) -> dict[str, int]:
    """Return part -> its largest event time, of rows in memory."""
    times = _micros(table, column)
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


def without_part(table: pa.Table) -> pa.Table:
    """Return the rows without the name of their part."""
    return table.drop([PARTITION]) if PARTITION in table.column_names else table


def _micros(table: pa.Table, column: str) -> pa.ChunkedArray:
    return table.column(column).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
