"""From pushed rows and connectors to the deltas that an epoch starts with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from laminar.connectors.source import Source, explain_failure, read_arrow
from laminar.model.trace import Segment
from laminar.runtime.definitions import TableDefinition
from laminar.store import PendingLog, SegmentStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Range:
    """What an epoch takes from one table: rows after `start`, up to and including `end`."""

    table: str
    start: Any
    end: Any


def pending_ranges(
    tables: Mapping[str, TableDefinition],
    sources: Mapping[str, Source],
    offsets: Mapping[str, Any],
    pending: PendingLog,
) -> list[Range]:
    """Return what is there to be taken; empty if all tables are idle."""
    found: list[Range] = []
    for name in tables:
        start = offsets.get(name)
        if name in sources:
            end = sources[name].latest_offset(start)
            if end is not None:
                found.append(Range(name, start, end))
        else:
            batches = pending.after(name, start or 0)
            if batches:
                found.append(Range(name, start or 0, batches[-1].seq))
    return found


class Ingest:
    """Turns ranges into segments."""

    def __init__(
        self,
        spark: SparkSession,
        store: SegmentStore,
        pending: PendingLog,
        sources: Mapping[str, Source],
    ) -> None:
        self._spark = spark
        self._store = store
        self._pending = pending
        self._sources = sources

    def read(self, taken: Range, definition: TableDefinition, epoch: int) -> Segment | None:
        """Store the rows of a range as a delta."""
        if taken.table in self._sources:
            return self._from_source(taken, definition, epoch)
        batches = self._pending.after(taken.table, taken.start)
        tables = [pq.read_table(each.path) for each in batches if each.seq <= taken.end]
        return self._store.write_arrow(taken.table, epoch, _concat(tables))

    def _from_source(self, taken: Range, definition: TableDefinition, epoch: int) -> Segment | None:
        source = self._sources[taken.table]
        table = read_arrow(source, taken.start, taken.end)
        if table is not None:
            return self._store.write_arrow(taken.table, epoch, table)
        try:
            frame = source.read(self._spark, taken.start, taken.end)
            return self._store.write_frame(taken.table, epoch, frame)
        except Exception as error:
            raise explain_failure(
                source, definition.name, self._spark, taken.start, taken.end, error
            ) from error


def _concat(tables: list[pa.Table]) -> pa.Table:
    import pyarrow as pa

    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)
