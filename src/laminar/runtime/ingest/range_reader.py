"""A range of a source is read: by Arrow, or by Spark where that cannot.

Arrow brings rows for the bridge; Spark writes them straight into a segment, numbered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from laminar.connectors.source import (
    ArrowSource,
    RefusingSource,
    Source,
    explain_failure,
    takes_back,
)
from laminar.errors import ConnectorHung
from laminar.model.trace import Segment
from laminar.runtime.ingest.arriving_rows import (
    WHOLE,
    filled,
    filled_frame,
    largest_of_files,
    numbered_frame,
    weighed,
    weighed_frame,
)
from laminar.runtime.ingest.connector_thread import Left
from laminar.runtime.ingest.read_range import (
    RangeNote,
    ReadRange,
    SegmentWriter,
    Stored,
    concatenated,
)
from laminar.runtime.spark.workspace import Workspace
from laminar.store import Range, discard

_T = TypeVar("_T")


class Call(Protocol):
    """Makes a call into a connector."""

    def __call__(self, what: str, work: Callable[[], _T], /) -> _T:
        """Return what the call returns."""
        ...


def directly(_what: str, work: Callable[[], _T], /) -> _T:
    """Make a call here and now."""
    return work()


class RangeReader:
    """Reads ranges of one source.

    Args:
        source: what is read.
        segments: writes again what Spark has read that has rows in the future.
        workspace: epoch -> where Spark works for it.
        prefix: what is kept of rows that Arrow reads; None if that is all of them.
        call: makes a call into the connector.
    """

    def __init__(
        self,
        source: Source,
        segments: SegmentWriter,
        workspace: Callable[[int], Workspace],
        prefix: Callable[[pa.Table], pa.Table] | None = None,
        call: Call = directly,
    ) -> None:
        self._call = call
        self._source = source
        self._takes_back = takes_back(source)
        self._arrow = source if isinstance(source, ArrowSource) else None
        self._segments = segments
        self._chars = segments.definition.chars
        self._times = segments.times
        self._prefix = prefix
        self._workspace = workspace

    def read(
        self, taken: Range, number: int, now_ms: int | None = None
    ) -> tuple[pa.Table | Stored, RangeNote]:
        """Read a range: what is kept of its rows, and what is known of all of them.

        Args:
            taken: what to read.
            number: of the epoch; rows that Spark reads are numbered at once.
            now_ms: the wall clock that the epoch goes by; None if it is not begun.
        """
        table = None
        if self._arrow is not None:
            ask = partial(self._arrow.read_arrow, taken.start, taken.end)
            table = self._call("read_arrow", ask)
        if table is None:
            done = self._by_spark(taken, number, now_ms)
            late = 0 if done.ahead is None else done.ahead.num_rows
            read = done.rows + late
            return Stored(done), RangeNote(done.largest, read, refused=self._refused(taken))
        weighed_rows = weighed(taken.table, table, takes_back=self._takes_back)
        table = filled(weighed_rows, self._chars)
        marks = self._times.largest(table, now_ms)  # of all rows, wanted or not
        kept = table if self._prefix is None else self._prefix(table)
        unused = table.num_rows - kept.num_rows
        return kept, RangeNote(marks, table.num_rows, unused, self._refused(taken))

    def _refused(self, taken: Range) -> int:
        source = self._source
        if not isinstance(source, RefusingSource):
            return 0
        return self._call("refused", partial(source.refused, taken.start, taken.end))

    def _by_spark(self, taken: Range, number: int, now_ms: int | None) -> ReadRange:
        """Read a range into a segment, without rows far in the future."""
        segment = self._written(taken, number)
        root = self._segments.store.root
        if segment is None or not self._has_future(segment, now_ms):
            return ReadRange(segment, None, self._largest(root, segment))
        # Such rows are rare, so the segment is written twice then.
        paths = [root / name for name in segment.files]
        tables = [pq.read_table(path, coerce_int96_timestamp_unit="us") for path in paths]
        rows = concatenated(tables)
        marks = self._times.largest(rows, now_ms)
        again = self._segments.write(number, rows, marks, now_ms=now_ms)
        discard(root, segment.files)
        return again

    def _written(self, taken: Range, number: int) -> Segment | None:
        workspace = self._workspace(number)
        source, spark, times = self._source, workspace.session, self._times.columns
        try:
            frame = self._call("read", partial(source.read, spark, taken.start, taken.end))
            frame = weighed_frame(taken.table, frame, takes_back=self._takes_back)
            if self._chars:
                frame = filled_frame(frame, self._chars)
            frame = numbered_frame(frame, number)
            return workspace.store.write_frame(taken.table, number, frame, times)
        except (ConnectorHung, Left):
            raise
        except Exception as error:
            raise explain_failure(
                source, taken.table, spark, taken.start, taken.end, error
            ) from error

    def _has_future(self, segment: Segment, now_ms: int | None) -> bool:
        time = self._times.column
        if time is None or not self._times.is_live:
            return False
        return segment.spans.get(time, (0, 0))[1] > self._times.limit(now_ms)

    def _largest(self, root: Path, segment: Segment | None) -> Mapping[str, int]:
        time = self._times.column
        if segment is None or time is None:
            return {}
        by_part = largest_of_files([root / name for name in segment.files], time)
        if by_part or time not in segment.spans:
            return by_part
        return {WHOLE: segment.spans[time][1]}
