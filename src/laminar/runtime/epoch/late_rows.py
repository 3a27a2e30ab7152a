"""Rows that came too late: counted, kept for looking at, and sent where the user wants them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from laminar.delta.change import Version, consolidate, quote, table
from laminar.delta.lateness import below, late_rows
from laminar.delta.program import Late
from laminar.delta.render import change
from laminar.errors import SegmentMissing
from laminar.model.quoting import string_literal
from laminar.model.trace import WEIGHT, Segment, Trace
from laminar.runtime.event_time.late_batch import LATE_DDL, LATE_ROWS, LATE_SCHEMA, LateBatch
from laminar.store import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from laminar.runtime.relations.bindings import Bindings


class LateRows:
    """Finds the rows of one epoch that came too late; `batches` has them by relation."""

    def __init__(self, bindings: Bindings, epoch: int) -> None:
        self._bindings = bindings
        self._epoch = epoch
        self.batches: list[LateBatch] = []

    def rows(self, late: Late) -> DataFrame | None:
        """Return the rows that came and were late; None if there can be none."""
        sql = self._sql(late)
        if sql is None:
            return None
        pairs = zip(late.columns, late.shape.columns, strict=True)
        items = ", ".join(f"{column} AS {quote(name)}" for column, name in pairs)
        rows = f"SELECT {items}, {WEIGHT} FROM ({sql}) WHERE {WEIGHT} > 0"
        return self._bindings.compute(rows, (*late.reads, *self._sessions(late)))

    def count(self, view: str, late: Late, limit: int) -> None:
        """Count what was late for a view, and keep some of it."""
        sql = self._sql(late)
        if sql is None:
            return
        pairs = zip(late.columns, late.shape.columns, strict=True)
        items = ", ".join(f"{column} AS {quote(name)}" for column, name in pairs)
        event = late.time if late.sessions is None else "CAST(NULL AS TIMESTAMP)"
        listed = (
            f"SELECT CAST({self._epoch} AS BIGINT) AS epoch, {string_literal(view)} AS relation, "
            f"'late' AS reason, CAST({event} AS TIMESTAMP) AS event_time, "
            f"TO_JSON(STRUCT({items})) AS `row`, {WEIGHT} FROM ({sql})"
        )
        names = (*late.reads, *self._sessions(late))
        found = self._bindings.compute(f"{listed} LIMIT {limit + 1}", names).toArrow()
        if found.num_rows == 0:
            return
        count = sum(abs(weight) for weight in found.column(WEIGHT).to_pylist())
        if found.num_rows > limit:
            total = self._bindings.compute(f"SELECT SUM(ABS({WEIGHT})) AS n FROM ({sql})", names)
            count = int(total.collect()[0][0])
        self.batches.append(LateBatch(view, count, found.slice(0, limit).cast(LATE_SCHEMA)))

    def _sql(self, late: Late) -> str | None:
        bound = self._bindings.horizon(late.horizon)
        rows = change(late.node, self._bindings.states).delta
        if bound is None or rows is None or self._bindings.first:
            return None
        sql = late_rows(rows, late.time, late.is_once, bound)
        if late.sessions is not None:
            name, match = late.sessions
            row = self._bindings.relations.by_name[name].shape.row
            kept = consolidate(f"SELECT * FROM {table(name, Version.AFTER)}", row)
            is_final = below(late.horizon.path, bound)
            held = f"SELECT * FROM ({kept}) WHERE {WEIGHT} > 0 AND NOT ({is_final})"
            sql = f"SELECT t.* FROM ({sql}) t LEFT ANTI JOIN ({held}) s ON {match}"
        return sql

    def _sessions(self, late: Late) -> tuple[str, ...]:
        return () if late.sessions is None else (late.sessions[0],)


def keep(
    batches: list[LateBatch],
    store: SegmentStore,
    epoch: int,
    traces: dict[str, Trace],
    limit: int,
) -> None:
    """Add rows to those that are kept, and drop the oldest beyond a limit."""
    if not batches:
        return
    segment = store.write_arrow(LATE_ROWS, epoch, pa.concat_tables([each.rows for each in batches]))
    if segment is not None:
        kept = traces.get(LATE_ROWS, Trace(LATE_DDL)).append(segment)
        traces[LATE_ROWS] = bounded(kept, limit)


def read_kept(root: Path, trace: Trace | None, limit: int) -> pa.Table:
    """Return the newest rows that are kept."""
    paths = [] if trace is None else [root / file for file in trace.files]
    try:
        tables = [pq.read_table(path).cast(LATE_SCHEMA) for path in paths]
    except FileNotFoundError as error:  # a reader that is behind: the writer has let go of it
        raise SegmentMissing(str(error.filename or error)) from None
    found = pa.concat_tables(tables) if tables else LATE_SCHEMA.empty_table()
    return found.drop([WEIGHT]).slice(max(0, found.num_rows - limit))


def bounded(trace: Trace, limit: int) -> Trace:
    """Drop the oldest segments of kept rows as long as enough remain."""
    kept: list[Segment] = []
    rows = 0
    for segment in reversed(trace.segments):
        if rows >= limit:
            break
        kept.append(segment)
        rows += segment.rows
    return Trace(trace.schema, tuple(reversed(kept)))
