"""From pushed rows and connectors to the deltas that an epoch starts with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from laminar.bridge.prefix import Prefix, PrefixStage
from laminar.connectors.source import LiveSource, Source, explain_failure, read_arrow
from laminar.model.trace import Segment
from laminar.runtime.catalog.definitions import TableDefinition
from laminar.runtime.catalog.time_settings import TimeSettings
from laminar.runtime.ingest.arrival_numbers import numbered, numbered_frame
from laminar.runtime.ingest.future_rows import split
from laminar.runtime.ingest.partition_times import WHOLE, largest, largest_of_files, without
from laminar.runtime.spark.workspace import Workspace
from laminar.store import PendingLog, Range, discard

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range that was read: its segment, and rows that stay out of it."""

    segment: Segment | None
    ahead: pa.Table | None = None
    largest: Mapping[str, int] = field(default_factory=dict)
    """Part of the source -> its largest event time."""
    delivered: int | None = None
    """Set if the segment is a delta of its table already: how many rows the source gave for it."""

    @property
    def rows(self) -> int:
        """How many rows the source gave, without those in the future."""
        if self.delivered is not None:
            return self.delivered
        return 0 if self.segment is None else self.segment.rows

    def joined(self, other: ReadRange) -> ReadRange:
        """Return both as one range; the other one follows this one."""
        marks = dict(self.largest)
        for part, mark in other.largest.items():
            marks[part] = max(mark, marks.get(part, mark))
        tables = [each for each in (self.ahead, other.ahead) if each is not None]
        segments = [each for each in (self.segment, other.segment) if each is not None]
        segment = segments[0] if segments else None
        if len(segments) == 2:
            segment = segments[0].joined(segments[1])
        return ReadRange(segment, _concat(tables) if tables else None, marks)


class RangeReader:
    """Turns ranges into segments.

    Args:
        workspace: epoch -> where it works.
        pending: rows that were pushed.
        sources: connectors by table.
        settings: how far ahead of the wall clock rows may be.
        prefix: what is kept of a source; None if that is all.
    """

    def __init__(
        self,
        workspace: Callable[[int], Workspace],
        pending: PendingLog,
        sources: Mapping[str, Source],
        settings: TimeSettings,
        prefix: Callable[[str], Prefix | None],
    ) -> None:
        self._workspace = workspace
        self._pending = pending
        self._sources = sources
        self._settings = settings
        self._prefix = prefix
        self.stages: dict[str, PrefixStage] = {}

    def read(self, taken: Range, definition: TableDefinition, epoch: int, now_ms: int) -> ReadRange:
        """Store the rows of a range as a delta."""
        if taken.table in self._sources:
            found = self.load(taken, definition, epoch, now_ms)
            if isinstance(found, ReadRange):
                return found
            marks = self.marks(definition, found, now_ms)
            return self.write(definition, epoch, self.kept(definition, found), marks, now_ms)
        batches = self._pending.between(taken.table, taken.start, taken.end)
        tables = [numbered(each.read(), each.seq) for each in batches]
        rows = _concat(tables)
        marks = self.marks(definition, rows, now_ms)
        return self.write(definition, epoch, self.kept(definition, rows), marks, now_ms)

    def kept(self, definition: TableDefinition, table: pa.Table) -> pa.Table:
        """Return what is stored of rows, where that is not all of them."""
        prefix = self.prefix(definition)
        if prefix is None:
            return table
        return self.stages.setdefault(definition.name, PrefixStage()).run(prefix, table)

    def prefix(self, definition: TableDefinition) -> Prefix | None:
        """Return what is kept of a table's rows as they come; None if that is all.

        Of a connector with a primary key the newest row of each key is all that an epoch needs.
        Where a row may turn out to lie in the future and not count, the one before it might.
        """
        prefix = self._prefix(definition.name)
        is_sure = definition.event_time is None or not self._is_live(definition)
        if prefix is None and definition.connector and definition.upserts and is_sure:
            return Prefix(definition.shape.columns, key=definition.primary_key)
        return prefix

    def now(self) -> int:
        """Return the wall clock, in milliseconds."""
        return self._settings.clock()

    def load(
        self, taken: Range, definition: TableDefinition, number: int, now_ms: int
    ) -> pa.Table | ReadRange:
        """Read a range of a connector: into memory, or by Spark into a segment.

        Args:
            taken: what to read.
            definition: the table it is for.
            number: of the batch; rows that Spark reads are numbered at once.
            now_ms: the wall clock, for rows in the future.
        """
        source = self._sources[taken.table]
        spark, store = self._workspace(number).session, self._workspace(number).store
        table = read_arrow(source, taken.start, taken.end)
        if table is not None:
            return table
        try:
            frame = source.read(spark, taken.start, taken.end)
            frame = numbered_frame(frame, number)
            segment = store.write_frame(taken.table, number, frame, _times(definition))
        except Exception as error:
            raise explain_failure(
                source, definition.name, spark, taken.start, taken.end, error
            ) from error
        if self._is_live(definition):
            return self._without_future(segment, definition, number, now_ms)
        return ReadRange(segment, None, _largest(store.root, segment, definition))

    def marks(self, definition: TableDefinition, table: pa.Table, now_ms: int) -> dict[str, int]:
        """Return part -> its largest event time, of rows that are not in the future."""
        time = definition.event_time
        if time is None:
            return {}
        if self._is_live(definition):
            table, _ = split(table, time, self._limit(now_ms))
        return largest(table, time)

    def write(
        self,
        definition: TableDefinition,
        number: int,
        table: pa.Table,
        marks: Mapping[str, int],
        now_ms: int,
        place: int = 0,
    ) -> ReadRange:
        """Write rows as a segment, without those far in the future.

        Args:
            definition: the table.
            number: of the batch.
            table: its rows; those that have no number yet get one.
            marks: how far in time each part has come.
            now_ms: the wall clock.
            place: how many rows of the batch were written before.
        """
        rows, ahead = numbered(table, number, place), None
        if definition.event_time is not None and self._is_live(definition):
            rows, ahead = split(rows, definition.event_time, self._limit(now_ms))
        rows = without(rows)
        store = self._workspace(number).store
        segment = store.write_arrow(definition.name, number, rows, _times(definition))
        return ReadRange(segment, ahead, marks)

    def _is_live(self, definition: TableDefinition) -> bool:
        """Whether a row far ahead of the wall clock is a mistake; pushed ones always are."""
        source = self._sources.get(definition.name)
        return source is None or (isinstance(source, LiveSource) and source.live)

    def _without_future(
        self, segment: Segment | None, definition: TableDefinition, number: int, now_ms: int
    ) -> ReadRange:
        """Write a segment again if it knows of rows in the future, which is rare."""
        root, time = self._workspace(number).store.root, definition.event_time
        limit = self._limit(now_ms)
        if segment is None or time is None or segment.spans.get(time, (0, 0))[1] <= limit:
            return ReadRange(segment, None, _largest(root, segment, definition))
        paths = [root / name for name in segment.files]
        rows = _concat([pq.read_table(path, coerce_int96_timestamp_unit="us") for path in paths])
        marks = self.marks(definition, rows, now_ms)
        taken = self.write(definition, number, rows, marks, now_ms)
        discard(root, segment.files)
        return taken

    def _limit(self, now_ms: int) -> int:
        return (now_ms + self._settings.future_ms) * 1000


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

    # What is kept of a source may change from batch to batch, and a column that is gone is NULL.
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
