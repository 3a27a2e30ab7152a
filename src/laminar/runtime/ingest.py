"""From pushed rows and connectors to the deltas that an epoch starts with."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
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
    ahead: Prefetch,
) -> list[Range]:
    """Return what is there to be taken; empty if all tables are idle."""
    found: list[Range] = []
    for name in tables:
        start = offsets.get(name)
        if name in sources:
            ready = ahead.range_after(name, start)
            end = ready.end if ready is not None else sources[name].latest_offset(start)
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

    def prepare(self, definition: TableDefinition, segment: Segment) -> None:
        """Let the store get ready to read what was just written."""
        self._store.prepare(definition.shape.stored, segment)

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


class Prefetch:
    """Reads what a source has next while an epoch runs; the next epoch finds it done.

    At most one batch per source is read ahead. Its files mean nothing until a manifest names
    them, so one that is never used is only debris.
    """

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="laminar-ingest")
        self._ahead: dict[str, tuple[Any, Future[tuple[Range, Segment | None] | None]]] = {}

    def start(self, definition: TableDefinition, source: Source, start: Any, epoch: int) -> None:
        """Begin to read the range after `start`."""

        def read() -> tuple[Range, Segment | None] | None:
            end = source.latest_offset(start)
            if end is None:
                return None
            taken = Range(definition.name, start, end)
            segment = self._ingest.read(taken, definition, epoch)
            if segment is not None:
                self._ingest.prepare(definition, segment)
            return taken, segment

        self._ahead[definition.name] = (start, self._pool.submit(read))

    def range_after(self, table: str, start: Any) -> Range | None:
        """Return the range that was read ahead from here, if there is one."""
        begun, future = self._ahead.get(table, (None, None))
        if future is None or begun != start:
            return None
        try:
            found = future.result()
        except Exception:
            del self._ahead[table]  # the next epoch tries anew: the cause may be mended by then
            raise
        return found[0] if found is not None else None

    def take(self, taken: Range, epoch: int) -> tuple[bool, Segment | None]:
        """Hand over a segment that was read ahead; say whether there was one."""
        begun, future = self._ahead.pop(taken.table, (None, None))
        found = future.result() if future is not None and begun == taken.start else None
        if found is None or found[0] != taken:
            return False, None
        segment = found[1]
        return True, segment and replace(segment, lo=epoch, hi=epoch)

    def forget(self) -> None:
        """Drop all that was read ahead, after an epoch that failed."""
        self._ahead.clear()

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True)
