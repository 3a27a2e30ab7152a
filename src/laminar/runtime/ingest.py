"""From pushed rows and connectors to the deltas that an epoch starts with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from laminar.connectors.source import LiveSource, Source, explain_failure, read_arrow
from laminar.model.trace import Segment
from laminar.runtime.arrivals import numbered, numbered_frame
from laminar.runtime.definitions import TableDefinition
from laminar.runtime.future import split
from laminar.runtime.partitions import WHOLE, largest, largest_of_files, without
from laminar.runtime.rooms import Room
from laminar.runtime.time_settings import TimeSettings
from laminar.store import PendingLog, Range, discard

if TYPE_CHECKING:
    import pyarrow as pa


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


@dataclass(frozen=True, slots=True)
class Taken:
    """A range that was read: its segment, and rows that stay out of it."""

    segment: Segment | None
    ahead: pa.Table | None = None
    largest: Mapping[str, int] = field(default_factory=dict)
    """Part of the source -> its largest event time."""


class Ingest:
    """Turns ranges into segments.

    Args:
        room: epoch -> where it works.
        pending: rows that were pushed.
        sources: connectors by table.
        settings: how far ahead of the wall clock rows may be.
    """

    def __init__(
        self,
        room: Callable[[int], Room],
        pending: PendingLog,
        sources: Mapping[str, Source],
        settings: TimeSettings,
    ) -> None:
        self._room = room
        self._pending = pending
        self._sources = sources
        self._settings = settings

    def read(self, taken: Range, definition: TableDefinition, epoch: int, now_ms: int) -> Taken:
        """Store the rows of a range as a delta."""
        limit = (now_ms + self._settings.future_ms) * 1000
        if taken.table in self._sources:
            return self._from_source(taken, definition, epoch, limit)
        batches = self._pending.after(taken.table, taken.start)
        tables = [
            numbered(pq.read_table(each.path), each.seq)
            for each in batches
            if each.seq <= taken.end
        ]
        return self._write(definition, epoch, _concat(tables), limit)

    def now(self) -> int:
        """Return the wall clock, in milliseconds."""
        return self._settings.clock()

    def prepare(self, definition: TableDefinition, segment: Segment, epoch: int) -> None:
        """Let the epoch's store get ready to read what was just written."""
        self._room(epoch).store.prepare(definition.shape.numbered, segment)

    def _from_source(
        self, taken: Range, definition: TableDefinition, epoch: int, limit: int
    ) -> Taken:
        source = self._sources[taken.table]
        spark, store = self._room(epoch).session, self._room(epoch).store
        is_live = isinstance(source, LiveSource) and source.live
        table = read_arrow(source, taken.start, taken.end)
        if table is not None:
            rows = numbered(table, epoch)
            return self._write(definition, epoch, rows, limit if is_live else None)
        try:
            frame = source.read(spark, taken.start, taken.end)
            frame = numbered_frame(frame, epoch)
            segment = store.write_frame(taken.table, epoch, frame, _times(definition))
        except Exception as error:
            raise explain_failure(
                source, definition.name, spark, taken.start, taken.end, error
            ) from error
        if is_live:
            return self._without_future(segment, definition, epoch, limit)
        return Taken(segment, None, _largest(store.root, segment, definition))

    def _write(
        self, definition: TableDefinition, epoch: int, table: pa.Table, limit: int | None
    ) -> Taken:
        ahead, marks = None, {}
        if definition.event_time is not None:
            if limit is not None:
                table, ahead = split(table, definition.event_time, limit)
            marks = largest(table, definition.event_time)
        rows = without(table)
        segment = self._room(epoch).store.write_arrow(
            definition.name, epoch, rows, _times(definition)
        )
        return Taken(segment, ahead, marks)

    def _without_future(
        self, segment: Segment | None, definition: TableDefinition, epoch: int, limit: int
    ) -> Taken:
        """Write a segment again if it knows of rows in the future, which is rare."""
        root, time = self._room(epoch).store.root, definition.event_time
        if segment is None or time is None or segment.spans.get(time, (0, 0))[1] <= limit:
            return Taken(segment, None, _largest(root, segment, definition))
        paths = [root / name for name in segment.files]
        rows = _concat([pq.read_table(path, coerce_int96_timestamp_unit="us") for path in paths])
        taken = self._write(definition, epoch, rows, limit)
        discard(root, segment.files)
        return taken


def _largest(root: Path, segment: Segment | None, definition: TableDefinition) -> Mapping[str, int]:
    time = definition.event_time
    if segment is None or time is None:
        return {}
    by_part = largest_of_files([root / name for name in segment.files], time)
    if by_part or time not in segment.spans:
        return by_part
    return {WHOLE: segment.spans[time][1]}


def _times(definition: TableDefinition) -> tuple[str, ...]:
    return () if definition.event_time is None else (definition.event_time,)


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
        self._ahead: dict[str, tuple[Any, Future[tuple[Range, Taken] | None]]] = {}

    def start(self, definition: TableDefinition, source: Source, start: Any, epoch: int) -> None:
        """Begin to read the range after `start`."""

        def read() -> tuple[Range, Taken] | None:
            end = source.latest_offset(start)
            if end is None:
                return None
            taken = Range(definition.name, start, end)
            done = self._ingest.read(taken, definition, epoch, self._ingest.now())
            if done.segment is not None:
                self._ingest.prepare(definition, done.segment, epoch)
            return taken, done

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

    def take(self, taken: Range, epoch: int) -> Taken | None:
        """Hand over what was read ahead, if it was."""
        begun, future = self._ahead.pop(taken.table, (None, None))
        found = future.result() if future is not None and begun == taken.start else None
        if found is None or found[0] != taken:
            return None
        segment = found[1].segment
        return replace(found[1], segment=segment and replace(segment, lo=epoch, hi=epoch))

    def settle(self) -> None:
        """Wait for what is being read ahead, and drop it."""
        for _, future in self._ahead.values():
            future.exception()
        self.forget()

    def forget(self) -> None:
        """Drop all that was read ahead, after an epoch that failed."""
        self._ahead.clear()

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True)
